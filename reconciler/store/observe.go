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
// writes, one that failed needs no Load: nobody knows then what is kept of its
// machines, and every part of theirs is written again next time. Errors:
// ErrNotLeader, or that the store was not reached.
func (l *Leader) PutReports(ctx context.Context, reports ...*schema.MachineReport) (int, error) {
	groups, next := l.reportGroups(reports)
	count := 0
	for i, batch := range batches(groups) {
		err := error(nil)
		if i > 0 {
			err = l.store.opt.Point("observe.batch")
		}
		if err == nil {
			_, err = l.txn(ctx, batch)
		}
		if err != nil {
			l.noteReports(next, true)
			return count, err
		}
		count += len(batch)
	}
	l.noteReports(next, false)
	return count, nil
}

// reportGroups turns reports into writes, and says what the store holds after them.
func (l *Leader) reportGroups(reports []*schema.MachineReport) (groups []group, next map[string]*schema.MachineReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = make(map[string]*schema.MachineReport, len(reports))
	for _, r := range reports {
		old, sure := next[r.Name], true
		if old == nil {
			old, sure = l.written[r.Name], !l.unsure[r.Name]
		}
		g, held, err := reportOps(l.store.keys, old, r, sure)
		if err != nil {
			// One machine's odd report must not stop the others': it is said and left out.
			l.store.opt.Log.Warn("a report cannot be kept", "machine", r.Name, "error", err)
		}
		if held != nil {
			groups, next[r.Name] = append(groups, g), held
		}
	}
	return groups, next
}

func (l *Leader) noteReports(next map[string]*schema.MachineReport, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, r := range next {
		if failed {
			l.unsure[name] = true
			continue
		}
		l.written[name] = r
		delete(l.unsure, name)
	}
}

// reportOps is the writes of one report and what the store holds after them; old
// is what it holds now, if that is sure. A part that is too large is dropped like
// an unknown one, which the error says, until it changes.
func reportOps(keys keyspace, old, r *schema.MachineReport, sure bool) (group, *schema.MachineReport, error) {
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
		case value == nil && (had || !sure):
			g = append(g, op{key: key, remove: true})
		case value != nil && (!had || !sure || p.material(old, r)):
			data, err := encode(key, value)
			switch {
			case err == nil:
				g = append(g, op{key: key, value: data})
			case had || !sure:
				g = append(g, op{key: key, remove: true})
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
	if old != nil && sameAlive(*old, alive) {
		return nil
	}
	key := l.store.keys.single(areaAlive)
	value, err := encode(key, alive)
	if err != nil {
		return err
	}
	_, err = l.txn(ctx, []op{{key: key, value: value}})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive = &alive
	if err != nil {
		l.alive = nil
	}
	return err
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
