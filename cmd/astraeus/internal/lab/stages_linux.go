package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// The lab's processes are stages of the same binary, chosen by argv[1].
const (
	stageInit    = "__lab-init"
	stageRoom    = "__lab-room"
	stageMachine = "__lab-machine"
)

// MaybeStage runs one of the lab's inner processes and does not return, when the
// process was started as one. main calls it before anything else.
func MaybeStage() {
	if len(os.Args) < 3 {
		return
	}
	var err error
	switch os.Args[1] {
	case stageInit:
		err = initMain(os.Args[2])
	case stageRoom:
		err = roomMain(os.Args[2])
	case stageMachine:
		err = machineMain(os.Args[2])
	default:
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// namespaceAttr is the one user, mount, pid and network namespace of a lab. The
// caller is root inside and nobody new outside.
func namespaceAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		GidMappingsEnableSetgroups: false,
		// Ctrl-C is the controller's to handle; it ends the room by closing its pipe.
		Setpgid: true,
	}
}

// CheckNamespaces says why a lab cannot run here and what to do about it, nil
// when it can. It starts a process in the namespaces and does nothing else.
func CheckNamespaces() error {
	cmd := exec.Command("/proc/self/exe", stageInit, "-")
	cmd.SysProcAttr = namespaceAttr()
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return &NamespaceError{Cause: errors.Join(err, errors.New(strings.TrimSpace(string(out)))), Hints: namespaceHints()}
}

// NamespaceError is returned where unprivileged user namespaces are forbidden.
type NamespaceError struct {
	Cause error
	Hints []string
}

func (e *NamespaceError) Error() string {
	return fmt.Sprintf("the lab needs a user, mount and network namespace of its own, and this machine does not give one (%v)\n%s",
		e.Cause, "  - "+strings.Join(e.Hints, "\n  - "))
}

func (e *NamespaceError) Unwrap() error { return e.Cause }

func namespaceHints() []string {
	var hints []string
	if sysctl("kernel/unprivileged_userns_clone") == "0" {
		hints = append(hints, "sudo sysctl kernel.unprivileged_userns_clone=1")
	}
	if sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" {
		hints = append(hints, "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile for astraeus that allows userns)")
	}
	if sysctl("user/max_user_namespaces") == "0" {
		hints = append(hints, "sudo sysctl user.max_user_namespaces=10000")
	}
	return append(hints,
		"run it as root: sudo astraeus lab (in a container: with --privileged, or with seccomp and AppArmor unconfined)",
		"without a lab, astraeus validate and astraeus plan work everywhere")
}

func sysctl(name string) string {
	data, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// initMain is pid 1 of the lab: it starts the room and reaps what is orphaned,
// workers of a killed agent among them. Nothing in it may use os/exec.Wait.
func initMain(dir string) error {
	if err := prepareNamespace(); err != nil {
		return err
	}
	if dir == "-" {
		return nil // CheckNamespaces: that it got here is the answer
	}
	if err := newBoot(dir); err != nil {
		return err
	}
	attr := &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}
	room, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], stageRoom, dir}, attr)
	if err != nil {
		return fmt.Errorf("start room: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == room.Pid && status.ExitStatus() != 0:
			return fmt.Errorf("the room ended: exit status %d", status.ExitStatus())
		case pid == room.Pid:
			return nil
		}
	}
}

// prepareNamespace makes the mount namespace private and gives it a /proc that
// shows its own processes.
func prepareNamespace() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// newBoot gives the lab's machines a boot id of their own: what ran in an
// earlier lab ended with it, as if its machines had been rebooted.
func newBoot(dir string) error {
	file := filepath.Join(dir, "boot_id")
	if err := writeAtomically(file, []byte(uuid.NewString()+"\n")); err != nil {
		return err
	}
	if err := unix.Mount(file, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return writeAtomically(path, append(data, '\n'))
}

// unmountBelow takes down every mount below a directory, the newest first.
func unmountBelow(dir string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	var errs []error
	for _, mount := range slices.Backward(mounts) {
		if err := unix.Unmount(mount.Mountpoint, 0); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", mount.Mountpoint, err))
		}
	}
	return errors.Join(errs...)
}
