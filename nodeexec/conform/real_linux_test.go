package conform_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/conform"
	"astraeus.io/astraeus/nodeexec/health"
	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs/lab"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/nodeexec/runtime/process"
)

const inside = "CONFORM_TEST_INSIDE"

// TestMain runs the tests again in a mount namespace of their own, and in a user
// namespace where there are no rights to mount.
func TestMain(m *testing.M) {
	process.MaybeShim()
	if os.Getenv(inside) != "" {
		goleak.VerifyTestMain(m)
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The real machine does what the simulated one does: D-9, D-21, D-32, D-42, D-70,
// D-80, X-2, X-7, X-8, X-16, X-17, X-20.
func TestConforms(t *testing.T) {
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	conform.Run(t, func(t *testing.T, names ...string) []*conform.Machine {
		peers := filepath.Join(t.TempDir(), "lab.json")
		known := map[string]lab.Peer{}
		var list []*conform.Machine
		for i, name := range names {
			r := newReal(t, name, fmt.Sprintf("192.0.2.%d", i+1), peers)
			known[r.Address] = lab.Peer{Machine: name, Root: r.root, WorkRoot: conform.WorkRoot}
			list = append(list, &r.Machine)
		}
		require.NoError(t, lab.WritePeers(peers, known))
		return list
	})
}

// real is a machine in a directory of this computer.
type real struct {
	conform.Machine
	t           *testing.T
	root, peers string
	control     string // where workers are told to end
	host        *host.Host
}

func newReal(t *testing.T, name, address, peers string) *real {
	r := &real{t: t, root: t.TempDir(), control: t.TempDir(), peers: peers}
	r.Name, r.Address, r.LogDir = name, address, t.TempDir()
	r.Mkdir = func(p string) { require.NoError(t, os.MkdirAll(r.at(p), 0o755)) }
	r.Write = func(p string) {
		r.Mkdir(filepath.Dir(p))
		require.NoError(t, os.WriteFile(r.at(p), []byte("x"), 0o644))
	}
	r.Symlink = func(target, at string) {
		r.Mkdir(filepath.Dir(at))
		require.NoError(t, os.Symlink(target, r.at(at)))
	}
	r.Exists = func(p string) bool {
		_, err := os.Lstat(r.at(p))
		return err == nil
	}
	r.Check, r.Listen, r.Closed = health.Check, r.listen, r.closed
	r.Worker, r.Exit, r.Restart = r.worker, r.exit, r.restart
	r.Mkdir("/data")
	r.Mkdir("/nvme")
	r.start()
	t.Cleanup(r.end)
	return r
}

func (r *real) at(p string) string { return filepath.Join(r.root, p) }

func (r *real) start() {
	t := r.t
	h, err := host.New(host.Options{Root: r.root, WorkRoot: conform.WorkRoot, StateDir: conform.StateDir})
	require.NoError(t, err)
	shares, err := lab.New(lab.Options{Machine: r.Name, WorkRoot: conform.WorkRoot, Host: h, Peer: lab.PeersFile(r.peers),
		Addresses: func(context.Context) ([]string, error) { return []string{r.Address}, nil }})
	require.NoError(t, err)
	engine, err := process.New(process.Options{StateDir: filepath.Join(r.control, "engine")})
	require.NoError(t, err)
	r.host, r.Host, r.Shares, r.Engine = h, nodeexec.OnHost(h), shares, engine
}

func (r *real) restart() {
	require.NoError(r.t, r.Engine.Close())
	require.NoError(r.t, r.host.Close())
	r.start()
}

// end takes workers and mounts away, which temporary directories cannot be removed under.
func (r *real) end() {
	list, err := r.Engine.List(context.Background())
	require.NoError(r.t, err)
	for _, w := range list.Workers {
		require.NoError(r.t, r.Engine.Stop(context.Background(), w.ID, 0))
	}
	require.NoError(r.t, r.Engine.Close())
	mounts, err := r.host.Mounts(context.Background())
	require.NoError(r.t, err)
	for _, m := range mounts {
		require.NoError(r.t, r.host.Unmount(m.Target, false, true))
	}
	for _, c := range []string{"exports", "datavolumes/mounts"} { // mount points may be immutable
		_ = r.host.Unmount(filepath.Join(conform.WorkRoot, c), false, false)
	}
	require.NoError(r.t, r.host.Close())
}

// worker waits until a file with its exit code is there.
func (r *real) worker(id string) runtime.Spec {
	dir, err := os.OpenFile(r.control, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { dir.Close() })
	script := `while ! test -s "/ctl/$0"; do sleep 0.01; done; exit "$(cat "/ctl/$0")"`
	return runtime.Spec{ID: id, Command: "sh", Args: []string{"-c", script, id}, LogDir: r.LogDir,
		Mounts: []runtime.Mount{{Source: dir, Target: "/ctl", ReadOnly: true}}}
}

func (r *real) exit(id string, code int) {
	name := filepath.Join(r.control, id)
	require.NoError(r.t, os.WriteFile(name+".new", fmt.Appendf(nil, "%d", code), 0o644))
	require.NoError(r.t, os.Rename(name+".new", name))
}

func (r *real) listen(status int) (string, int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	if status == 0 { // the kernel accepts and nobody answers
		r.t.Cleanup(func() { l.Close() })
	} else {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method != http.MethodGet || q.URL.RequestURI() != "/healthz?deep=1" {
				status = http.StatusTeapot
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})}
		done := make(chan error, 1)
		go func() { done <- server.Serve(l) }()
		r.t.Cleanup(func() { server.Close(); <-done })
	}
	return "127.0.0.1", l.Addr().(*net.TCPAddr).Port
}

// closed is a port that something just gave back.
func (r *real) closed() (string, int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	require.NoError(r.t, l.Close())
	return "127.0.0.1", l.Addr().(*net.TCPAddr).Port
}
