package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// PutReports writes the parts of reports that changed materially and returns how
// many it wrote; nothing material is no write at all. A part that a report does
// not know is dropped, because unknown is not the last known. Unlike other
// writes, one that failed needs no Load: the parts are written again next time.
// Errors: ErrNotLeader, or that the store was not reached.
func (l *Leader) PutReports(ctx context.Context, reports ...*schema.MachineReport) (int, error) {
	var groups []group
	l.mu.Lock()
	next := make(map[string]*schema.MachineReport, len(reports))
	for _, r := range reports {
		old := next[r.Name]
		if old == nil {
			old = l.written[r.Name]
		}
		g, held, err := reportOps(l.store.keys, old, r)
		if err != nil {
			// One machine's odd report must not stop the others': it is said and left out.
			l.store.opt.Log.Warn("a report cannot be kept", "machine", r.Name, "error", err)
		}
		if held != nil {
			groups, next[r.Name] = append(groups, g), held
		}
	}
	l.mu.Unlock()
	count := 0
	for i, batch := range batches(groups) {
		if i > 0 {
			if err := l.store.opt.Point("observe.batch"); err != nil {
				return count, err
			}
		}
		if _, err := l.txn(ctx, batch); err != nil {
			return count, err
		}
		count += len(batch)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, r := range next {
		l.written[name] = r
	}
	return count, nil
}

// reportOps is the writes of one report and what the store holds after them. A
// part that is too large is left out, which the error says, until it changes.
func reportOps(keys keyspace, old, r *schema.MachineReport) (group, *schema.MachineReport, error) {
	if strings.Contains(r.Name, "/") || r.Name == "" {
		return nil, nil, fmt.Errorf("store: a report of machine %q: want a name without \"/\"", r.Name)
	}
	var g group
	var left error
	held := &schema.MachineReport{Name: r.Name}
	for _, p := range parts {
		value, had := p.value(r), old != nil && p.value(old) != nil
		key := keys.part(r.Name, p.name)
		switch {
		case value == nil && had:
			g = append(g, op{key: key, remove: true})
		case value != nil && (!had || p.material(old, r)):
			data, err := encode(key, value)
			if err == nil {
				g = append(g, op{key: key, value: data})
			}
			left = errors.Join(left, err)
			p.copy(held, r)
		case value != nil:
			p.copy(held, old)
		}
	}
	return g, held, left
}

// putPart reads one part into a state that is being made or updated.
func (st *State) putPart(key, rest string, value []byte) error {
	machine, name, _ := strings.Cut(rest, "/")
	p, ok := partByName[name]
	if !ok {
		return corrupt(key, fmt.Errorf("a report has no part %q", name))
	}
	report := &schema.MachineReport{Name: machine}
	if old := st.Observed[machine]; old != nil {
		*report = *old
	}
	if err := p.read(key, value, report); err != nil {
		return err
	}
	st.Observed[machine] = report
	return nil
}

// PutAlive writes the summary of machines when it differs from the last one.
func (l *Leader) PutAlive(ctx context.Context, alive Alive) error {
	slices.Sort(alive.Up)
	slices.Sort(alive.Unknown)
	l.mu.Lock()
	old := l.alive
	l.mu.Unlock()
	if sameAlive(old, alive) {
		return nil
	}
	key := l.store.keys.single(areaAlive)
	value, err := encode(key, alive)
	if err != nil {
		return err
	}
	if _, err := l.txn(ctx, []op{{key: key, value: value}}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive = alive
	return nil
}

// sameAlive compares who is in which state; the last stamp of one that is Down stays as first written.
func sameAlive(a, b Alive) bool {
	if !slices.Equal(a.Up, b.Up) || !slices.Equal(a.Unknown, b.Unknown) || len(a.Down) != len(b.Down) {
		return false
	}
	for name := range a.Down {
		if _, ok := b.Down[name]; !ok {
			return false
		}
	}
	return true
}
