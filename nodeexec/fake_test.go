package nodeexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// world is a whole machine in memory: host, copies, exports, mounts, workers.
// With a path it is kept in a file, so that a test can kill the process.
type world struct {
	mu    sync.Mutex
	path  string
	state worldState
	// fail makes an effect fail, hang makes it wait for its context, by name.
	fail map[string]error
	hang map[string]bool
	// tries counts effects by name, failed ones too.
	tries map[string]int
	// incomplete makes the engine's listing incomplete.
	incomplete bool
	wrong      bool              // mounts show another source than wanted
	disk       schema.Filesystem // with an id: the one that copies are on, each as large as sizes says
	sizes      map[string]int64  // of copies, by uid; 42 otherwise
	links      map[string]string
	events     chan struct{}
	onEffect   func(string)
}

type worldState struct {
	Workers map[string]*fakeWorker
	Copies  map[string]*schema.Copy
	Marked  map[string]bool // copies with a fill marker
	Dirs    map[string]string
	Exports []schema.Export
	Mounts  []schema.Mount
	Log     []string // effects in order
}

type fakeWorker struct {
	Status runtime.Status
	Env    []string
	Files  map[string]string
	Mounts []string
	Starts int
}

func newWorld(path string) *world {
	w := &world{path: path, fail: map[string]error{}, hang: map[string]bool{}, tries: map[string]int{}, events: make(chan struct{}, 1)}
	w.state = worldState{Workers: map[string]*fakeWorker{}, Copies: map[string]*schema.Copy{}, Marked: map[string]bool{},
		Dirs: map[string]string{"/data": "fs-data", "/data/set": "fs-data", "/mnt/disk": "fs-disk"}}
	if body, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(body, &w.state); err != nil {
			panic(err)
		}
	}
	return w
}

// effect is every change of the world: it may fail or hang first.
func (w *world) effect(ctx context.Context, name string, change func()) error {
	w.mu.Lock()
	hook := w.onEffect
	w.tries[name]++
	w.mu.Unlock()
	if hook != nil {
		hook(name)
	}
	w.mu.Lock()
	err, hang := w.fail[name], w.hang[name]
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Log = append(w.state.Log, name)
	change()
	w.save()
	return nil
}

func (w *world) save() {
	if w.path == "" {
		return
	}
	body, _ := json.Marshal(w.state)
	err := os.WriteFile(w.path+".tmp", body, 0o600)
	if err = errors.Join(err, os.Rename(w.path+".tmp", w.path)); err != nil {
		panic(err)
	}
}

func (w *world) wake() {
	select {
	case w.events <- struct{}{}:
	default:
	}
}

func (w *world) set(change func(*worldState)) {
	w.mu.Lock()
	change(&w.state)
	w.save()
	w.mu.Unlock()
	w.wake()
}

func (w *world) log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.state.Log)
}

func (w *world) tried(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tries[name]
}

