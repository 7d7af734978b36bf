package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxStateFile bounds what is read as a sidecar, marker or record.
const maxStateFile = 4 << 20

// chmodFd changes the mode behind an O_PATH descriptor, whatever the umask did.
func chmodFd(fd int, mode uint32) error {
	return retry(func() error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) })
}

// syncDir makes the names in a directory durable. fd may be O_PATH.
func syncDir(fd int) error {
	r, err := openat2(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, beneath)
	if err != nil {
		return err
	}
	err = retry(func() error { return unix.Fsync(r) })
	if errors.Is(err, unix.EINVAL) { // some filesystems have nothing to sync
		err = nil
	}
	return errors.Join(err, unix.Close(r))
}

// readFileAt reads a small regular file; a link, a FIFO or a mount in its place
// is ErrDamaged, and nothing blocks on it.
func readFileAt(dirfd int, name string) ([]byte, error) {
	fd, err := openat2(dirfd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, strict)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%w: not a file of ours", ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxStateFile {
		return nil, fmt.Errorf("%w: not a file of ours", ErrDamaged)
	}
	return io.ReadAll(io.LimitReader(f, maxStateFile))
}

var tempSerial atomic.Int64

// tempPrefix names files that were not finished; they are swept when found.
const tempPrefix = ".tmp-"

// writeFileAt replaces name with data, or with fresh set fails with EEXIST if it
// is there. Whatever happens, name holds all of the old or all of the new, and
// once nil is returned the new survives a power cut.
func writeFileAt(dirfd int, name string, data []byte, fresh bool) (err error) {
	temp := fmt.Sprintf("%s%d-%d", tempPrefix, os.Getpid(), tempSerial.Add(1))
	fd, err := openat2(dirfd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, strict)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(dirfd, temp, 0)
		}
	}()
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o600))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	flags := uint(0)
	if fresh {
		flags = unix.RENAME_NOREPLACE
	}
	if err = retry(func() error { return unix.Renameat2(dirfd, temp, dirfd, name, flags) }); err != nil {
		return err
	}
	return syncDir(dirfd)
}
