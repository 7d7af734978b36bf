package host

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// direntName is where the name starts in struct linux_dirent64:
// u64 ino, s64 off, u16 reclen, u8 type, then the name and a NUL.
const direntName = 19

// dirBuffer is the size of one read of a directory: some 1,500 entries.
const dirBuffer = 48 << 10

// eachEntry reads a directory from where its descriptor stands to the end. name
// ends with its NUL byte and is valid during the call. "." and ".." are left
// out. It stops at the first error of fn.
func eachEntry(fd int, buf []byte, fn func(name []byte, kind byte) error) error {
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOENT) { // the directory itself was removed
			return nil
		}
		if err != nil || n <= 0 {
			return err
		}
		for b := buf[:n]; len(b) > direntName; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size <= direntName || size > len(b) {
				return unix.EIO
			}
			rec := b[:size]
			b = b[size:]
			name := rec[direntName:]
			end := 0
			for end < len(name)-1 && name[end] != 0 {
				end++
			}
			if end == 1 && name[0] == '.' || end == 2 && name[0] == '.' && name[1] == '.' {
				continue
			}
			if err := fn(name[:end+1], rec[18]); err != nil {
				return err
			}
		}
	}
}
