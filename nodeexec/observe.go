package nodeexec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// observeWithin is how long a part of the machine may take to answer before it
// is reported as unknown.
const observeWithin = 5 * time.Second

// view is what one look at the machine showed. It is never changed after that.
type view struct {
	workers []localWorker
	fills   []localWorker
	// engineKnown: workers and fills are all there are. engineError says why not.
	engineKnown bool
	engineError string

	exports []schema.Export // nil is unknown
	mounts  []schema.Mount  // nil is unknown
	copies  host.CopyListing
	// copiesKnown: the listing is there; copies.Complete says whether it is whole.
	copiesKnown bool
	paths       map[object]schema.PathState // without what did not answer
	facts       facts
	problems    []string
}

// facts change slowly.
type facts struct {
	bootID      string
	resources   *schema.Resources
	addresses   []string
	filesystems []schema.Filesystem
	network     *schema.NetworkPart
}

// observe looks at the machine. Parts are asked at once, so that a dead
// filesystem delays the others by observeWithin at most; old facts are taken
// over unless fresh ones are wanted.
func (a *Agent) observe(ctx context.Context, target *schema.Assignment, old facts, fresh bool) *view {
	v := &view{facts: old}
	var wg sync.WaitGroup
	var mu sync.Mutex
	problem := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		v.problems = append(v.problems, text)
	}
	wg.Go(func() { a.observeEngine(ctx, v, problem) })
	wg.Go(func() { v.exports = part(ctx, a, "exports", a.cfg.Shares.Exports, problem) })
	wg.Go(func() { v.mounts = part(ctx, a, "mounts", a.cfg.Shares.Mounts, problem) })
	wg.Go(func() { a.observeCopies(ctx, v, target, problem) })
	wg.Go(func() { v.paths = a.observePaths(ctx, target) })
	if fresh {
		wg.Go(func() { v.facts = a.observeFacts(ctx, old) })
	}
	wg.Wait()
	slices.Sort(v.problems)
	return v
}

// part asks for a list; nil is unknown, none is empty.
func part[T any](ctx context.Context, a *Agent, name string, f func(context.Context) ([]T, error), problem func(string)) []T {
	list, err := ask(ctx, &a.probes, name, observeWithin, f, nil)
	if err != nil {
		if ctx.Err() == nil {
			problem(name + " cannot be listed: " + err.Error())
		}
		return nil
	}
	if list == nil {
		return []T{}
	}
	return list
}

func (a *Agent) observeEngine(ctx context.Context, v *view, problem func(string)) {
	listing, err := ask(ctx, &a.probes, "workers", observeWithin, a.cfg.Engine.List, nil)
	if err != nil {
		v.engineError = err.Error()
		return
	}
	v.takeEngine(listing, problem)
}

// takeEngine understands the engine's listing.
func (v *view) takeEngine(listing runtime.Listing, problem func(string)) {
	v.engineKnown = listing.Complete
	if !listing.Complete {
		v.engineError = "the workers cannot be listed completely"
	}
	for _, status := range listing.Workers {
		w, ours, err := readWorker(status)
		switch {
		case err != nil:
			v.engineKnown = false
			v.engineError = err.Error()
			problem(err.Error())
		case !ours && status.State == runtime.Unknown:
			v.engineKnown = false // it may be ours
			v.engineError = "worker " + status.ID + ": its record cannot be read: " + status.Reason
		case ours && w.label.Fill != nil:
			v.fills = append(v.fills, w)
		case ours:
			v.workers = append(v.workers, w)
		}
	}
}

func (a *Agent) observeCopies(ctx context.Context, v *view, t *schema.Assignment, problem func(string)) {
	copies := a.copies()
	if copies == nil {
		return // no cluster yet, so no copy is known to be ours
	}
	var locations []schema.DataLocation
	if t != nil {
		locations = t.DataLocations
	}
	listing, err := ask(ctx, &a.probes, "copies", observeWithin, func(ctx context.Context) (host.CopyListing, error) {
		return copies.List(ctx, locations)
	}, nil)
	if err != nil {
		if ctx.Err() == nil {
			problem("copies cannot be listed: " + err.Error())
		}
		return
	}
	listing.Copies = a.sized(listing.Copies)
	v.copies, v.copiesKnown = listing, true
	for _, text := range listing.Problems {
		problem(text)
	}
}

