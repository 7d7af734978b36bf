package planner

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/schema"
)

// SpaceNames is what stands behind the names of one workspace (N-1, N-2). What
// external accesses make is not published.
type SpaceNames struct {
	Org, Namespace string
	Runs           []RunNames
	Endpoints      []EndpointNames
}

// RunNames is a placed run, a replica group's members among them.
type RunNames struct {
	Name        string
	LeaderGroup string // "" for a run without groups
	Workers     []NamedWorker
}

// NamedWorker is one worker that has a place.
type NamedWorker struct {
	Name    string
	Group   string
	Index   int
	Machine string
	Address string // "" while nobody knows it
	Running bool
}

// EndpointNames is an endpoint with the addresses of its ready workers.
type EndpointNames struct {
	Name  string
	Ready []string
}

// NamesInput is all that names depend on. It is only read.
type NamesInput struct {
	Accepted map[schema.Key]*schema.AcceptedObject
	Placed   map[schema.Key]schema.Placement
	// Reports hold the last known parts of each machine: Address, Workers and Checks
	// are looked at.
	Reports map[string]*schema.MachineReport
	// States are the leader's. Workers of a machine that is Down are lost; one that it
	// knows nothing of yet keeps its names: unknown is not NXDOMAIN.
	States map[string]schema.MachineState
}

// Names lists what stands behind the names of the namespaces that are wanted, those
// with nothing left out, sorted.
func Names(in NamesInput, wanted func(namespace string) bool) []SpaceNames {
	n := &namer{in: in, spaces: map[string]*SpaceNames{}, machines: map[string]*machine{}}
	for key, pl := range in.Placed {
		if wanted(key.Namespace) && !pl.Vacant() && pl.Outcome == "" {
			s := n.space(pl.Org, key.Namespace)
			s.Runs = append(s.Runs, n.run(&pl))
		}
	}
	for key, a := range in.Accepted {
		if key.Kind == schema.KindEndpoint && inForce(a) && wanted(key.Namespace) {
			s := n.space(a.Object.Org, key.Namespace)
			s.Endpoints = append(s.Endpoints, n.endpoint(a))
		}
	}
	list := make([]SpaceNames, 0, len(n.spaces))
	for _, ns := range sortedStrings(n.spaces) {
		s := n.spaces[ns]
		slices.SortFunc(s.Runs, func(a, b RunNames) int { return compareStrings(a.Name, b.Name) })
		slices.SortFunc(s.Endpoints, func(a, b EndpointNames) int { return compareStrings(a.Name, b.Name) })
		list = append(list, *s)
	}
	return list
}

// namer makes the names of one call of Names.
type namer struct {
	in       NamesInput
	spaces   map[string]*SpaceNames
	machines map[string]*machine // those that were asked for
}

func (n *namer) space(org, ns string) *SpaceNames {
	if n.spaces[ns] == nil {
		n.spaces[ns] = &SpaceNames{Org: org, Namespace: ns}
	}
	return n.spaces[ns]
}

func (n *namer) run(pl *schema.Placement) RunNames {
	r := RunNames{Name: pl.Run.Name, Workers: make([]NamedWorker, 0, len(pl.Workers))}
	if len(pl.Spec.WorkerGroups) > 0 {
		r.LeaderGroup = pl.Spec.LeaderGroup
	}
	for i := range pl.Workers {
		r.Workers = append(r.Workers, n.worker(pl, &pl.Workers[i]))
	}
	return r
}

func (n *namer) worker(pl *schema.Placement, w *schema.PlacedWorker) NamedWorker {
	out := NamedWorker{Name: w.Name, Group: w.Group, Index: w.Index, Machine: w.Machine}
	m := n.machine(w.Machine)
	if m == nil {
		return out // it was forgotten, and what ran there with it
	}
	out.Running = w.Outcome == nil && m.state != schema.MachineDown && m.seen.workers[idOfPlaced(pl, w)].State == schema.WorkerRunning
	out.Address = addressOf(m, pl, w)
	return out
}

// machine is what names ask of an accepted machine, nil when there is none.
func (n *namer) machine(name string) *machine {
	if m, there := n.machines[name]; there {
		return m
	}
	n.machines[name] = nil
	a := n.in.Accepted[schema.Key{Kind: schema.KindMachine, Name: name}]
	if !inForce(a) {
		return nil
	}
	spec := a.Object.Spec.(*schema.MachineSpec)
	m := &machine{name: name, spec: spec, address: spec.Address, state: n.in.States[name], nodeNet: nodeNetOf(spec), seen: &sighting{}}
	if r := n.in.Reports[name]; r != nil {
		m.address = cmp.Or(m.address, r.Address)
		m.seen.report = r
		m.seen.workers = make(map[workerID]schema.Worker, len(r.Workers))
		for i := range r.Workers {
			m.seen.workers[idOfWorker(r.Workers[i])] = r.Workers[i]
		}
	}
	n.machines[name] = m
	return m
}

func (n *namer) endpoint(a *schema.AcceptedObject) EndpointNames {
	out := EndpointNames{Name: a.Object.Key.Name}
	for _, run := range n.behind(a) {
		pl, placed := n.in.Placed[run]
		if owner := n.in.Accepted[run]; !placed || pl.Outcome != "" || !inForce(owner) || owner.UID != pl.RunUID {
			continue
		}
		for i := range pl.Workers {
			w := &pl.Workers[i]
			named := n.worker(&pl, w)
			if !named.Running || named.Address == "" {
				continue
			}
			var verdicts []schema.CheckState
			if r := n.in.Reports[w.Machine]; r != nil {
				verdicts = r.Checks
			}
			if passes, _ := checkPasses(a, verdicts, &pl, w, named.Address); passes {
				out.Ready = append(out.Ready, named.Address)
			}
		}
	}
	return out
}

func (n *namer) behind(a *schema.AcceptedObject) []schema.Key {
	behind := behindEndpoint(a)
	var group *schema.ReplicaGroupSpec
	if owner := n.in.Accepted[behind]; behind.Kind == schema.KindReplicaGroup && inForce(owner) {
		group = owner.Object.Spec.(*schema.ReplicaGroupSpec)
	}
	return runsBehind(behind, group)
}
