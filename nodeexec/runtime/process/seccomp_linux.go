package process

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedSyscalls are of no use to a worker without capabilities, or open up
// kernel code that has been a way out of containers before.
var deniedSyscalls = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_SWAPON, unix.SYS_REBOOT,
}

// namespaceFlags of clone and unshare: a user namespace would give all
// capabilities inside of it.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Offsets in struct seccomp_data; the low half of the first argument on
// little-endian machines.
const (
	offNr   = 0
	offArch = 4
	offArg0 = 16
)

// filterSyscalls confines the calling thread. On machines for which no
// architecture is known here it does nothing; the other barriers stand.
func filterSyscalls() error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil
	}
	prog := filterProgram(arch)
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	return nil
}

func filterProgram(arch uint32) []unix.SockFilter {
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	// skip over the next n instructions unless the value is k (or has its bits).
	unless := func(op uint16, k uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jf: n}
	}
	ret := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	deny := func(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

	prog := []unix.SockFilter{
		load(offArch),
		// Programs of another mode (32 bit) have other numbers: none at all.
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1},
		deny(unix.ENOSYS),
		load(offNr),
	}
	if arch == unix.AUDIT_ARCH_X86_64 { // x32 is a second set of numbers
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jf: 1},
			deny(unix.ENOSYS))
	}
	// Its flags are in memory and cannot be seen here; callers fall back to clone.
	prog = append(prog, unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), deny(unix.ENOSYS))
	for _, nr := range deniedSyscalls {
		prog = append(prog, unless(unix.BPF_JEQ, nr, 1), deny(unix.EPERM))
	}
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		prog = append(prog, unless(unix.BPF_JEQ, nr, 4), load(offArg0),
			unless(unix.BPF_JSET, namespaceFlags, 1), deny(unix.EPERM), ret(unix.SECCOMP_RET_ALLOW))
	}
	return append(prog, ret(unix.SECCOMP_RET_ALLOW))
}
