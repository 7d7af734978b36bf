package planner

import (
	"cmp"

	"astraeus.io/astraeus/schema"
)

// EndpointView is an endpoint as the status API shows it. Its Backends are
// runtime.backends of N-8.
type EndpointView struct {
	Key      schema.Key          `json:"key"`
	UID      string              `json:"uid"`
	Spec     schema.EndpointSpec `json:"spec"`
	Managed  string              `json:"managed_by,omitempty"` // "replica_group/api"
	Backends []Backend           `json:"backends"`             // every worker behind it that has a place and has not ended
	Ready    int                 `json:"ready"`                // how many of them are ready
	Message  string              `json:"message,omitempty"`    // why none is
	Refused  *schema.Hold        `json:"refused,omitempty"`
}

// Backend is one worker behind an endpoint. It is ready, and its address among the
// endpoint's, while it is Running and passes the health check; without a check
// Running is enough (N-1).
type Backend struct {
	Run     schema.Key         `json:"run"`
	Worker  string             `json:"worker"`
	Machine string             `json:"machine"`
	Address string             `json:"address"`
	Port    int                `json:"port,omitempty"`
	State   schema.WorkerState `json:"state"`
	Ready   bool               `json:"ready"`
	Message string             `json:"message,omitempty"` // why it is not ready
}

// Endpoint is the view of an endpoint in force; ok is false when there is none.
func (v *View) Endpoint(key schema.Key) (e EndpointView, ok bool) {
	a := v.accepted[key]
	if !inForce(a) {
		return EndpointView{}, false
	}
	e = EndpointView{Key: key, UID: a.UID, Spec: *a.Object.Spec.(*schema.EndpointSpec), Backends: []Backend{}}
	if owner := a.Object.ManagedBy; owner != (schema.Key{}) {
		e.Managed = owner.Kind.Word() + "/" + owner.Name
	}
	if a.Refused != nil {
		hold := a.Refused.Hold
		e.Refused = &hold
	}
	behind := behindEndpoint(a)
	for _, run := range runsBehind(behind, specOf[schema.ReplicaGroupSpec](v.pass, behind)) {
		e.Backends = append(e.Backends, v.backends(a, run)...)
	}
	for i := range e.Backends {
		if e.Backends[i].Ready {
			e.Ready++
		}
	}
	switch {
	case e.Ready > 0:
	case !inForce(v.accepted[behind]):
		e.Message = endpointNoTarget(behind)
	case len(e.Backends) == 0:
		e.Message = noBackend
	default:
		e.Message = noneReady
	}
	return e, true
}

// Endpoints lists the endpoints in force by key.
func (v *View) Endpoints() []EndpointView {
	var list []EndpointView
	for _, key := range v.pass.keysOf(schema.KindEndpoint) {
		e, _ := v.Endpoint(key)
		list = append(list, e)
	}
	return list
}

// runsBehind are the runs whose workers stand behind an endpoint: the run itself,
// or the members of the replica group in their order (nil: it is not in force).
func runsBehind(behind schema.Key, group *schema.ReplicaGroupSpec) []schema.Key {
	switch {
	case behind.Kind == schema.KindRun:
		return []schema.Key{behind}
	case group == nil:
		return nil
	}
	keys := make([]schema.Key, group.Replicas)
	for i := range keys {
		keys[i] = memberKey(behind, i)
	}
	return keys
}

func (v *View) backends(e *schema.AcceptedObject, run schema.Key) (list []Backend) {
	pl, placed := v.placed[run]
	a := v.accepted[run]
	if !placed || !inForce(a) || a.UID != pl.RunUID || pl.Outcome != "" {
		return nil
	}
	for i := range pl.Workers {
		w := &pl.Workers[i]
		if w.Outcome != nil {
			continue
		}
		seen := v.worker(&pl, w)
		b := Backend{Run: run, Worker: w.Name, Machine: w.Machine, Address: seen.Address, Port: e.Object.Spec.(*schema.EndpointSpec).Port, State: seen.State}
		b.Ready, b.Message = v.pass.ready(e, &pl, w, seen)
		list = append(list, b)
	}
	return list
}

// ready reports whether a worker is one of an endpoint's addresses, or why not.
func (p *pass) ready(e *schema.AcceptedObject, pl *schema.Placement, w *schema.PlacedWorker, seen WorkerView) (bool, string) {
	if seen.State != schema.WorkerRunning {
		return false, cmp.Or(seen.Summary, notRunning)
	}
	return p.passes(e, pl, w, seen.Address)
}

// passes asks the report of the worker's machine for the check of an endpoint.
func (p *pass) passes(e *schema.AcceptedObject, pl *schema.Placement, w *schema.PlacedWorker, address string) (bool, string) {
	m := p.machines[w.Machine]
	if m == nil || m.seen == nil {
		return checkPasses(e, nil, pl, w, address)
	}
	return checkPasses(e, m.seen.report.Checks, pl, w, address)
}

// checkPasses looks for the verdict on a worker among its machine's; without a
// check every worker passes (N-1).
func checkPasses(e *schema.AcceptedObject, verdicts []schema.CheckState, pl *schema.Placement, w *schema.PlacedWorker, address string) (bool, string) {
	c, checked := checkOf(e, &schema.WorkerTarget{Run: pl.Run, RunUID: pl.RunUID, Generation: pl.Generation, Attempt: pl.Attempt,
		Name: w.Name, Address: address})
	if !checked {
		return true, ""
	}
	id := c.ID()
	for i := range verdicts {
		v := verdicts[i]
		if v.RunUID == "" { // a state file leaves out what makes the worker this one
			v.RunUID, v.Generation, v.Attempt = id.RunUID, id.Generation, id.Attempt
		}
		if v.CheckID == id {
			return v.Passing, v.Message
		}
	}
	return false, notChecked
}
