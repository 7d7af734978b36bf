package view

import (
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

var changeMarks = map[string]struct {
	mark  string
	color color
	order int
}{
	"remove": {"-", red, 0}, "change": {"~", yellow, 1}, "create": {"+", green, 2},
}

// changed is one object's line: what is derived from it is said there too.
type changed struct {
	planner.DocumentChange
	derived []planner.DocumentChange
}

// changedObjects puts removals first, and what is derived from an object that
// changes too beside that one.
func changedObjects(doc planner.PlanDocument) []changed {
	at := map[schema.Key]int{}
	var list []changed
	for _, c := range doc.Changes {
		if c.From == (schema.Key{}) {
			at[c.Object] = len(list)
			list = append(list, changed{DocumentChange: c})
		}
	}
	for _, c := range doc.Changes {
		if c.From == (schema.Key{}) {
			continue
		}
		if i, ok := at[c.From]; ok {
			list[i].derived = append(list[i].derived, c)
		} else {
			list = append(list, changed{DocumentChange: c})
		}
	}
	slices.SortStableFunc(list, func(a, b changed) int { return changeMarks[a.Change].order - changeMarks[b.Change].order })
	return list
}

var changeVerbs = map[string]string{"create": "creates", "change": "changes", "remove": "removes"}

// note says what else there is to know of a change: "with run api-0, run api-1".
func (c changed) note(names Names) string {
	var parts []string
	by := map[string][]string{}
	for _, d := range c.derived {
		by[d.Change] = append(by[d.Change], d.Object.Kind.Word()+" "+d.Object.Name)
	}
	for _, change := range []string{"remove", "change", "create"} {
		switch {
		case len(by[change]) == 0:
		case change == c.Change:
			parts = append(parts, "with "+strings.Join(by[change], ", "))
		default:
			parts = append(parts, changeVerbs[change]+" "+strings.Join(by[change], ", "))
		}
	}
	if len(c.derived) == 0 && c.From != (schema.Key{}) {
		parts = append(parts, "of "+names.Object(c.From))
	}
	switch {
	case c.Renamed == (schema.Key{}):
	case c.Change == "change":
		parts = append(parts, "was called "+c.Renamed.Name)
	default:
		parts = append(parts, "was "+names.Object(c.Renamed)+": that one is removed and this one begins anew")
	}
	if c.Removed != nil {
		parts = append(parts, fmt.Sprintf("%s %s: %s", c.Removed.ID, c.Removed.HostPath, c.Removed.Message))
	}
	return strings.Join(parts, "; ")
}

// fields say what a change changes, a line each.
func (c changed) fields() (lines []string) {
	for _, f := range c.Fields {
		line := f.Field + ": "
		switch {
		case f.Hidden:
			line += "differs (not shown, it may be secret)"
		case f.Old == "":
			line += "added " + f.New
		case f.New == "":
			line += "removed " + f.Old
		default:
			line += f.Old + " -> " + f.New
		}
		lines = append(lines, Plain(line))
	}
	if c.More > 0 {
		lines = append(lines, "and "+Count(c.More, "more field"))
	}
	return lines
}

func (v humanPlan) changes(doc planner.PlanDocument) (lines []string) {
	for _, c := range changedObjects(doc) {
		m := changeMarks[c.Change]
		line := m.mark + " " + Plain(v.names.Object(c.Object))
		if c.File != "" {
			line += "  " + Plain(c.Pos.String())
		}
		if note := c.note(v.names); note != "" {
			line += fmt.Sprintf("  (%s)", Plain(note))
		}
		lines = append(lines, v.out.paint(m.color, line))
		for _, field := range c.fields() {
			lines = append(lines, "    "+field)
		}
	}
	return lines
}