// observePaths looks at each assigned directory on its own: one that does not
// answer hides no other.
func (a *Agent) observePaths(ctx context.Context, t *schema.Assignment) map[object]schema.PathState {
	states := map[object]schema.PathState{}
	if t == nil {
		return states
	}
	forbidden := a.forbidden(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, d := range t.Dirs {
		wg.Go(func() {
			dir, err := a.openDir(ctx, "look", d.Path, d.Grant, forbidden)
			state := schema.PathState{UID: d.UID, Source: d.Source, Path: d.Path}
			switch {
			case err == nil:
				state.Exists, state.FSID = true, dir.FSID
				_ = dir.Close()
			case errors.Is(err, host.ErrNotAnswering), errors.Is(err, errUnanswered), errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
				return // unknown
			}
			mu.Lock()
			defer mu.Unlock()
			states[dirObject(d.UID, d.Source)] = state
		})
	}
	wg.Wait()
	return states
}

// openDir opens a directory under a deadline. Each of who has at most
// one question open for a path.
func (a *Agent) openDir(ctx context.Context, who, path, grant string, forbidden []string) (*host.Dir, error) {
	return ask(ctx, &a.probes, who+" open "+path, observeWithin, func(context.Context) (*host.Dir, error) {
		return a.cfg.Host.OpenDir(path, grant, forbidden)
	}, closeLate)
}

func closeLate(d *host.Dir) { _ = d.Close() }

func (a *Agent) observeFacts(ctx context.Context, old facts) facts {
	f := facts{bootID: old.bootID}
	if f.bootID == "" {
		f.bootID, _ = a.cfg.Host.BootID() // unknown: reported as ""
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if r, err := ask(ctx, &a.probes, "resources", observeWithin, a.cfg.Host.Resources, nil); err == nil {
			f.resources = &r
		}
	})
	wg.Go(func() {
		f.addresses, _ = ask(ctx, &a.probes, "addresses", observeWithin, a.cfg.Host.Addresses, nil)
	})
	wg.Go(func() {
		f.filesystems, _ = ask(ctx, &a.probes, "filesystems", observeWithin, a.cfg.Host.Filesystems, nil)
	})
	wg.Go(func() {
		part, err := ask(ctx, &a.probes, "network", observeWithin, func(ctx context.Context) (schema.NetworkPart, error) {
			return a.cfg.Shares.Capability(ctx), nil
		}, nil)
		if err == nil {
			f.network = &part
		}
	})
	wg.Wait()
	return f
}

// forbidden is what no worker, export or volume may reach.
func (a *Agent) forbidden(t *schema.Assignment) []string {
	list := []string{a.cfg.WorkRoot}
	for _, d := range t.DataLocations {
		list = append(list, d.Path)
	}
	return list
}

func (v *view) findWorker(id string) *localWorker { return byID(v.workers, id) }
func (v *view) findFill(id string) *localWorker   { return byID(v.fills, id) }

func byID(list []localWorker, id string) *localWorker {
	for i := range list {
		if list[i].id == id {
			return &list[i]
		}
	}
	return nil
}

func (v *view) findCopy(uid string) *schema.Copy {
	for i := range v.copies.Copies {
		if c := &v.copies.Copies[i]; c.UID == uid && (c.State == schema.CopyPresent || c.State == "") {
			return c
		}
	}
	return nil
}

// mountsOf are the mounts of one drive's source, several after a lazy unmount.
func (v *view) mountsOf(uid string, source int) []schema.Mount {
	var list []schema.Mount
	for _, m := range v.mounts {
		if m.UID == uid && m.Source == source {
			list = append(list, m)
		}
	}
	return list
}

// exportsOf are the exports that a step is about.
func (v *view) exportsOf(args schema.StepArgs) []schema.Export {
	var list []schema.Export
	for _, e := range v.exports {
		if e.UID != args.UID || e.Source != args.Source {
			continue
		}
		if args.To != "" && e.To != "" && args.To != e.To {
			continue
		}
		if (args.To == "" || e.To == "") && args.Client != "" && args.Client != e.Client && !slices.Contains(e.Clients, args.Client) {
			continue
		}
		list = append(list, e)
	}
	return list
}
