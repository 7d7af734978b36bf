package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readBootID gives the id of this boot of the machine.
func readBootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// startTicks gives when a process started, in clock ticks since boot: field 22
// of its stat file. ok is false when the process is gone or a zombie.
func startTicks(pid int) (ticks uint64, ok bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, goneOr(err)
	}
	return parseStat(b)
}

// goneOr turns the error of a process that ended while it was being read into nil.
func goneOr(err error) error {
	if strings.Contains(err.Error(), unix.ESRCH.Error()) {
		return nil
	}
	return err
}

func parseStat(b []byte) (ticks uint64, ok bool, err error) {
	// The name (field 2) may hold spaces and parentheses: count from its end.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, false, fmt.Errorf("process stat %q: no name", b)
	}
	fields := strings.Fields(string(b[end+1:]))
	const state, start = 0, 19 // fields 3 and 22
	if len(fields) <= start {
		return 0, false, fmt.Errorf("process stat %q: too short", b)
	}
	if s := fields[state]; s == "Z" || s == "X" {
		return 0, false, nil
	}
	ticks, err = strconv.ParseUint(fields[start], 10, 64)
	return ticks, err == nil, err
}

// hasCapability reports whether the calling thread has it in effect.
func hasCapability(bit int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[bit/32].Effective&(1<<(bit%32)) != 0
}

// capsetEmpty takes all capabilities from the calling thread.
func capsetEmpty() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capset(&hdr, &data[0])
}

// capsetPointers are the arguments of capsetEmpty for a raw system call.
func capsetPointers() (hdr, data unsafe.Pointer) {
	return unsafe.Pointer(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}),
		unsafe.Pointer(&[2]unix.CapUserData{})
}
