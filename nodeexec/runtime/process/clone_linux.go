package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// shimProcess is a shim that has not been let go yet.
type shimProcess struct {
	pid     int
	pidfd   int      // -1 when taken
	config  *os.File // written to; closing it makes the shim look at the disk
	reports *os.File
	decoder *json.Decoder
}

func (p *shimProcess) takePidfd() int {
	fd := p.pidfd
	p.pidfd = -1
	return fd
}

// kill ends a shim that has run nothing. One that hangs in the kernel is not
// waited for: it cannot come back to run anything.
func (p *shimProcess) kill() {
	const patience = 2000 // milliseconds
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, patience)
	_ = unix.Waitid(unix.P_PIDFD, p.pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
}

func (p *shimProcess) close() {
	p.config.Close()
	p.reports.Close()
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
	}
}

// clone starts the shim in namespaces of its own.
func (e *Engine) clone(spec runtime.Spec, record *os.File, sources []*os.File, cgroup string) (*shimProcess, error) {
	var opened []*os.File // the shim's ends, closed here afterwards
	defer func() { closeAll(opened) }()
	keep := func(f *os.File, err error) (*os.File, error) {
		if err == nil {
			opened = append(opened, f)
		}
		return f, err
	}
	null, err := keep(os.OpenFile(os.DevNull, os.O_RDWR, 0))
	if err != nil {
		return nil, err
	}
	logs, err := keep(os.Open(spec.LogDir))
	if err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	log, err := keep(openLog(logs, spec.ID+".log"))
	if err != nil {
		return nil, err
	}
	p := &shimProcess{pidfd: -1}
	configR, configW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	opened = append(opened, configR)
	reportR, reportW, err := os.Pipe()
	if err != nil {
		configW.Close()
		return nil, err
	}
	opened = append(opened, reportW)
	p.config, p.reports, p.decoder = configW, reportR, json.NewDecoder(reportR)

	contact := null
	if spec.StopIfAway > 0 {
		contact = spec.Contact
	}
	files := append([]*os.File{null, null, log, configR, reportW, record, logs, contact}, sources...)
	if err := e.forkShim(p, spec.NetNS, files, cgroup); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (e *Engine) forkShim(p *shimProcess, netNS string, files []*os.File, cgroup string) error {
	sys := &syscall.SysProcAttr{
		Setsid:     true, // no signals meant for the agent's group
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		PidFD:      &p.pidfd,
	}
	if e.userNS {
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if cgroup != "" {
		dir, err := os.Open(cgroup)
		if err != nil {
			return err
		}
		defer dir.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{"PATH=" + defaultPath}, Sys: sys}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	fork := func() error {
		pid, err := syscall.ForkExec(e.opts.ShimCommand[0], e.opts.ShimCommand, attr)
		p.pid = pid
		return err
	}
	err := inNetNS(netNS, fork)
	goruntime.KeepAlive(files)
	if errors.Is(err, unix.EPERM) && e.userNS {
		return fmt.Errorf("the machine does not let an ordinary user make user namespaces: %w", err)
	}
	return err
}

// inNetNS runs do on a thread that is in the network namespace.
func inNetNS(path string, do func() error) error {
	if path == "" {
		return do()
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer ns.Close()
	return onOwnThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("network namespace %s: joining it: %w", path, err)
		}
		return do()
	})
}

// onOwnThread runs do on a thread that ends with it, so that no other
// goroutine finds itself in the wrong namespace.
func onOwnThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		goruntime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/self is the main
			// thread's. While this goroutine holds it, another has another.
			defer goruntime.UnlockOSThread()
			result <- onOwnThread(do)
			return
		}
		result <- do()
	}()
	return <-result
}

// prepareMounts makes a descriptor for the shim out of every mount: a detached
// clone, or the source itself with its path where only the shim may clone.
func prepareMounts(mounts []runtime.Mount, userNS bool) (out []shimMount, sources []*os.File, err error) {
	for _, m := range mounts {
		s, source, err := prepareMount(m, userNS)
		if err != nil {
			return nil, sources, fmt.Errorf("mount %s: %w", m.Target, err)
		}
		out, sources = append(out, s), append(sources, source)
	}
	return out, sources, nil
}

func prepareMount(m runtime.Mount, userNS bool) (shimMount, *os.File, error) {
	s := shimMount{Target: m.Target, ReadOnly: m.ReadOnly, Recursive: m.Recursive}
	fd := int(m.Source.Fd())
	st, err := statFD(fd)
	if err != nil {
		return s, nil, fmt.Errorf("the source's descriptor: %w", err)
	}
	s.Dir = isDir(st)
	if !userNS {
		tree, err := detach(fd, m.ReadOnly, m.Recursive)
		if err == nil {
			return s, os.NewFile(uintptr(tree), m.Target), nil
		}
		// The mount namespace may belong to a more privileged user
		// namespace than the agent's; the shim's own does not.
		if !errors.Is(err, unix.EPERM) {
			return s, nil, err
		}
	}
	if s.Path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return s, nil, fmt.Errorf("the source's path: %w", err)
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	goruntime.KeepAlive(m.Source)
	if err != nil {
		return s, nil, err
	}
	return s, os.NewFile(uintptr(dup), s.Path), nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