func (w *world) setFail(fail map[string]error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

func (w *world) count(name string) int {
	n := 0
	for _, l := range w.log() {
		if l == name {
			n++
		}
	}
	return n
}

// fakeHost, fakeCopies, fakeShares and fakeEngine are the world's sides.
type fakeHost struct{ *world }

func (fakeHost) BootID() (string, error) { return "boot-1", nil }
func (fakeHost) Resources(context.Context) (schema.Resources, error) {
	return schema.Resources{CPUCores: 8, MemoryBytes: 1 << 34}, nil
}
func (fakeHost) Addresses(context.Context) ([]string, error) { return []string{"192.0.2.1"}, nil }
func (h fakeHost) Filesystems(context.Context) ([]schema.Filesystem, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []schema.Filesystem{{MountPoint: "/", ID: "fs-root", TotalBytes: 1 << 40, FreeBytes: 1 << 39}}
	if h.disk.ID != "" {
		list = append(list, h.disk)
	}
	return list, h.fail["Filesystems"]
}

func (h fakeHost) OpenDir(path, grant string, forbidden []string) (*host.Dir, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range forbidden {
		if schema.Overlaps(f, path) {
			return nil, &host.PathError{Path: path, Err: host.ErrForbidden}
		}
	}
	if !schema.Covers(grant, path) {
		return nil, &host.PathError{Path: path, Err: host.ErrOutsideGrant}
	}
	id, ok := h.state.Dirs[path]
	if !ok {
		return nil, &host.PathError{Path: path, Err: host.ErrMissing}
	}
	return &host.Dir{Path: cmp.Or(h.links[path], path), FSID: id}, nil
}

func (h fakeHost) MakeDir(path, grant string, forbidden []string) (*host.Dir, error) {
	dir, err := h.OpenDir(path, grant, forbidden)
	if !errors.Is(err, host.ErrMissing) {
		return dir, err
	}
	if err := h.effect(context.Background(), "MakeDir "+path, func() { h.state.Dirs[path] = "fs-root" }); err != nil {
		return nil, err
	}
	return h.OpenDir(path, grant, forbidden)
}

func (h fakeHost) OpenBeneath(dir *host.Dir, sub string) (*host.Dir, error) {
	return &host.Dir{Path: dir.Path + "/" + sub, FSID: dir.FSID}, nil
}

func (h fakeHost) Measure(ctx context.Context, dir *host.Dir) (host.Usage, error) {
	h.mu.Lock()
	hang := h.hang["Measure "+dir.Path]
	h.mu.Unlock()
	if hang {
		<-ctx.Done()
		return host.Usage{}, ctx.Err()
	}
	usage := host.Usage{Bytes: 42, Files: 3, FreeBytes: 100, FreeInodes: 7}
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, c := range h.state.Copies {
		if size, ok := h.sizes[uid]; ok && c.Folder == dir.Path {
			usage.Bytes = size
		}
	}
	return usage, nil
}

func (h fakeHost) Copies(string) Copies { return fakeCopies(h) }

type fakeCopies struct{ *world }

func (fakeCopies) Close() {}

func (c fakeCopies) List(_ context.Context, locations []schema.DataLocation) (host.CopyListing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := host.CopyListing{Complete: true}
	for _, l := range locations {
		list.Locations = append(list.Locations, schema.DataLocationState{Path: l.Path, Present: l.Present, Mounted: true, UsedBytes: -1, FreeBytes: -1})
	}
	for _, item := range c.state.Copies {
		list.Copies = append(list.Copies, *item)
	}
	return list, nil
}

func (c fakeCopies) Open(uid, folder string) (*host.Dir, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item := c.state.Copies[uid]
	if item == nil {
		return nil, host.ErrNoCopy
	}
	return &host.Dir{Path: strings.TrimSuffix(item.Folder+"/"+folder, "/"), FSID: item.FSID}, nil
}

func (c fakeCopies) HasFillMarker(uid string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Marked[uid], nil
}

func (c fakeCopies) Create(ctx context.Context, l schema.DataLocation, drive schema.Key, uid string) error {
	return c.effect(ctx, "CreateCopy "+uid, func() {
		if c.state.Copies[uid] == nil {
			c.state.Copies[uid] = &schema.Copy{Drive: drive.Scoped(), UID: uid, State: schema.CopyPresent,
				Folder: l.Path + "/drives/" + drive.Scoped(), Bytes: -1, Files: -1}
		}
	})
}

func (c fakeCopies) Delete(ctx context.Context, drive schema.Key, uid string) error {
	return c.effect(ctx, "DeleteCopy "+uid, func() {
		delete(c.state.Copies, uid)
		c.disk.FreeBytes, c.disk.UsedBytes = c.disk.FreeBytes+c.sizes[uid], c.disk.UsedBytes-c.sizes[uid]
	})
}

func (c fakeCopies) MarkUsed(uid string, at time.Time) error {
	return c.effect(context.Background(), "MarkUsed "+uid, func() {
		if item := c.state.Copies[uid]; item != nil {
			item.LastUsed = &at
		}
	})
}

func (c fakeCopies) SetFilled(uid string, generation int64) error {
	return c.effect(context.Background(), "SetFilled "+uid, func() {
		c.state.Copies[uid].FilledGeneration, c.state.Copies[uid].Filled = generation, true
	})
}

type fakeShares struct{ *world }

func (fakeShares) Capability(context.Context) schema.NetworkPart {
	return schema.NetworkPart{Kind: "lab", Server: true, Client: true}
}

func (s fakeShares) Export(ctx context.Context, t schema.ExportTarget, dir *host.Dir) error {
	return s.effect(ctx, "Export "+t.UID+" "+t.Client, func() {
		s.state.Exports = slices.DeleteFunc(s.state.Exports, func(e schema.Export) bool { return e.UID == t.UID && e.To == t.Client })
		s.state.Exports = append(s.state.Exports, schema.Export{Drive: t.Drive.Scoped(), UID: t.UID, Source: t.Source,
			Path: t.Path, Client: t.Addresses[0], Clients: t.Addresses, To: t.Client, Mode: t.Mode})
	})
}

func (s fakeShares) Unexport(ctx context.Context, c nfs.Claim) error {
	return s.effect(ctx, "Unexport "+c.UID+" "+c.Client, func() {
		s.state.Exports = slices.DeleteFunc(s.state.Exports, func(e schema.Export) bool { return e.UID == c.UID && e.To == c.Client })
	})
}

func (s fakeShares) Exports(context.Context) ([]schema.Export, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.state.Exports), s.fail["Exports"]
}

