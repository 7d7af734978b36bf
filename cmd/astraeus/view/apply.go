package view

import (
	"fmt"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// Progress is where an apply stands at one moment.
type Progress struct {
	At      time.Time `json:"-"`
	Commit  string    `json:"commit"`
	Done    int       `json:"done"`  // steps
	Total   int       `json:"total"` // steps
	Waiting int       `json:"waiting"`
	Filling []Filling `json:"filling,omitempty"`
	// Machines is how many are declared, Away those of them that are not connected.
	Machines int      `json:"machines,omitempty"`
	Away     []string `json:"away,omitempty"`
}

// Filling is a copy that grows; Want is 0 when nobody knows.
type Filling struct {
	Drive   string `json:"drive"`
	Machine string `json:"machine"`
	Bytes   int64  `json:"bytes"`
	Want    int64  `json:"want,omitempty"`
}

// Applied is how an apply ended.
type Applied struct {
	Commit    string        `json:"commit"`
	Converged bool          `json:"converged"`
	Steps     int           `json:"steps"`
	Holds     []schema.Hold `json:"holds"`
	Waits     []schema.Wait `json:"waits"`
	// Names of the objects in it, for people.
	Names Names `json:"-"`
}

// Apply follows an apply. Progress is called often and decides itself what to show.
type Apply interface {
	Progress(Progress) error
	Applied(Applied) error
}

// NewApply is the view of a format. Progress goes to progress, the result to out;
// live says that progress is a terminal.
func NewApply(format string, out, progress Out, live bool) (Apply, error) {
	meter := &meter{out: progress, live: live}
	switch format {
	case "table":
		return humanApply{meter, out}, nil
	case "json":
		return jsonApply{meter, out}, nil
	}
	return nil, &FormatError{format, []string{"table", "json"}}
}

// progressEvery is how often a line is written where there is no terminal.
const progressEvery = 10 * time.Second

// meter rewrites one line on a terminal; elsewhere it writes a line from time to time.
type meter struct {
	out   Out
	live  bool
	last  time.Time
	shown string
}

// Progress implements Apply for both forms.
func (m *meter) Progress(p Progress) error {
	text := progressLine(p)
	if text == m.shown {
		return nil
	}
	if m.live {
		m.shown = text
		_, err := fmt.Fprintf(m.out, "\r\x1b[K%s", text)
		return err
	}
	if !m.last.IsZero() && p.At.Sub(m.last) < progressEvery {
		return nil
	}
	m.last, m.shown = p.At, text
	return m.out.printf("%s", text)
}

// end leaves the terminal's line.
func (m *meter) end() {
	if m.live && m.shown != "" {
		_, _ = fmt.Fprint(m.out, "\r\x1b[K")
	}
}

// mostAway is how many machines a line names.
const mostAway = 5

func progressLine(p Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %s done", Short(p.Commit), p.Done, Count(p.Total, "step"))
	for i, f := range p.Filling {
		if i == 3 {
			fmt.Fprintf(&b, ", %d more copies", len(p.Filling)-i)
			break
		}
		fmt.Fprintf(&b, ", %s on %s %s", Plain(f.Drive), Plain(f.Machine), schema.Size(f.Bytes))
		if f.Want > 0 {
			fmt.Fprintf(&b, " of %s", schema.Size(f.Want))
		}
	}
	if p.Waiting > 0 {
		fmt.Fprintf(&b, ", %s", Count(p.Waiting, "wait"))
	}
	if away := len(p.Away); away > 0 {
		fmt.Fprintf(&b, ", %d of %s connected; not %s", p.Machines-away, Count(p.Machines, "machine"), Plain(strings.Join(p.Away[:min(away, mostAway)], ", ")))
		if more := away - mostAway; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	}
	return b.String()
}

type humanApply struct {
	*meter
	result Out
}

// Applied implements Apply.
func (v humanApply) Applied(a Applied) error {
	v.end()
	mark, word := v.result.paint(green, "ok"), "applied"
	switch {
	case !a.Converged:
		mark, word = v.result.paint(yellow, "waiting"), "not converged yet"
	case len(a.Holds) > 0:
		mark, word = v.result.paint(yellow, "partly"), "applied in part"
	}
	if err := v.result.printf("%s: %s %s, %s", mark, Short(a.Commit), word, Count(a.Steps, "step")); err != nil {
		return err
	}
	for _, h := range a.Holds {
		if err := v.result.printf("  ! %s", HoldLine(h, a.Names)); err != nil {
			return err
		}
	}
	for _, w := range a.Waits {
		if err := v.result.printf("  … %s", WaitLine(w, a.Names)); err != nil {
			return err
		}
	}
	return nil
}

type jsonApply struct {
	*meter
	result Out
}

// Applied implements Apply.
func (v jsonApply) Applied(a Applied) error {
	v.end()
	if a.Holds == nil {
		a.Holds = []schema.Hold{}
	}
	if a.Waits == nil {
		a.Waits = []schema.Wait{}
	}
	return writeJSON(v.result, a)
}
