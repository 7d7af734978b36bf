package lab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// Options of Open. Repo, Dir and Load are required.
type Options struct {
	Repo   string // the directory whose files are desired
	Dir    string // everything the lab makes is below it
	Status string // the status API's loopback address
	Load   reconciler.LoadFunc
	Schema string // version of the schema, for plan documents
	// Version of the program, for /metrics.
	Version string
	Log     *slog.Logger
}

// ErrInUse: another lab uses the directory.
var ErrInUse = errors.New("another lab is using this directory")

// Lab is a cluster on this computer. Open it, Run it, Close it.
type Lab struct {
	*control.Controller
	Address string // the status API's URL
	// Plans gives the plan of each commit, made when all machines were up.
	Plans <-chan Planned

	layout
	repo     string
	version  string
	log      *slog.Logger
	lock     *os.File
	recorder *gitsource.Recorder
	source   *gitsource.Source
	status   net.Listener
	room     *roomProcess
}

// Open puts a lab together and starts its machines' room. It reads the files
// once, so that what cannot be read is said before anything starts. Errors:
// *NamespaceError, ErrInUse, those of reading the files and of the store.
func Open(ctx context.Context, o Options) (l *Lab, err error) {
	if err := CheckNamespaces(); err != nil {
		return nil, err
	}
	dir, err := realPath(o.Dir)
	if err != nil {
		return nil, err
	}
	repo, err := realPath(o.Repo)
	if err != nil {
		return nil, err
	}
	if schema.Covers(repo, dir) {
		// Its own files would be part of the repository, and change with every pass.
		return nil, fmt.Errorf("the lab's directory %s lies in the repository %s: give --dir elsewhere", dir, repo)
	}
	l = &Lab{layout: layout{dir}, repo: repo, version: o.Version, log: o.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
			l = nil
		}
	}()
	if err := l.claim(); err != nil {
		return l, err
	}
	if err := l.openSource(ctx); err != nil {
		return l, err
	}
	if l.room, err = startRoom(l.layout, l.log); err != nil {
		return l, err
	}
	return l, l.openController(ctx, o)
}

// realPath is where a path leads, links resolved, also when its last segments do
// not exist yet.
func realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := name; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// claim makes the directory this lab's own.
func (l *Lab) claim() error {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(l.layout.lock(), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	l.lock = file
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: %w", l.dir, ErrInUse)
	}
	return nil
}

func (l *Lab) openSource(ctx context.Context) (err error) {
	if info, err := os.Stat(l.repo); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory with the files of a cluster", l.repo)
	}
	if l.recorder, err = gitsource.OpenRecorder(ctx, l.layout.repo()); err != nil {
		return err
	}
	if _, _, err = l.recorder.Record(ctx, l.repo, "the files as they are"); err != nil {
		return err
	}
	l.source, err = gitsource.Open(ctx, gitsource.Options{URL: l.layout.repo(), Ref: gitsource.RecorderBranch})
	return err
}

func (l *Lab) openController(ctx context.Context, o Options) (err error) {
	if l.status, err = statusapi.Listen(ctx, statusapi.Listening{Address: cmp.Or(o.Status, "127.0.0.1:0")}); err != nil {
		return err
	}
	l.Address = "http://" + l.status.Addr().String()
	gate := newGate(o.Schema, l.room.want)
	l.Plans = gate.plans
	l.Controller, err = control.Open(ctx, control.Options{
		Source: reconciler.Git(l.source), Load: o.Load, Plan: gate.Plan, Address: "unix:" + socketName, Log: o.Log,
		// A lab's state may be lost with the computer that it stands for.
		Store: store.Options{Cluster: "lab", Dir: l.store(), NoSync: true},
	})
	if err != nil {
		return err
	}
	socket, err := l.listen()
	if err != nil {
		return err
	}
	l.Listen(socket)
	return writeAtomically(l.layout.address(), []byte(l.Address+"\n"))
}

