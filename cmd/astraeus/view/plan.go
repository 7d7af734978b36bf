package view

import (
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Plan writes a plan (G-6). Three things are kept apart in every form: what the
// commit changes, what drifted on machines, what waits. What destroys comes first.
type Plan interface {
	Plan(planner.PlanDocument) error
}

// PlanFormats are the formats of NewPlan.
var PlanFormats = []string{"table", "json", "markdown"}

// PlanContext is what a view needs to know beside the plan.
type PlanContext struct {
	Origins Origins
	Names   Names
}

// Origins say where a plan's inputs came from.
type Origins struct {
	InForce  string `json:"in_force_from,omitempty"` // a server, a commit, or nothing
	Observed string `json:"observed_from,omitempty"` // a server, a file, or nothing
	Partial  bool   `json:"partial,omitempty"`       // the server showed a part of the cluster only
}

// NewPlan is the view of a format.
func NewPlan(format string, out Out) (Plan, error) { return NewPlanOf(format, out, PlanContext{}) }

// NewPlanOf is the view of a format for a plan of which more is known.
func NewPlanOf(format string, out Out, about PlanContext) (Plan, error) {
	switch format {
	case "table":
		return humanPlan{out, about.Names}, nil
	case "json":
		return jsonPlan{out, about.Origins}, nil
	case "markdown":
		return markdownPlan{out, about.Names}, nil
	}
	return nil, &FormatError{format, PlanFormats}
}

type humanPlan struct {
	out   Out
	names Names
}

// section is a titled list of lines; an empty one is not shown.
type section struct {
	title string
	lines []string
}

func (v humanPlan) Plan(doc planner.PlanDocument) error {
	if err := v.out.printf("%s", v.out.paint(bold, planHeading(doc))); err != nil {
		return err
	}
	sections := []section{
		{"Data that will be deleted", v.destroyed(doc)},
		{"What the commit changes", v.changes(doc)},
		{"Held back", v.holds(doc)},
		{"Drift on machines", v.drift(doc)},
		{"Placements", v.placements(doc)},
		{"Steps", v.steps(doc)},
		{"Waits", v.waits(doc)},
	}
	for _, s := range sections {
		if len(s.lines) == 0 {
			continue
		}
		if err := v.out.printf("\n%s", v.out.paint(bold, s.title)); err != nil {
			return err
		}
		for _, line := range s.lines {
			if err := v.out.printf("  %s", line); err != nil {
				return err
			}
		}
	}
	return nil
}

// planHeading is one line with every count.
func planHeading(doc planner.PlanDocument) string {
	name := "Plan for the files as they lie"
	if doc.Inputs.Commit != "" {
		name = "Plan for " + Short(doc.Inputs.Commit)
	}
	s := doc.Summary
	text := fmt.Sprintf("%s: %d to create, %d to change, %d to remove; %s", name, s.Create, s.Change, s.Remove, Count(s.Steps, "step"))
	if s.Create+s.Change+s.Remove+s.Steps+s.Holds+s.Drift == 0 {
		text = name + ": no changes"
	}
	if s.Destroy > 0 {
		text += fmt.Sprintf(" (%d destructive)", s.Destroy)
	}
	if s.Holds > 0 {
		text += ", " + Count(s.Holds, "hold")
	}
	if s.Drift > 0 {
		text += fmt.Sprintf(", %d drifted", s.Drift)
	}
	if waits := len(OpenWaits(doc.Steps, doc.Waits)); waits > 0 {
		text += ", " + Count(waits, "wait")
	}
	return text
}

// Short is a commit id as people read it.
func Short(commit string) string {
	if len(commit) > 12 {
		return commit[:12]
	}
	return commit
}

func (v humanPlan) destroyed(doc planner.PlanDocument) (lines []string) {
	for _, s := range doc.Steps {
		if s.Destructive {
			lines = append(lines, v.out.paint(red, "! "+v.stepLine(s)))
		}
	}
	return lines
}

func (v humanPlan) holds(doc planner.PlanDocument) (lines []string) {
	for _, h := range doc.Holds {
		line := "! " + HoldLine(h, v.names)
		if h.File != "" {
			line += "  " + Plain(h.Pos.String())
		}
		lines = append(lines, v.out.paint(yellow, line))
		if h.Hint != "" {
			lines = append(lines, "    "+v.out.paint(cyan, "hint:")+" "+Plain(h.Hint))
		}
	}
	return lines
}

func (v humanPlan) drift(doc planner.PlanDocument) (lines []string) {
	for _, d := range doc.Drift {
		lines = append(lines, v.out.paint(yellow, fmt.Sprintf("~ %s  %s: %s", Plain(d.Machine), Plain(v.names.Object(d.Object)), Plain(d.Message))))
	}
	return lines
}

func (v humanPlan) placements(doc planner.PlanDocument) (lines []string) {
	for _, p := range doc.Placements {
		lines = append(lines, fmt.Sprintf("> %s  %s on %s", Plain(v.names.Object(p.Run)), Plain(p.Worker), Plain(p.Machine)))
	}
	return lines
}

// steps lists them in the document's order, which is one in which they can be
// carried out: a machine may have to wait for another.
func (v humanPlan) steps(doc planner.PlanDocument) (lines []string) {
	for _, s := range doc.Steps {
		mark, c := stepMark(s)
		lines = append(lines, v.out.paint(c, mark+" "+v.stepLine(s)))
	}
	return lines
}

func stepMark(s schema.Step) (string, color) {
	switch s.Action {
	case schema.ActionEvictCopy, schema.ActionDeleteCopy:
		return "!", red
	case schema.ActionStopWorker, schema.ActionUnmount, schema.ActionUnexport:
		return "-", yellow
	}
	return "+", green
}

// stepLine is "gpu-01  CreateCopy  drive acme/research/x  /path  (why)".
func (v humanPlan) stepLine(s schema.Step) string {
	parts := []string{s.Machine, string(s.Action), v.names.Object(s.Object)}
	if detail := stepDetail(s.Args); detail != "" {
		parts = append(parts, detail)
	}
	line := Plain(strings.Join(parts, "  "))
	if s.Why.Message != "" {
		line += "  (" + Plain(s.Why.Message) + ")"
	}
	return line
}

func stepDetail(a schema.StepArgs) string {
	var parts []string
	add := func(prefix, text string) {
		if text != "" {
			parts = append(parts, prefix+text)
		}
	}
	add("", a.Worker)
	add("", a.Path)
	add("from ", a.From)
	add("to ", a.To)
	add("over ", string(a.Transport))
	return strings.Join(parts, " ")
}

func (v humanPlan) waits(doc planner.PlanDocument) (lines []string) {
	for _, w := range OpenWaits(doc.Steps, doc.Waits) {
		lines = append(lines, "… "+WaitLine(w, v.names))
	}
	return lines
}

// WaitLine is "run acme/research/train train-0: why".
func WaitLine(w schema.Wait, names Names) string {
	name := names.Object(w.Run)
	if w.Worker != "" {
		name += " " + w.Worker
	}
	return Plain(name) + ": " + Plain(w.Summary())
}

// HoldLine is "drive acme/research/x  409 CODE: why".
func HoldLine(h schema.Hold, names Names) string {
	return fmt.Sprintf("%s  %d %s: %s", Plain(names.Object(h.Object)), h.Status, h.Code, Plain(h.Message))
}

// endsWithThePlan are the reasons that the steps of the same plan take away.
var endsWithThePlan = map[schema.ReasonCode]bool{
	schema.ReasonMounting: true, schema.ReasonFilling: true, schema.ReasonCreatingCopy: true, schema.ReasonCreatingDir: true,
	schema.ReasonStarting: true, schema.ReasonStopping: true,
}

// OpenWaits are the waits that are left when the plan's steps are done: of a
// worker that one of them starts, the others are said by the steps themselves.
func OpenWaits(steps []schema.Step, waits []schema.Wait) (open []schema.Wait) {
	type worker struct {
		run  schema.Key
		name string
	}
	starts := map[worker]bool{}
	for _, s := range steps {
		if s.Action == schema.ActionStartWorker {
			starts[worker{s.Object, s.Args.Worker}] = true
		}
	}
	for _, w := range waits {
		if !starts[worker{w.Run, w.Worker}] || !Passing(w) {
			open = append(open, w)
		}
	}
	return open
}

// Passing says that a wait ends with steps that are being done.
func Passing(w schema.Wait) bool {
	return !slices.ContainsFunc(w.Reasons, func(r schema.Reason) bool {
		return !endsWithThePlan[r.Code] || r.Args.State == string(planner.ClaimFailed)
	})
}
