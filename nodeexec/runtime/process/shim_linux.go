package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaybeShim takes over the program when it was started as a shim, and does not
// return then. Call it first thing in main, and in TestMain.
func MaybeShim() {
	if len(os.Args) > 1 && os.Args[1] == ShimArg {
		syscall.Exit(ShimMain()) // at once: nothing of this program is to be flushed
	}
}

// forwarded are the signals that reach a worker. Not all signals: the Go
// runtime's own would fill the channel.
var forwarded = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGPIPE}

// shim is pid 1 of a worker.
type shim struct {
	cfg     shimConfig
	report  *json.Encoder
	record  *os.File
	log     *logFile
	signals chan os.Signal
	away    atomic.Bool // it ends because its machine has no controller
}

// ShimMain is the shim; it returns the exit code of the program.
func ShimMain() int {
	// The worker inherits what this thread gives up.
	runtime.LockOSThread()
	// Before anything else: pid 1 loses signals that nobody waits for.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded...)
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this command is for the process engine only")
		return 2
	}
	config, reportTo := os.NewFile(fdConfig, "config"), os.NewFile(fdReport, "report")
	s := &shim{signals: signals, report: json.NewEncoder(reportTo), record: os.NewFile(fdRecord, "record")}
	err := s.prepare(config)
	if err != nil {
		s.tell(shimReport{Error: err.Error()})
		return 1
	}
	s.tell(shimReport{Ready: true})
	if !s.mayRun(config) {
		return 1
	}
	return s.run(reportTo)
}

// tell ignores errors: an agent that died meanwhile is no reason to end.
func (s *shim) tell(r shimReport) { _ = s.report.Encode(r) }

// prepare does everything that needs privileges and can fail.
func (s *shim) prepare(config *os.File) error {
	var err error
	if s.cfg, err = receiveConfig(config); err != nil {
		return err
	}
	if err := closeInherited(fdSources + len(s.cfg.Mounts)); err != nil {
		return fmt.Errorf("closing inherited descriptors: %w", err)
	}
	unix.Umask(0o022)
	if s.log, err = newLogFile(os.NewFile(fdLogs, "logs"), s.cfg.ID, s.cfg.LogMaxBytes); err != nil {
		return err
	}
	if s.cfg.Hostname != "" {
		if err := unix.Sethostname([]byte(s.cfg.Hostname)); err != nil {
			return fmt.Errorf("host name %s: %w", s.cfg.Hostname, err)
		}
	}
	unix.Umask(0) // modes as given, while building
	if err := buildRoot(s.cfg); err != nil {
		return err
	}
	unix.Umask(0o022)
	for i := range s.cfg.Mounts {
		unix.Close(fdSources + i)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding the shim: %w", err)
	}
	return dropPrivileges()
}

// closeInherited closes what the agent left open by mistake, and marks the rest
// close-on-exec. Descriptors of the Go runtime itself have no file behind them.
func closeInherited(first int) error {
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, n := range names {
		fd, err := strconv.Atoi(n.Name())
		if err != nil || fd < first {
			continue
		}
		to, err := os.Readlink(filepath.Join("/proc/self/fd", n.Name()))
		if err == nil && !strings.HasPrefix(to, "anon_inode:") {
			unix.Close(fd)
		}
	}
	return nil
}

// mayRun waits for the end of the config pipe and lets the disk decide: an
// agent that died before it wrote the record has not started this worker.
func (s *shim) mayRun(config *os.File) bool {
	_, _ = io.Copy(io.Discard, config) // any end of it is the end
	config.Close()
	return hasRecord(s.record, processFile)
}

// run runs the command and writes how it ended.
func (s *shim) run(reportTo *os.File) int {
	contact := s.cfg.contact()
	if contact.Away(now()) {
		s.ended(exitRecord{Reason: awayReason})
		s.tell(shimReport{Started: true})
		return 0
	}
	child, output, err := s.start()
	if err != nil {
		var c *commandError
		if !errors.As(err, &c) {
			c = &commandError{exitNotRunnable, err.Error()}
		}
		fmt.Fprintln(s.log, "astraeus: "+c.reason)
		s.ended(exitRecord{Code: &c.code, Reason: c.reason})
		s.tell(shimReport{Started: true})
		return 0
	}
	s.tell(shimReport{Started: true})
	reportTo.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		copyOutput(s.log, output)
	}()
	go s.forward(child)
	if contact.StopIfAway > 0 {
		go s.watchContact(contact)
	}
	s.reap(child)
	<-copied
	return 0
}

// start starts the command as a child of this thread, whose privileges are gone.
func (s *shim) start() (pid int, output *os.File, err error) {
	disarmShim()
	env := workerEnv(s.cfg.Env, s.cfg.GPUs)
	workDir := s.cfg.WorkDir
	if workDir == "" {
		workDir = "/"
	}
	path, err := findCommand(s.cfg.Command, workDir, env)
	if err != nil {
		return 0, nil, err
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer w.Close()
	unignoreSignals()
	pid, err = syscall.ForkExec(path, append([]string{s.cfg.Command}, s.cfg.Args...), &syscall.ProcAttr{
		Dir: workDir, Env: env,
		Files: []uintptr{null.Fd(), w.Fd(), w.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		r.Close()
		return 0, nil, explainExec(path, err)
	}
	return pid, r, nil
}

// forward passes signals on: those that end a worker to all its processes,
// because a shell in between does not pass them on; others to the command.
func (s *shim) forward(child int) {
	for sig := range s.signals {
		switch n := sig.(syscall.Signal); n {
		case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
			_ = unix.Kill(-1, n) // none left is fine
		case unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH:
			_ = unix.Kill(child, n)
		}
	}
}

// reap waits for the command, then ends all the rest and waits for it. While
// the engine stops the worker, the rest has its grace also when the command is
// gone: a shell that ends at once must not take with it what it ran. (The
// record says so, because a worker can send signals to pid 1 itself.) The
// engine kills what is left after the grace. It returns when no process of the worker is left.
func (s *shim) reap(child int) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return // no children left
		}
		if pid == child {
			e := exitOf(ws)
			if s.away.Load() {
				e.Reason = awayReason
			}
			s.ended(e)
			if !hasRecord(s.record, stopFile) && !s.away.Load() {
				_ = unix.Kill(-1, unix.SIGKILL)
			}
		}
	}
}

func exitOf(ws unix.WaitStatus) exitRecord {
	if ws.Signaled() {
		name := unix.SignalName(ws.Signal())
		code := 128 + int(ws.Signal())
		return exitRecord{Code: &code, Signal: name, Reason: "ended by " + name}
	}
	code := ws.ExitStatus()
	e := exitRecord{Code: &code}
	if code != 0 {
		e.Reason = fmt.Sprintf("exit code %d", code)
	}
	return e
}

func (s *shim) ended(e exitRecord) {
	e.Version, e.Ended = recordVersion, time.Now().UTC()
	if err := writeRecord(s.record, exitFile, e); err != nil {
		// Not through s.log: that is the copying goroutine's.
		fmt.Fprintf(os.Stderr, "astraeus: how the worker ended could not be recorded: %v\n", err)
	}
}
