package planner

import (
	"cmp"

	"astraeus.io/astraeus/schema"
)

// endpoints are the endpoints in force by what stands behind them (N-1).
type endpoints struct {
	byRun   map[schema.Key][]*schema.AcceptedObject
	byGroup map[schema.Key][]*schema.AcceptedObject
}

func (p *pass) indexEndpoints() *endpoints {
	e := &endpoints{map[schema.Key][]*schema.AcceptedObject{}, map[schema.Key][]*schema.AcceptedObject{}}
	for _, key := range p.keysOf(schema.KindEndpoint) {
		a := p.objects[key]
		behind := behindEndpoint(a)
		if behind.Kind == schema.KindRun {
			e.byRun[behind] = append(e.byRun[behind], a)
		} else {
			e.byGroup[behind] = append(e.byGroup[behind], a)
		}
	}
	return e
}

// behindEndpoint is the run or the replica group whose workers an endpoint stands for.
func behindEndpoint(a *schema.AcceptedObject) schema.Key {
	spec := a.Object.Spec.(*schema.EndpointSpec)
	if spec.Run != "" {
		return schema.Key{Kind: schema.KindRun, Namespace: a.Object.Key.Namespace, Name: spec.Run}
	}
	return schema.Key{Kind: schema.KindReplicaGroup, Namespace: a.Object.Key.Namespace, Name: spec.ReplicaGroup}
}

// of lists the endpoints of a run in force, its replica group's among them.
func (e *endpoints) of(run *schema.AcceptedObject) []*schema.AcceptedObject {
	if run == nil {
		return nil
	}
	list := e.byRun[run.Object.Key]
	if owner := run.Object.ManagedBy; owner.Kind == schema.KindReplicaGroup && len(e.byGroup[owner]) > 0 {
		list = append(list[:len(list):len(list)], e.byGroup[owner]...)
	}
	return list
}

// checksFor has the worker's machine check it for each of its endpoints that asks for it.
func (p *pass) checksFor(s *site, r *run, w *schema.WorkerTarget) {
	for _, e := range p.endpoints.of(r.object) {
		if c, checked := checkOf(e, w); checked {
			s.a.Checks = append(s.a.Checks, c)
		}
	}
}

// checkOf is the check that an endpoint asks for of a worker, none without a
// health check: then Running is enough.
func checkOf(e *schema.AcceptedObject, w *schema.WorkerTarget) (schema.CheckTarget, bool) {
	spec := e.Object.Spec.(*schema.EndpointSpec)
	h := spec.HealthCheck
	if h == nil || spec.Port == 0 {
		return schema.CheckTarget{}, false
	}
	c := schema.CheckTarget{Endpoint: e.Object.Key, Run: w.Run, RunUID: w.RunUID, Generation: w.Generation, Attempt: w.Attempt,
		Worker: w.Name, Address: w.Address, Port: spec.Port, Every: h.Every, Timeout: h.Timeout, Failures: h.Failures}
	if h.HTTP != nil {
		c.HTTPPath = h.HTTP.Path
	}
	return c, true
}

func compareChecks(a, b schema.CheckTarget) int {
	return cmp.Or(schema.CompareKeys(a.Endpoint, b.Endpoint), schema.CompareKeys(a.Run, b.Run), cmp.Compare(a.Worker, b.Worker))
}

// noteEndpoints warns of endpoints that nothing stands behind: they may be
// declared before their run is (N-1).
func (p *pass) noteEndpoints() {
	for _, o := range p.gate.kinds[schema.KindEndpoint] {
		a := p.objects[o.Key]
		if a == nil || a.Object != o || o.ManagedBy != (schema.Key{}) {
			continue
		}
		if behind := behindEndpoint(a); p.objects[behind] == nil {
			field := "spec." + behind.Kind.Word()
			p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeEndpointNoTarget,
				Message: endpointNoTarget(behind)})
		}
	}
}
