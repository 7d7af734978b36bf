package statusapi

import (
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Endpoint is an endpoint's body (N-8).
type Endpoint struct {
	Metadata Metadata            `json:"metadata"`
	Spec     schema.EndpointSpec `json:"spec"`
	Runtime  EndpointRuntime     `json:"runtime"`
	// Message says why no backend is ready; "" while one is.
	Message   string       `json:"message,omitempty"`
	ManagedBy string       `json:"managed_by,omitempty"` // "replica_group/api"
	Refused   *schema.Hold `json:"refused,omitempty"`
}

// EndpointRuntime is what stands behind an endpoint now.
type EndpointRuntime struct {
	// Ready counts the backends that are: their addresses are the endpoint's name's (N-1).
	Ready    int       `json:"ready"`
	Backends []Backend `json:"backends"`
}

// Backend is one worker behind an endpoint, and where it is reached.
type Backend struct {
	Run     string             `json:"run"`
	Worker  string             `json:"worker"`
	Machine string             `json:"machine"`
	Address string             `json:"address"`
	Port    int                `json:"port,omitempty"`
	State   schema.WorkerState `json:"state,omitempty"`
	Ready   bool               `json:"ready"`
	Message string             `json:"message,omitempty"` // why it is not ready
}

// endpointFacts is what an endpoint's body is made from.
type endpointFacts struct {
	accepted *schema.AcceptedObject
	view     *planner.EndpointView // nil when nothing of it is in force
}

var endpoints = &collection{
	word: "endpoints", entries: entriesOf(schema.KindEndpoint),
	facts: func(s *state, e entry) any {
		f := endpointFacts{accepted: e.object}
		if v, ok := s.derived().Endpoint(e.key); ok {
			f.view = &v
		}
		return f
	},
	body: func(r *request, facts any) any { return r.endpoint(facts.(endpointFacts)) },
	manner: func(r *request, facts any) string {
		if facts.(endpointFacts).accepted.Refused != nil && !r.all() {
			return "-"
		}
		return plainly(r)
	},
	filters: map[string]filter{
		"ready": byWordOf("true: only endpoints with a ready backend; false: only those without", func(_ *request, f endpointFacts) string {
			if f.view != nil && f.view.Ready > 0 {
				return "true"
			}
			return "false"
		}),
		"workspace": byWorkspace(func(f endpointFacts) schema.Key { return f.accepted.Object.Key }),
		labelFilter: byLabel(func(f endpointFacts) *schema.Object { return f.accepted.Object }),
	},
}

// endpoint names every backend, also those of runs that a member does not see:
// whoever may use a service may know where it is.
func (r *request) endpoint(f endpointFacts) Endpoint {
	out := Endpoint{Metadata: MetadataOf(f.accepted), Runtime: EndpointRuntime{Backends: []Backend{}}, Refused: r.refused(f.accepted)}
	if spec, ok := f.accepted.Object.Spec.(*schema.EndpointSpec); ok {
		out.Spec = *spec
	}
	v := f.view
	if v == nil {
		return out
	}
	out.Runtime.Ready, out.Message, out.ManagedBy = v.Ready, v.Message, v.Managed
	for _, b := range v.Backends {
		out.Runtime.Backends = append(out.Runtime.Backends, Backend{
			r.ref(b.Run), b.Worker, b.Machine, b.Address, b.Port, b.State, b.Ready, b.Message,
		})
	}
	return out
}
