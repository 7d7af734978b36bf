package planner

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/schema"
)

// The order in which a machine's reasons are looked at: the machine itself, then
// the drives' conditions in the order of D-50..D-56 (room last of them, because
// it alone changes while workers are placed), then what is left of it.

// whyNot says why a machine cannot take a worker of the template now; ok is true
// when it can.
func (p *pass) whyNot(t *template, m *machine) (r schema.Reason, ok bool) {
	if r, ok = p.whyNever(t, m, true); ok {
		r, ok = p.whyFull(t, m)
	}
	if !ok {
		r.Machine = m.name
	}
	return r, ok
}

// whyNever looks at what does not change while workers are placed. known is
// false for the stand-in of a class: a machine that no drive names and that has
// no copy.
func (p *pass) whyNever(t *template, m *machine, known bool) (schema.Reason, bool) {
	if r, ok := whyMachine(t, m); !ok {
		return r, false
	}
	worst, rank := schema.Reason{}, 0
	for i := range t.uses {
		if t.uses[i].drive == nil {
			continue
		}
		if r, n := p.whyDrive(&t.uses[i], m, known); n > 0 && (rank == 0 || n < rank) {
			worst, rank = r, n
		}
	}
	for _, pin := range t.pinned {
		if !known || pin.machine != m.name {
			if rank == 0 {
				worst, rank = p.whyOtherVolume(t.org, pin), rankLast
			}
		}
	}
	return worst, rank == 0
}

// whyOtherVolume: a local volume is on another machine, which may be away (V-7).
func (p *pass) whyOtherVolume(org string, at pin) schema.Reason {
	r := schema.Reason{Code: schema.ReasonVolumeElsewhere, Args: schema.ReasonArgs{Drive: at.volume, Machine: at.machine}}
	switch m := p.machines[at.machine]; {
	case m == nil || m.org != org:
		r.Code, r.Args.State = schema.ReasonVolumeAway, notDeclared
	case !m.up():
		r.Code, r.Args.State = schema.ReasonVolumeAway, string(m.state)
	}
	return r
}

func whyMachine(t *template, m *machine) (schema.Reason, bool) {
	switch {
	case !m.up():
		return whyAway(m), false
	case m.leaving:
		return schema.Reason{Code: schema.ReasonLeaving}, false
	case !m.spec.IsSchedulable():
		return schema.Reason{Code: schema.ReasonUnschedulable}, false
	}
	if e := m.seen.report.Engine; e != nil {
		switch {
		// The process engine runs workers only where the machine says so.
		case e.Kind != "" && e.Kind != m.spec.Engine:
			return schema.Reason{Code: schema.ReasonNoEngine}, false
		case !e.Ready:
			return schema.Reason{Code: schema.ReasonNoEngine, Args: schema.ReasonArgs{Text: e.Message}}, false
		}
	}
	if !m.load.known && (t.cpu > 0 || t.memory > 0 || t.gpus > 0) {
		return schema.Reason{Code: schema.ReasonUnknownResources}, false
	}
	return schema.Reason{}, true
}

// whyAway says that a machine is not up: down, or not heard yet by this leader.
func whyAway(m *machine) schema.Reason {
	if m.state == schema.MachineUnknown {
		return schema.Reason{Code: schema.ReasonNotConnected}
	}
	return schema.Reason{Code: schema.ReasonMachineDown, Args: schema.ReasonArgs{State: string(m.state)}}
}

const rankLast = 100

// whyDrive is the first condition of the table that a drive fails here, with
// its place in the table; 0 when it fails none.
func (p *pass) whyDrive(u *use, m *machine, known bool) (schema.Reason, int) {
	name := u.drive.key.Name
	home := known && u.home == m
	if u.kind == useCopy {
		if r, ok := whyNoPlace(u, m, known); !ok {
			return r, 50
		}
	}
	if u.kind == useHome && !home && u.drive.spec.Transport == schema.TransportLocal {
		return schema.Reason{Code: schema.ReasonLocalElsewhere,
			Args: schema.ReasonArgs{Drive: name, Source: u.source, Machine: u.from.Node}}, 53
	}
	if len(u.from.EligibleNodes) > 0 && !(known && slices.Contains(u.from.EligibleNodes, m.name)) {
		return schema.Reason{Code: schema.ReasonNotEligible, Args: schema.ReasonArgs{Drive: name, Source: u.source}}, 54
	}
	if u.from.NodeScope == schema.ScopeShared {
		if r, ok := whyNotShared(u, m); !ok {
			return r, 55
		}
	}
	if u.kind == useHome && !home {
		if r, rank := p.whyNoMount(u, m); rank > 0 {
			return r, rank
		}
	}
	return schema.Reason{}, 0
}

// whyNoPlace: D-50, and X-17 for a location whose disk is not there.
func whyNoPlace(u *use, m *machine, known bool) (schema.Reason, bool) {
	switch {
	case m.location == nil && m.pending:
		return schema.Reason{Code: schema.ReasonNotReported}, false
	case m.location == nil && !(known && m.seen.hasCopy(u.drive.uid)):
		return schema.Reason{Code: schema.ReasonNoDataLocation}, false
	case m.location != nil && !m.location.mounted:
		return schema.Reason{Code: schema.ReasonNotMounted, Args: schema.ReasonArgs{Path: m.location.path}}, false
	case known && m.seen != nil && hasKey(m.seen.hidden, u.drive.uid) && !hasKey(m.seen.copies, u.drive.uid):
		return schema.Reason{Code: schema.ReasonNotMounted, Args: schema.ReasonArgs{Path: m.seen.hidden[u.drive.uid]}}, false
	}
	return schema.Reason{}, true
}

