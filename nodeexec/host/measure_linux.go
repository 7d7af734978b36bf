package host

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// measureTimeout bounds a measurement whose caller sets no deadline.
const measureTimeout = time.Hour

// measureWorkers: more than four gain nothing, on one disk and on many.
const measureWorkers = 4

// Measure asks a directory's filesystem what is left, within 3 s, and sums up
// the directory (D-91). Directories of one filesystem are measured one after
// the other. When ctx ends the walk stops by itself; one that hangs in the
// kernel is left behind 3 s later, and until it is over measurements of that
// filesystem fail at once with ErrNotAnswering.
func (h *Host) Measure(ctx context.Context, d *Dir) (Usage, error) {
	n, err := h.askRoom(ctx, d)
	if err != nil {
		return Usage{}, wrap(d.Path, err)
	}
	fd, err := openat2(int(d.File.Fd()), ".", dirFlags, beneath)
	if err != nil {
		return Usage{}, wrap(d.Path, err)
	}
	// A copy of the descriptor: the caller may close d while a walk still hangs.
	// Whoever sets taken first closes it.
	dup, taken := &Dir{File: os.NewFile(uintptr(fd), d.Path), Path: d.Path}, &atomic.Bool{}
	patient, stop := graced(ctx, probeTimeout)
	defer stop()
	u, err := ask(patient, h.probes, fmt.Sprintf("measure %d", d.Device), measureTimeout, func() (Usage, error) {
		if !taken.CompareAndSwap(false, true) {
			return Usage{}, ErrClosed
		}
		defer dup.Close()
		bytes, files, err := TreeSize(ctx, dup, measureWorkers)
		return Usage{Bytes: bytes, Files: files, FreeBytes: n.free, FreeInodes: n.inodes}, err
	}, nil)
	if taken.CompareAndSwap(false, true) {
		dup.Close()
	}
	return u, wrap(d.Path, err)
}

// askRoom is the filesystem's numbers under a directory, under a deadline.
func (h *Host) askRoom(ctx context.Context, d *Dir) (numbers, error) {
	entries, err := h.table()
	if err != nil {
		return numbers{}, err
	}
	id, err := mountID(int(d.File.Fd()))
	if err != nil {
		return numbers{}, err
	}
	e := entryByID(entries, id)
	if e == nil {
		return numbers{}, ErrNotMounted
	}
	return ask(ctx, h.probes, e.probeKey(), probeTimeout, func() (numbers, error) { return h.numbers(e) }, nil)
}