func (s fakeShares) Mount(ctx context.Context, t schema.MountTarget) error {
	return s.effect(ctx, "Mount "+t.UID, func() {
		if s.wrong {
			t.From = "elsewhere"
		}
		s.state.Mounts = slices.DeleteFunc(s.state.Mounts, func(m schema.Mount) bool { return m.UID == t.UID })
		s.state.Mounts = append(s.state.Mounts, schema.Mount{Drive: t.Drive.Scoped(), UID: t.UID, Source: t.Source,
			From: t.From, State: schema.MountBound, Mode: t.Mode, Transport: schema.TransportLab})
	})
}

func (s fakeShares) Unmount(ctx context.Context, c nfs.Claim) error {
	return s.effect(ctx, "Unmount "+c.UID, func() {
		s.state.Mounts = slices.DeleteFunc(s.state.Mounts, func(m schema.Mount) bool { return m.UID == c.UID && m.Source == c.Source })
	})
}

func (s fakeShares) Mounts(context.Context) ([]schema.Mount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.state.Mounts), s.fail["Mounts"]
}

func (s fakeShares) OpenMount(_ context.Context, c nfs.Claim) (*host.Dir, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.state.Mounts {
		if m.UID == c.UID && m.Source == c.Source {
			return &host.Dir{Path: c.MountDir("/work")}, nil
		}
	}
	return nil, host.ErrNotMounted
}

type fakeEngine struct{ *world }

func (e fakeEngine) Start(ctx context.Context, spec runtime.Spec) error {
	e.mu.Lock()
	known := e.state.Workers[spec.ID] != nil
	e.mu.Unlock()
	if known {
		return nil
	}
	err := e.effect(ctx, "Start "+spec.Hostname, func() {
		f := &fakeWorker{Status: runtime.Status{ID: spec.ID, Labels: spec.Labels, State: runtime.Running, PID: 1}, Env: spec.Env, Starts: 1,
			Files: map[string]string{}}
		for _, file := range spec.Files {
			f.Files[file.Path] = string(file.Content)
		}
		for _, m := range spec.Mounts {
			f.Mounts = append(f.Mounts, fmt.Sprintf("%s ro=%t", m.Target, m.ReadOnly))
		}
		e.state.Workers[spec.ID] = f
	})
	e.wake()
	return err
}

func (e fakeEngine) Stop(ctx context.Context, id string, _ time.Duration) error {
	err := e.effect(ctx, "Stop "+id, func() {
		if f := e.state.Workers[id]; f != nil && f.Status.State != runtime.Exited {
			f.Status.State, f.Status.Signal = runtime.Exited, "SIGTERM"
		}
	})
	e.wake()
	return err
}

func (e fakeEngine) List(context.Context) (runtime.Listing, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := runtime.Listing{Complete: !e.incomplete}
	for _, f := range e.state.Workers {
		l.Workers = append(l.Workers, f.Status)
	}
	return l, e.fail["List"]
}

func (e fakeEngine) Remove(ctx context.Context, id string) error {
	return e.effect(ctx, "Remove "+id, func() { delete(e.state.Workers, id) })
}

func (e fakeEngine) Events() <-chan struct{} { return e.events }
func (e fakeEngine) Close() error            { return nil }

// end lets a worker exit.
func (w *world) end(id string, code int) {
	w.set(func(s *worldState) {
		s.Workers[id].Status.State, s.Workers[id].Status.ExitCode = runtime.Exited, &code
	})
}