func hasKey[K comparable, V any](m map[K]V, key K) bool {
	_, there := m[key]
	return there
}

// whyNotShared: D-55.
func whyNotShared(u *use, m *machine) (schema.Reason, bool) {
	if m.shared == nil {
		return schema.Reason{Code: schema.ReasonNotReported}, false
	}
	fs := filesystemOf(m.seen.report.Filesystems, u.from.Path)
	if fs == nil || !fs.Shared {
		return schema.Reason{Code: schema.ReasonSharedNotMounted, Args: schema.ReasonArgs{Drive: u.drive.key.Name, Path: u.from.Path}}, false
	}
	return schema.Reason{}, true
}

// whyNoMount looks at the way from a drive's machine to another one: its site
// (D-56), whether it is there at all (D-90), and what both need (D-82).
func (p *pass) whyNoMount(u *use, m *machine) (schema.Reason, int) {
	args := schema.ReasonArgs{Drive: u.drive.key.Name, Source: u.source, Machine: u.from.Node}
	home := u.home
	if home == nil {
		args.State = notDeclared
		return schema.Reason{Code: schema.ReasonSourceAway, Args: args}, 57
	}
	if home.where != "" && m.where != "" && home.where != m.where {
		args.Site, args.Source = home.where, 0
		return schema.Reason{Code: schema.ReasonOtherSite, Args: args}, 56
	}
	if !home.up() {
		args.State = string(home.state)
		return schema.Reason{Code: schema.ReasonSourceAway, Args: args}, 57
	}
	args.Source = 0
	if text := missingPiece(home, m); text != "" {
		args.Text = text
		return schema.Reason{Code: schema.ReasonMissingNFS, Args: args}, 58
	}
	if problem, noRDMA := wayProblem(home, m, u.drive.spec.Transport); problem != "" {
		args.Text = problem
		code := schema.ReasonNoAddress
		if noRDMA {
			code = schema.ReasonMissingNFS
		}
		return schema.Reason{Code: code, Args: args}, 59
	}
	return schema.Reason{}, 0
}

// whyFull looks at what is left of the machine: room (D-51, D-52), CPU, memory
// and GPUs. The copies of one worker need their room together.
func (p *pass) whyFull(t *template, m *machine) (schema.Reason, bool) {
	var coming int64
	for i := range t.uses {
		u := &t.uses[i]
		if !u.copied() || u.drive.spec.SizeHintBytes == 0 || m.seen.hasCopy(u.drive.uid) || hasKey(m.load.planned, u.drive.uid) || t.usedBefore(i) {
			continue
		}
		if r, ok := whyNoRoom(u.drive, m, coming); !ok {
			return r, false
		}
		coming += u.drive.spec.SizeHintBytes
	}
	return whyNoResources(t, m)
}

// usedBefore reports whether an earlier mount is of the same drive.
func (t *template) usedBefore(i int) bool {
	return slices.ContainsFunc(t.uses[:i], func(u use) bool { return u.drive == t.uses[i].drive })
}

// whyNoRoom: coming is what the same worker's other drives will take.
func whyNoRoom(d *drive, m *machine, coming int64) (schema.Reason, bool) {
	need := d.spec.SizeHintBytes
	if free, known := m.room(); known && free-coming < need {
		return schema.Reason{Code: schema.ReasonNoRoom, Args: schema.ReasonArgs{Drive: d.key.Name, Need: need, Have: max(0, free-coming)}}, false
	}
	if held, known := m.held(); known && held+coming+need > m.location.limit {
		return schema.Reason{Code: schema.ReasonOverLimit,
			Args: schema.ReasonArgs{Drive: d.key.Name, Need: need, Have: held + coming, Limit: m.location.limit}}, false
	}
	return schema.Reason{}, true
}

// whyNoResources names all that is missing; the code is of the first.
func whyNoResources(t *template, m *machine) (schema.Reason, bool) {
	l := &m.load
	cpu, memory, gpus := t.cpu > 0 && l.cpu < t.cpu, t.memory > 0 && l.memory < t.memory, l.gpus < t.gpus
	if !cpu && !memory && !gpus {
		return whyNoAddress(t.network, m)
	}
	if !cpu && !memory {
		return schema.Reason{Code: schema.ReasonGPUs, Args: schema.ReasonArgs{Need: int64(t.gpus), Have: int64(max(0, l.gpus))}}, false
	}
	r := schema.Reason{Code: schema.ReasonMemory}
	if cpu {
		r.Code, r.Args.Cores, r.Args.Free = schema.ReasonCPU, t.share, float64(max(0, l.cpu))/1000
	}
	if memory {
		r.Args.Need, r.Args.Have = t.memory, max(0, l.memory)
	}
	if gpus {
		r.Args.GPUs, r.Args.FreeGPU = int64(t.gpus), int64(max(0, l.gpus))
	}
	return r, false
}

// missingPiece names the machine and the piece that a network mount lacks
// (D-82). An unreported part is not taken for a missing one. The client is
// called thisMachine until reasons are grouped.
func missingPiece(home, client *machine) string {
	hn, cn := home.seen.report.Network, client.seen.report.Network
	switch {
	case hn != nil && cn != nil && (hn.Kind == networkLab) != (cn.Kind == networkLab):
		return "one of both machines is a lab's"
	case hn != nil && !hn.Server:
		return noServer(home.name, hn.ServerMessage)
	case cn != nil && !cn.Client:
		return noClient(thisMachine, cn.ClientMessage)
	}
	return ""
}

// compareNames orders machines by name.
func compareNames(a, b *machine) int { return cmp.Compare(a.name, b.name) }
