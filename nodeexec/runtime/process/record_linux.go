package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// recordVersion is in every record file; readers refuse others.
const recordVersion = 1

// Names of the files in a record directory; doc.go says what they mean.
const (
	specFile    = "spec.json"
	processFile = "process.json"
	stopFile    = "stop.json"
	exitFile    = "exit.json"
)

type specRecord struct {
	Version int               `json:"version"`
	ID      string            `json:"id"`
	Labels  map[string]string `json:"labels,omitempty"`
	Command string            `json:"command"`
	BootID  string            `json:"boot_id"`
	Created time.Time         `json:"created"`
}

// processRecord identifies pid 1 of a worker: a pid alone is reused.
type processRecord struct {
	Version    int       `json:"version"`
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"start_ticks"`
	BootID     string    `json:"boot_id"`
	Cgroup     string    `json:"cgroup,omitempty"`
	Started    time.Time `json:"started"`
}

// stopRecord makes a stop survive the agent. Killed is zero until the kill.
type stopRecord struct {
	Version int       `json:"version"`
	Asked   time.Time `json:"asked"`
	KillAt  time.Time `json:"kill_at"`
	Killed  time.Time `json:"killed,omitzero"`
}

// exitRecord is written by the shim, or by the engine when the shim could not.
type exitRecord struct {
	Version int       `json:"version"`
	Code    *int      `json:"code"` // null: unknown
	Signal  string    `json:"signal,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Ended   time.Time `json:"ended"`
}

// writeRecord replaces a file of the record directory in one step. It works by
// descriptor, so that the shim can write after its root has changed, and so
// that a shim cannot write into another record of the same name.
func writeRecord(dir *os.File, name string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := name + ".tmp"
	fd, err := unix.Openat(int(dir.Fd()), tmp,
		unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), tmp)
	_, err = f.Write(body)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), tmp, int(dir.Fd()), name)
	}
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// readRecord reads a file of the record directory strictly. The error is
// fs.ErrNotExist when it is not there.
func readRecord(dir *os.File, name string, v any) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	body, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	return decodeRecord(name, body, v)
}

func decodeRecord(name string, body []byte, v any) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head.Version != recordVersion {
		return fmt.Errorf("%s: version %d, this program knows %d", name, head.Version, recordVersion)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// hasRecord reports whether the file is there; an error counts as absent,
// which for process.json means: do not run.
func hasRecord(dir *os.File, name string) bool {
	return unix.Faccessat(int(dir.Fd()), name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil
}
