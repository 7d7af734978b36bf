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
	for _, run := range v.runsBehind(behind) {
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
// or the members of the replica group in their order.
func (v *View) runsBehind(behind schema.Key) []schema.Key {
	if behind.Kind == schema.KindRun {
		return []schema.Key{behind}
	}
	group := specOf[schema.ReplicaGroupSpec](v.pass, behind)
	if group == nil {
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
	c, checked := checkOf(e, &schema.WorkerTarget{Run: pl.Run, RunUID: pl.RunUID, Generation: pl.Generation, Attempt: pl.Attempt,
		Name: w.Name, Address: address})
	if !checked {
		return true, ""
	}
	m := p.machines[w.Machine]
	if m == nil || m.seen == nil {
		return false, notChecked
	}
	state, there := m.seen.checks[c.ID()]
	switch {
	case !there:
		return false, notChecked
	case !state.Passing:
		return false, state.Message
	}
	return true, ""
}
