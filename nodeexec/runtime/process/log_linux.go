package process

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// logFile appends a worker's output to <id>.log in a directory and keeps one
// older file, so that a worker never takes more than twice the cap.
type logFile struct {
	dir  *os.File
	name string
	max  int64
	f    *os.File
	size int64
}

// openLog opens the file for appending; a link in its place is refused.
func openLog(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name,
		unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, fmt.Errorf("log file %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func newLogFile(dir *os.File, id string, max int64) (*logFile, error) {
	l := &logFile{dir: dir, name: id + ".log", max: max}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := openLog(l.dir, l.name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write never fails: a full disk must not block or end the worker. What cannot
// be written is lost.
func (l *logFile) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if l.size >= l.max {
			l.rotate()
		}
		piece := rest[:min(int64(len(rest)), max(l.max-l.size, 1))]
		n, err := l.f.Write(piece)
		l.size += int64(n)
		if err != nil {
			break
		}
		rest = rest[len(piece):]
	}
	return len(p), nil
}

func (l *logFile) rotate() {
	fd := int(l.dir.Fd())
	if err := unix.Renameat(fd, l.name, fd, l.name+".1"); err != nil {
		// Not ours to rename (another owner): keep within the cap anyway.
		if l.f.Truncate(0) == nil {
			l.size = 0
		}
		return
	}
	old := l.f
	if err := l.open(); err != nil {
		return // goes on with the old file
	}
	old.Close()
}

// copyOutput copies until all writers are gone.
func copyOutput(l *logFile, r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_, _ = l.Write(buf[:n]) // never fails, see above
		}
		if err != nil {
			return
		}
	}
}
