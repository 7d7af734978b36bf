package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/nodeexec/host"
)

// openExport opens an export's directory on the other machine.
func openExport(real string) (*host.Dir, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, real, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, fmt.Errorf("the export cannot be opened: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("the export does not answer: %w", err)
	}
	return &host.Dir{File: os.NewFile(uintptr(fd), real), Path: real, Device: st.Dev, Inode: st.Ino}, nil
}
