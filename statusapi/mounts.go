package statusapi

import (
	"fmt"
	"slices"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Claim is a network mount (D-80).
type Claim struct {
	// ID names the mount in paths: "<drive>-<source>@<client>".
	ID     string `json:"id"`
	Drive  string `json:"drive"`
	Source int    `json:"source"`
	// From is the machine that holds the data, Client the one that mounts it.
	From      string             `json:"from"`
	Client    string             `json:"client"`
	State     planner.ClaimState `json:"state"`
	Transport schema.Transport   `json:"transport,omitempty"`
	Mode      schema.Mode        `json:"mode,omitempty"`
	Message   string             `json:"message,omitempty"`
	// Users are the workers that need it, as far as the caller sees their runs.
	Users []string `json:"users"`
}

// MountDetail is a network mount with its series (D-83).
type MountDetail struct {
	Claim
	Series MountSeries `json:"series"`
}

// MountSeries are a mount's charts, from the client's mountstats (D-83). Each is
// empty until the client has reported; they have the same moments, the oldest first.
type MountSeries struct {
	// Throughput is bytes read and written a second.
	Throughput []Point `json:"throughput"`
	// Operations are NFS operations a second.
	Operations []Point `json:"operations"`
	// RoundTrip is the mean seconds from a request to its answer; 0 without operations.
	RoundTrip []Point `json:"round_trip"`
	// Retransmissions are requests sent again, a second.
	Retransmissions []Point `json:"retransmissions"`
	// Timeouts are requests that got no answer in time, a second.
	Timeouts []Point `json:"timeouts"`
}

// Point is one value of a series: the mean over the time since the point before it.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

var mounts = &collection{
	word: "mounts",
	entries: func(s *state) []entry {
		claims := s.derived().Claims()
		out := make([]entry, 0, len(claims))
		seen := make(map[string]bool, len(claims))
		for _, c := range claims {
			id := mountID(c.Drive.Scoped(), c)
			if seen[id] {
				id += "#" + c.From // an older one, being released
			}
			seen[id] = true
			out = append(out, entry{id: id, key: c.Drive, ref: c})
		}
		return out
	},
	facts: func(s *state, e entry) any {
		f := claimFacts{claim: e.ref.(planner.Claim)}
		if v, ok := s.derived().Drive(e.key); ok {
			f.users = v.UsedBy
		}
		return f
	},
	body: func(r *request, facts any) any {
		f := facts.(claimFacts)
		return r.claim(f.claim, f.users)
	},
	manner: func(r *request, facts any) string {
		if r.private() && len(facts.(claimFacts).claim.Users) > 0 {
			return "-"
		}
		return plainly(r)
	},
	filters: map[string]filter{
		"state":   byWordOf("only mounts in this state", func(_ *request, f claimFacts) string { return string(f.claim.State) }),
		"from":    byWordOf("only mounts of what this machine holds", func(_ *request, f claimFacts) string { return f.claim.From }),
		"client":  byWordOf("only mounts on this machine", func(_ *request, f claimFacts) string { return f.claim.Client }),
		"machine": anyOf("only mounts from or on this machine", func(_ *request, f claimFacts) []string { return []string{f.claim.From, f.claim.Client} }),
		"drive": anyOf("only mounts of this drive", func(r *request, f claimFacts) []string {
			return []string{r.ref(f.claim.Drive), f.claim.Drive.Name}
		}),
		"workspace": byWorkspace(func(f claimFacts) schema.Key { return f.claim.Drive }),
	},
}

// claimFacts is what a claim's body is made from.
type claimFacts struct {
	claim planner.Claim
	users []planner.UserView // of the drive
}

func mountID(drive string, c planner.Claim) string {
	return fmt.Sprintf("%s-%d@%s", drive, c.Source, c.Client)
}

// claim presents a claim; users are those of its drive.
func (r *request) claim(c planner.Claim, users []planner.UserView) Claim {
	out := Claim{
		mountID(r.ref(c.Drive), c), r.ref(c.Drive), c.Source, c.From, c.Client, c.State, c.Transport, c.Mode,
		c.Message, []string{},
	}
	for _, u := range c.Users {
		if r.seesWorker(u, users) {
			out.Users = append(out.Users, u)
		}
	}
	return out
}

// oneMount is a mount by its id, with its series.
func oneMount(r *request) (any, error) {
	for _, e := range r.table(mounts).entries {
		c := e.ref.(planner.Claim)
		if (r.name != mountID(r.ref(c.Drive), c) && r.name != e.id) || !r.seesEntry(e) {
			continue
		}
		f := mounts.facts(r.state, e).(claimFacts)
		return MountDetail{r.claim(c, f.users), r.series(c)}, nil
	}
	return nil, notFound("mount")
}

// series is what the client reported of a mount.
func (r *request) series(c planner.Claim) MountSeries {
	s := MountSeries{[]Point{}, []Point{}, []Point{}, []Point{}, []Point{}}
	report := r.reports[c.Client]
	if report == nil {
		return s
	}
	i := slices.IndexFunc(report.MountSeries, func(m schema.MountSeries) bool {
		return m.Source == c.Source && (m.UID == c.UID || m.UID == "" && m.Drive == c.Drive.Scoped())
	})
	if i < 0 {
		return s
	}
	for _, x := range report.MountSeries[i].Samples {
		if x.Seconds <= 0 {
			continue
		}
		add := func(to *[]Point, value float64) { *to = append(*to, Point{x.At, value}) }
		add(&s.Throughput, float64(x.ReadBytes+x.WrittenBytes)/x.Seconds)
		add(&s.Operations, float64(x.Operations)/x.Seconds)
		add(&s.RoundTrip, x.RoundTrip)
		add(&s.Retransmissions, float64(x.Retransmissions)/x.Seconds)
		add(&s.Timeouts, float64(x.Timeouts)/x.Seconds)
	}
	return s
}
