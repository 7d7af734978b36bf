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
}

// Origins say where a plan's inputs came from.
type Origins struct {
	InForce  string `json:"in_force_from,omitempty"` // a server, a commit, or nothing
	Observed string `json:"observed_from,omitempty"` // a server, a file, or nothing
}

// NewPlan is the view of a format.
func NewPlan(format string, out Out) (Plan, error) { return NewPlanOf(format, out, PlanContext{}) }

// NewPlanOf is the view of a format for a plan of which more is known.
func NewPlanOf(format string, out Out, about PlanContext) (Plan, error) {
	switch format {
	case "table":
		return humanPlan{out}, nil
	case "json":
		return jsonPlan{out, about.Origins}, nil
	case "markdown":
		return markdownPlan{out}, nil
	}
	return nil, &FormatError{format, PlanFormats}
}

type humanPlan struct{ out Out }

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
	text := fmt.Sprintf("%s: %d to create, %d to change, %d to remove; %s", name, s.Create, s.Change, s.Remove, count(s.Steps, "step"))
	if s.Create+s.Change+s.Remove+s.Steps+s.Holds+s.Drift == 0 {
		text = name + ": no changes"
	}
	if s.Destroy > 0 {
		text += fmt.Sprintf(" (%d destructive)", s.Destroy)
	}
	if s.Holds > 0 {
		text += ", " + count(s.Holds, "hold")
	}
	if s.Drift > 0 {
		text += fmt.Sprintf(", %d drifted", s.Drift)
	}
	if s.Waits > 0 {
		text += ", " + count(s.Waits, "wait")
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
			lines = append(lines, v.out.paint(red, "! "+stepLine(s)))
		}
	}
	return lines
}

var changeMarks = map[string]struct {
	mark  string
	color color
	order int
}{
	"remove": {"-", red, 0}, "change": {"~", yellow, 1}, "create": {"+", green, 2},
}

func (v humanPlan) changes(doc planner.PlanDocument) (lines []string) {
	for _, c := range sortedChanges(doc.Changes) {
		m := changeMarks[c.Change]
		line := m.mark + " " + Plain(c.Object.String())
		if c.File != "" {
			line += "  " + Plain(c.Pos.String())
		}
		lines = append(lines, v.out.paint(m.color, line))
	}
	return lines
}

// sortedChanges puts removals first.
func sortedChanges(list []planner.DocumentChange) []planner.DocumentChange {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b planner.DocumentChange) int {
		return changeMarks[a.Change].order - changeMarks[b.Change].order
	})
	return list
}

func (v humanPlan) holds(doc planner.PlanDocument) (lines []string) {
	for _, h := range doc.Holds {
		line := fmt.Sprintf("! %s  %d %s: %s", Plain(h.Object.String()), h.Status, h.Code, Plain(h.Message))
		if h.File != "" {
			line += "  " + Plain(h.Pos.String())
		}
		lines = append(lines, v.out.paint(yellow, line))
	}
	return lines
}

func (v humanPlan) drift(doc planner.PlanDocument) (lines []string) {
	for _, d := range doc.Drift {
		lines = append(lines, v.out.paint(yellow, fmt.Sprintf("~ %s  %s: %s", Plain(d.Machine), Plain(d.Object.String()), Plain(d.Message))))
	}
	return lines
}

func (v humanPlan) placements(doc planner.PlanDocument) (lines []string) {
	for _, p := range doc.Placements {
		lines = append(lines, fmt.Sprintf("> %s  %s on %s", Plain(p.Run.String()), Plain(p.Worker), Plain(p.Machine)))
	}
	return lines
}

// steps lists them machine by machine, each machine's in their order.
func (v humanPlan) steps(doc planner.PlanDocument) (lines []string) {
	var machines []string
	by := map[string][]schema.Step{}
	for _, s := range doc.Steps {
		if by[s.Machine] == nil {
			machines = append(machines, s.Machine)
		}
		by[s.Machine] = append(by[s.Machine], s)
	}
	slices.Sort(machines)
	for _, machine := range machines {
		for _, s := range by[machine] {
			mark, c := stepMark(s)
			lines = append(lines, v.out.paint(c, mark+" "+stepLine(s)))
		}
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

// stepLine is "gpu-01  CreateCopy  drive/ws-….x  /path  (why)".
func stepLine(s schema.Step) string {
	parts := []string{s.Machine, string(s.Action), s.Object.String()}
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
	for _, w := range doc.Waits {
		name := w.Run.String()
		if w.Worker != "" {
			name += " " + w.Worker
		}
		summary := w.Summary
		if summary == "" {
			summary = schema.Summarize(w.Reasons, schema.MostInSummary)
		}
		lines = append(lines, fmt.Sprintf("… %s: %s", Plain(name), Plain(summary)))
	}
	return lines
}
