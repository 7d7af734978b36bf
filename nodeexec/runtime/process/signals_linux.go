package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSigaction is the kernel's struct on amd64 and arm64.
type kernelSigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDefault   = 0
	sigIgnore    = 1
	signals      = 64
	sigsetLength = signals / 8
)

// unignoreSignals gives every ignored signal its default action: exec keeps
// ignored ones, and what started the agent may have ignored any, real-time ones
// too, of which the Go runtime knows nothing.
func unignoreSignals() {
	for sig := uintptr(1); sig <= signals; sig++ {
		var now kernelSigaction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), sigsetLength, 0, 0)
		if errno != 0 || now.handler != sigIgnore {
			continue
		}
		now = kernelSigaction{handler: sigDefault}
		// SIGKILL and SIGSTOP cannot be ignored, so nothing here can fail.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&now)), 0, sigsetLength, 0, 0)
	}
}
