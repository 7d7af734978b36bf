package process

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// securebits: uid 0 means nothing by itself, and this cannot be undone.
const secureNoRoot = 1<<0 | 1<<1 // SECBIT_NOROOT and its lock

// dropPrivileges takes every privilege from the calling thread, for good, and
// so from what it starts. The goroutine must be locked to its thread.
func dropPrivileges() error {
	// In a user namespace that maps one id, group changes are denied, and
	// the groups it was made with mean nothing inside.
	if err := syscall.Setgroups(nil); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("dropping groups: %w", err)
	}
	// The session keyring is the agent's until left; keyrings may not exist.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureNoRoot, 0, 0, 0); err != nil {
		return fmt.Errorf("securebits: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // above the last one this kernel knows
		}
		if err != nil {
			return fmt.Errorf("capability bounding set: %w", err)
		}
	}
	if err := capsetEmpty(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := filterSyscalls(); err != nil {
		return fmt.Errorf("system call filter: %w", err)
	}
	return nil
}

// disarmShim takes the capabilities from the shim's other threads too, where
// the Go runtime can do that (not in programs with cgo: race-detector builds).
// Nothing depends on it: the worker cannot reach the shim.
func disarmShim() {
	hdr, data := capsetPointers()
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(hdr), uintptr(data), 0)
}
