package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nobody is who runs the lab when the tests run as root: an ordinary user.
const nobody = 65534

// patience bounds every wait for another process; nothing passes because of it.
const patience = 90 * time.Second

var program string // the astraeus binary

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "astraeus-lab")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err := os.Chmod(dir, 0o755); err != nil { // nobody runs what is in it
			panic(err)
		}
		program = filepath.Join(dir, "astraeus")
		build := exec.Command("go", "build", "-o", program, "astraeus.io/astraeus/cmd/astraeus")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v\n%s", err, out))
		}
		return m.Run()
	}())
}

// home is a directory that the ordinary user owns.
func home(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, nobody, nobody))
	}
	return dir
}

// command is the program as an ordinary user gives it at home.
func command(ctx context.Context, dir, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1", "TMPDIR=" + home}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	return ordinary(cmd)
}

// ordinary makes a command one of an ordinary user.
func ordinary(cmd *exec.Cmd) *exec.Cmd {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// run runs the program to its end.
func run(t testing.TB, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runIn(t, dir, dir, args...)
}

// runIn is run in a directory that is not the user's home.
func runIn(t testing.TB, dir, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := command(ctx, dir, home, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// needsNamespaces skips where the machine gives an ordinary user none, and fails there in CI.
func needsNamespaces(t testing.TB) {
	t.Helper()
	cmd := ordinary(exec.Command("unshare", "--user", "--map-root-user", "true"))
	if err := cmd.Run(); err != nil && os.Getenv("CI") == "" {
		t.Skip("no unprivileged user namespaces here: ", err)
	}
}

// example is a copy of examples/repo that the ordinary user may edit.
func example(t testing.TB, dir string) string {
	t.Helper()
	repo := filepath.Join(dir, "repo")
	require.NoError(t, os.CopyFS(repo, os.DirFS("../../examples/repo")))
	give(t, repo)
	return repo
}

// give makes everything below a path the ordinary user's.
func give(t testing.TB, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	require.NoError(t, filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, nobody, nobody))
	}))
}

// running is a lab that follows its files.
type running struct {
	t       testing.TB
	dir     string // of the lab
	address string

	mu     sync.Mutex
	stderr strings.Builder
	stdout output
	done   chan error
	cmd    *exec.Cmd
}

// start runs a lab until the test ends.
func start(t testing.TB, at, repo string) *running {
	t.Helper()
	return startIn(t, at, at, "lab", "--repo", repo, "--dir", filepath.Join(at, "lab"))
}

// startIn runs a command line that is a lab's until the test ends.
func startIn(t testing.TB, dir, home string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, done: make(chan error, 1)}
	r.cmd = command(ctx, dir, home, args...)
	r.cmd.Stdout = &r.stdout
	pipe, err := r.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	ready := make(chan []string, 1)
	go func() {
		r.read(pipe, ready)
		r.done <- r.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		r.noLeftovers()
	})
	select {
	case found := <-ready:
		r.address, r.dir = found[1], found[2]
	case err := <-r.done:
		r.done <- err
		t.Fatalf("the lab ended: %v\n%s", err, r.text())
	case <-time.After(patience):
		t.Fatal("the lab does not start\n" + r.text())
	}
	return r
}

// output is what a running program has written so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var addressPattern = regexp.MustCompile(`status API at (http://\S+), everything else in (\S+)`)

func (r *running) read(pipe io.Reader, ready chan<- []string) {
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		r.mu.Lock()
		r.stderr.WriteString(lines.Text() + "\n")
		r.mu.Unlock()
		if m := addressPattern.FindStringSubmatch(lines.Text()); m != nil {
			ready <- m
		}
	}
}

func (r *running) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.String()
}

// until waits for something that other processes bring about.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	require.Eventually(r.t, ok, patience, 5*time.Millisecond, "%s\n%s", what, lazily(r.text))
}

type lazily func() string

func (l lazily) String() string { return l() }

// get reads the status API; false while it does not answer yet.
func (r *running) get(path string, value any) bool {
	resp, err := http.Get(r.address + path)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(value) == nil
}

type runBody struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase   string
		Attempt int
		Summary string
		Workers []struct{ Name, Machine, State string }
	}
}

// runs are the runs by name.
func (r *running) runs() map[string]runBody {
	var page struct{ Items []runBody }
	out := map[string]runBody{}
	if r.get("/v1/runs", &page) {
		for _, item := range page.Items {
			out[item.Metadata.Name] = item
		}
	}
	return out
}

func (r *running) phase(run string) string { return r.runs()[run].Status.Phase }

// settled waits until every run of the example is where it ends up.
func (r *running) settled() {
	r.t.Helper()
	r.until("the example's runs end or run", func() bool {
		runs := r.runs()
		for _, name := range []string{"prepare", "train", "import"} {
			if runs[name].Status.Phase != "Succeeded" {
				return false
			}
		}
		return runs["browse"].Status.Phase == "Running" && runs["api-0"].Status.Phase == "Running"
	})
}

// host is a path of a machine as this computer sees it.
func (r *running) host(machine, path string) string {
	return filepath.Join(r.dir, "machines", machine, "root", path)
}

// noLeftovers: a lab leaves nothing behind but its directory.
func (r *running) noLeftovers() {
	require.Empty(r.t, processes(r.t, r.dir), "processes of the lab")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(r.t, err)
	require.NotContains(r.t, string(mounts), r.dir)
	require.NoFileExists(r.t, filepath.Join(r.dir, "address"))
	require.NoFileExists(r.t, filepath.Join(r.dir, "link.sock"))
}

// processes are those whose command line or working directory speaks of dir, and
// their descendants, by pid: a worker's says nothing of where it came from.
func processes(t testing.TB, dir string) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	out, others, parent := map[int]string{}, map[int]string{}, map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it ended meanwhile
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 {
			parent[pid], _ = strconv.Atoi(fields[1])
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd")) // empty for one that ended
		args := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(args, dir) || strings.HasPrefix(cwd, dir) {
			out[pid] = args
		} else {
			others[pid] = args
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, args := range others {
			if _, ours := out[parent[pid]]; ours {
				out[pid], grown = args, true
				delete(others, pid)
			}
		}
	}
	return out
}

// agent is the process of a machine's agent.
func (r *running) agent(machine string) int {
	r.t.Helper()
	for pid, args := range processes(r.t, r.dir) {
		if strings.Contains(args, "__lab-machine") && strings.Contains(args, `"name":"`+machine+`"`) {
			return pid
		}
	}
	return 0
}

// write replaces a file of the repository.
func write(t testing.TB, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	give(t, filepath.Dir(file))
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
