package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// NameView is one name of the cluster: what it is answered with now, or why it is
// answered with NXDOMAIN (N-1, N-4).
type NameView struct {
	Name      string   `json:"name"` // "train-0.ws-3f9c2a7d41be.astraeus.local"
	Kind      string   `json:"kind"` // "worker", "run" or "endpoint"
	Org       string   `json:"org"`
	Namespace string   `json:"namespace"`
	Addresses []string `json:"addresses"`
	Why       string   `json:"why,omitempty"` // why there are none
}

// Names lists the names of all that is in force or has a place, also those that
// have no address, sorted by namespace and name.
func (v *View) Names() []NameView {
	var list []NameView
	keys := v.pass.keysOf(schema.KindRun)
	for key := range v.placed {
		if v.pass.objects[key] == nil {
			keys = append(keys, key) // removed, and its workers not gone yet
		}
	}
	for _, key := range keys {
		list = append(list, v.runNames(key)...)
	}
	for _, e := range v.Endpoints() {
		n := v.name(e.Key, v.orgOf(e.Key), "endpoint", e.Key.Name)
		for _, b := range e.Backends {
			if b.Ready {
				n.Addresses = append(n.Addresses, b.Address)
			}
		}
		list = append(list, n.because(e.Message))
	}
	slices.SortFunc(list, func(a, b NameView) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func (v *View) orgOf(key schema.Key) string {
	if a := v.accepted[key]; inForce(a) {
		return a.Object.Org
	}
	return v.placed[key].Org
}

func (v *View) name(key schema.Key, org, kind, name string) NameView {
	return NameView{Name: name + "." + key.Namespace + "." + v.domain(), Kind: kind, Org: org, Namespace: key.Namespace, Addresses: []string{}}
}

func (v *View) domain() string { return v.pass.clusterSpec().DNSDomain }

// because sorts the addresses, and keeps the reason only where there are none.
func (n NameView) because(why string) NameView {
	slices.Sort(n.Addresses)
	n.Addresses = slices.Compact(n.Addresses)
	if len(n.Addresses) == 0 {
		n.Why = cmp.Or(why, notRunning)
	}
	return n
}

func (v *View) runNames(key schema.Key) (list []NameView) {
	r, ok := v.Run(key)
	if !ok {
		return nil
	}
	org := v.orgOf(key)
	whole := v.name(key, org, "run", key.Name)
	leading := false
	group := v.leaderGroup(key)
	for _, w := range r.Workers {
		n := v.name(key, org, "worker", w.Name)
		if w.State == schema.WorkerRunning && w.Address != "" {
			n.Addresses = []string{w.Address}
		}
		leads := w.Index == 0 && w.Group == group
		switch {
		case len(n.Addresses) == 0 || leading:
		case leads:
			leading, whole.Addresses = true, []string{w.Address}
		default:
			whole.Addresses = append(whole.Addresses, w.Address)
		}
		list = append(list, n.because(whyNoName(w, r.Summary)))
	}
	return append(list, whole.because(cmp.Or(r.Summary, fmt.Sprintf("the run is %s", r.Phase))))
}

func (v *View) leaderGroup(key schema.Key) string {
	spec := v.placed[key].Spec
	if a := v.accepted[key]; spec == nil && inForce(a) {
		spec = a.Object.Spec.(*schema.RunSpec)
	}
	if spec == nil || len(spec.WorkerGroups) == 0 {
		return ""
	}
	return spec.LeaderGroup
}

func whyNoName(w WorkerView, run string) string {
	switch {
	case w.State == schema.WorkerRunning:
		return "its address is not known"
	case w.Summary != "":
		return w.Summary
	case w.State != "":
		return fmt.Sprintf("it is %s", w.State)
	}
	return run
}

// Resolution says what a worker or a machine would be answered when it asks for a
// name, and why.
type Resolution struct {
	Question string `json:"question"`
	Machine  string `json:"machine"`
	Worker   string `json:"worker,omitempty"` // "ws-….train-0"; "" when a machine is asked as such
	Server   string `json:"server,omitempty"` // the machine's gateway, or "" where the machine's own resolver is asked
	// Name, Result, Addresses and Why are of the last of Tried: that is what the asker sees.
	Name      string     `json:"name"`
	Result    string     `json:"result"`
	Addresses []string   `json:"addresses"`
	Why       string     `json:"why,omitempty"`
	Tried     []TriedOne `json:"tried"` // in the order of the search list (N-7)
}

// TriedOne is one name that a resolver asks for.
type TriedOne struct {
	Name      string   `json:"name"`
	Result    string   `json:"result"`
	Addresses []string `json:"addresses,omitempty"`
	Why       string   `json:"why,omitempty"`
}

// Results of a Resolution.
const (
	ResolvedAnswer    = "Answer"
	ResolvedNoName    = "NXDOMAIN"
	ResolvedRefused   = "REFUSED"
	ResolvedForwarded = "Forwarded" // to the machine's own resolver
)

// asker is who asks.
type asker struct {
	m      *machine
	run    schema.Key
	worker string
	served bool // by the machine's gateway
	egress *schema.EgressTarget
	names  map[string][]NameView // of the cluster, by namespace
}

// Resolve says what name would be answered to a worker ("ws-….train-0", "train-0") or
// to whoever asks a machine's name server ("gpu-01"). Errors: there is no such
// machine or worker, or there are several.
func (v *View) Resolve(name, from string) (Resolution, error) {
	who, err := v.asker(from)
	if err != nil {
		return Resolution{}, err
	}
	who.names = map[string][]NameView{}
	for _, n := range v.Names() {
		who.names[n.Namespace] = append(who.names[n.Namespace], n)
	}
	r := Resolution{Question: name, Machine: who.m.name, Addresses: []string{}}
	if who.worker != "" {
		r.Worker = who.run.Namespace + "." + who.worker
	}
	if who.served {
		r.Server = who.m.gatewayOf()
	}
	for _, candidate := range who.candidates(name, v.domain()) {
		one := v.ask(who, candidate)
		r.Tried = append(r.Tried, one)
		r.Name, r.Result, r.Why = one.Name, one.Result, one.Why
		if one.Result != ResolvedNoName {
			break
		}
	}
	last := r.Tried[len(r.Tried)-1]
	r.Addresses = append(r.Addresses, last.Addresses...)
	return r, nil
}

// candidates are the names that a resolver asks for in their order: with fewer than
// two dots the search list comes first (ndots:2), as is last.
func (who *asker) candidates(name, domain string) []string {
	absolute := strings.TrimSuffix(name, ".")
	if who.worker == "" || !who.served || absolute != name {
		return []string{absolute}
	}
	search := []string{absolute + "." + who.run.Namespace + "." + domain, absolute + "." + domain}
	if strings.Count(absolute, ".") < 2 {
		return append(search, absolute)
	}
	return append([]string{absolute}, search...)
}

// asker finds a machine or a placed worker.
func (v *View) asker(from string) (*asker, error) {
	if m := v.pass.machines[strings.TrimPrefix(from, "machine/")]; m != nil {
		return &asker{m: m, served: m.gatewayOf() != ""}, nil
	}
	wanted := strings.TrimPrefix(from, "worker/")
	var found []*asker
	for _, key := range sortedKeys(v.placed) {
		pl := v.placed[key]
		for i := range pl.Workers {
			w := &pl.Workers[i]
			if m := v.pass.machines[w.Machine]; m != nil && (w.Name == wanted || key.Namespace+"."+w.Name == wanted) {
				found = append(found, v.workerAsker(&pl, w, m))
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("there is no machine and no placed worker %s", from)
	}
	var names []string
	for _, a := range found {
		names = append(names, a.run.Namespace+"."+a.worker)
	}
	return nil, fmt.Errorf("%s is the name of several workers: %s", from, strings.Join(names, ", "))
}

func (v *View) workerAsker(pl *schema.Placement, w *schema.PlacedWorker, m *machine) *asker {
	a := &asker{m: m, run: pl.Run, worker: w.Name, served: namesOf(modeOf(pl.Spec), m) == schema.NetworkNode}
	if networkNow(w, m) == schema.NetworkNode { // else nobody can tell it from others (N-5)
		r := &run{key: pl.Run, placed: pl, where: scope{pl.Org, pl.Workspace}}
		if o := v.accepted[pl.Run]; inForce(o) {
			r.spec = o.Object.Spec.(*schema.RunSpec)
		}
		a.egress = v.pass.egressOf(r)
	}
	return a
}

// ask is what one name is answered.
func (v *View) ask(who *asker, name string) TriedOne {
	domain := v.domain()
	one := TriedOne{Name: name, Result: ResolvedForwarded, Why: "every other name is forwarded to the machine's own resolver"}
	if !who.served {
		one.Why = whyNotServed(who)
		return one
	}
	lower := strings.ToLower(name)
	label, rest, _ := strings.Cut(strings.TrimSuffix(lower, "."+domain), ".")
	ours := lower == domain || strings.HasSuffix(lower, "."+domain)
	switch {
	case !who.egress.Allows(name, domain) && (!ours || who.hasNames(rest)):
		// What is no name of the cluster is NXDOMAIN all the same: pypi.org is looked for
		// by way of pypi.org.astraeus.local, and a resolver gives up at REFUSED.
		one.Result, one.Why = ResolvedRefused, fmt.Sprintf("the run's outbound policy (network.egress) does not allow %s", name)
		return one
	case !ours:
		return one
	case lower == domain || rest == "" || strings.Contains(rest, "."):
		one.Result, one.Why = ResolvedNoName, fmt.Sprintf("names are <name>.<namespace>.%s", domain)
		return one
	}
	return who.lookup(name, label, rest)
}

// lookup is what a name of a namespace is answered.
func (who *asker) lookup(name, label, ns string) TriedOne {
	one := TriedOne{Name: name, Result: ResolvedNoName, Why: fmt.Sprintf("there is no run, worker or endpoint %s in %s", label, ns)}
	for _, n := range who.names[ns] {
		switch {
		case n.Org != who.m.org:
			one.Why = fmt.Sprintf("%s belongs to another organisation: a machine knows its own alone", ns)
			return one
		case !strings.EqualFold(n.Name, name):
		case len(n.Addresses) == 0:
			one.Why = n.Why
			return one
		default:
			one.Result, one.Addresses, one.Why = ResolvedAnswer, n.Addresses, ""
			return one
		}
	}
	return one
}

// hasNames reports whether anything in a namespace of the asker's org has an address.
func (who *asker) hasNames(ns string) bool {
	return slices.ContainsFunc(who.names[ns], func(n NameView) bool { return n.Org == who.m.org && len(n.Addresses) > 0 })
}

func whyNotServed(who *asker) string {
	switch {
	case who.m.spec.NodeNetwork == "":
		return fmt.Sprintf("machine %s has no node network and serves no names: its own resolver answers", who.m.name)
	case len(who.m.rdma) > 0:
		return "the worker is on the host network, as machines with RDMA run theirs, and keeps its machine's resolver"
	}
	return "the worker is on the host network and keeps its machine's resolver"
}