// listen opens the link's socket by way of the directory's descriptor, whose
// name is short whatever the directory's is.
func (l *Lab) listen() (net.Listener, error) {
	if err := os.Remove(filepath.Join(l.dir, socketName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dir, err := os.Open(l.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	listener, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName))
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	// Its name is that of a descriptor which is gone by then; Close removes the file.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}

// Run reconciles, follows edits of the files and serves the status API until the
// context ends, which is no error, or until one of them or the room fails.
func (l *Lab) Run(ctx context.Context) error {
	server := statusapi.NewServer(statusapi.NewHandler(statusapi.Options{Source: l.Source(), Metrics: l.Metrics(), Version: l.version, Log: l.log}))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.Controller.Run(ctx) })
	group.Go(func() error { return l.follow(ctx) })
	group.Go(func() error {
		if err := server.Serve(l.status); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("status API: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		select {
		case <-l.room.ended:
			return fmt.Errorf("the machines' room ended; see %s", filepath.Join(l.dir, "room.log"))
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		<-ctx.Done() // whatever ended first: nothing else closes the server
		return server.Close()
	})
	return group.Wait()
}

// follow records the files as a commit whenever they change.
func (l *Lab) follow(ctx context.Context) error {
	changes, err := gitsource.WatchDir(ctx, l.repo, 2*time.Second, 5*time.Millisecond)
	if err != nil {
		return err
	}
	for range changes {
		if _, _, err := l.recorder.Record(ctx, l.repo, "the files were edited"); err != nil && ctx.Err() == nil {
			// An error is never an empty tree: what was recorded last stays in force (G-5).
			l.log.Warn("the files cannot be read; the last version stays in force", "error", err)
		}
	}
	return nil
}

// Close ends the machines, their workers and mounts, and lets go of the
// directory. Run must have returned.
func (l *Lab) Close() error {
	var errs []error
	if l.room != nil {
		errs = append(errs, l.room.end())
	}
	if l.Controller != nil {
		errs = append(errs, l.Controller.Close())
	}
	if l.status != nil {
		_ = l.status.Close() // closed by Run, unless it did not run
	}
	if l.source != nil {
		errs = append(errs, l.source.Close())
	}
	if l.recorder != nil {
		errs = append(errs, l.recorder.Close())
	}
	if l.lock != nil {
		for _, leftover := range []string{l.layout.address(), filepath.Join(l.dir, socketName)} {
			if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}

// SaveObserved writes what the machines report now, and where workers are, as an
// observed state file for `astraeus plan --observed`.
func (l *Lab) SaveObserved(ctx context.Context) (file string, err error) {
	view, err := l.Source().View(ctx)
	if err != nil {
		return "", err
	}
	return l.observed(), writeJSON(l.observed(), view.Observed())
}

// roomProcess is the child in which the machines are.
type roomProcess struct {
	at    layout
	log   *slog.Logger
	cmd   *exec.Cmd
	pipe  *os.File
	ended chan struct{}

	conf  roomConf
	last  []byte      // conf as it was told last, nil before
	lines chan []byte // the newest that was not told yet
}

func startRoom(at layout, log *slog.Logger) (*roomProcess, error) {
	r := &roomProcess{at: at, log: log, ended: make(chan struct{}), lines: make(chan []byte, 1)}
	if err := r.remember(); err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	logFile, err := os.OpenFile(filepath.Join(at.dir, "room.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	defer func() { _ = logFile.Close() }()
	r.pipe, r.cmd = out, exec.Command("/proc/self/exe", stageInit, at.dir)
	r.cmd.SysProcAttr = namespaceAttr()
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = in, logFile, logFile
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the machines' room: %w", err), out.Close())
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // what it had to say is in its log
	}()
	go r.tell()
	return r, nil
}

// remember reads how the room was furnished in an earlier life of the lab.
func (r *roomProcess) remember() error {
	data, err := os.ReadFile(r.at.room())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r.conf)
	}
	if err != nil {
		return fmt.Errorf("%s says which disks the machines have: %w", r.at.room(), err)
	}
	return nil
}

// want makes the room one for these objects. It does not wait: the room may be
// busy with taking a machine down.
func (r *roomProcess) want(objects map[schema.Key]*schema.Object) {
	conf := planRoom(objects, r.conf)
	line, err := json.Marshal(conf)
	if err != nil || bytes.Equal(line, r.last) {
		return
	}
	r.conf, r.last = conf, line
	if err := writeAtomically(r.at.room(), line); err != nil {
		r.log.Warn("the machines' disks will not be known after a restart", "error", err)
	}
	select {
	case <-r.lines: // superseded before it was told
	default:
	}
	r.lines <- line
}

// tell hands what is wanted to the room, a line each.
func (r *roomProcess) tell() {
	for {
		select {
		case line := <-r.lines:
			if _, err := r.pipe.Write(append(line, '\n')); err != nil {
				return // the room is gone, which Run says
			}
		case <-r.ended:
			return
		}
	}
}

// end closes the room's input, which takes the machines down, and waits.
func (r *roomProcess) end() error {
	err := r.pipe.Close()
	select {
	case <-r.ended:
	case <-time.After(agentGrace + 10*time.Second):
		// Pid 1 of the namespace: everything in it goes too.
		err = errors.Join(err, r.cmd.Process.Kill())
		<-r.ended
	}
	return err
}
