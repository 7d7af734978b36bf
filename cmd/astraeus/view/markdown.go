package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"astraeus.io/astraeus/planner"
)

// MarkdownMarker is the first line of the markdown form, by which the comment of
// an earlier plan is found and replaced. It does not show.
const MarkdownMarker = "<!-- astraeus:plan -->"

// Sizes of the markdown form, in bytes: hosts cut comments off at 65,536.
const (
	markdownLimit   = 60_000
	markdownReserve = 300 // what one section needs beside its rows
	markdownCell    = 400 // longest cell, in characters
)

type markdownPlan struct {
	out   Out
	names Names
}

// markdownTable is one table; open ones are not folded.
type markdownTable struct {
	title  string
	header []string
	rows   [][]string
	open   bool
}

// Plan writes deletions first and open, and the rest folded.
func (v markdownPlan) Plan(doc planner.PlanDocument) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### %s\n", MarkdownMarker, markdownEscape(planHeading(doc)))
	tables := v.tables(doc)
	for i, t := range tables {
		left := markdownLimit - b.Len() - markdownReserve*(len(tables)-i)
		b.WriteString(t.render(left))
	}
	_, err := io.WriteString(v.out, b.String())
	return err
}

func (v markdownPlan) tables(doc planner.PlanDocument) []markdownTable {
	all := []markdownTable{
		{title: "Data that will be deleted", header: []string{"Machine", "Action", "Object", "Where", "Why"}, open: true},
		{title: "Objects that will be removed", header: []string{"Object", "File", "What"}, open: true},
		{title: "Held back", header: []string{"Object", "Code", "Why", "File"}, open: true},
		{title: "What the commit changes", header: []string{"Change", "Object", "File", "What"}},
		{title: "Drift on machines", header: []string{"Machine", "Object", "What"}},
		{title: "Placements", header: []string{"Run", "Worker", "Machine"}},
		{title: "Waits", header: []string{"Run", "Worker", "Why"}},
		{title: "Steps", header: []string{"Machine", "Action", "Object", "Where", "Why"}},
		{title: "Diagnostics", header: []string{"File", "Severity", "Code", "Message"}},
	}
	for _, s := range doc.Steps {
		row := []string{s.Machine, string(s.Action), v.names.Object(s.Object), stepDetail(s.Args), s.Why.Message}
		if s.Destructive {
			all[0].rows = append(all[0].rows, row)
		} else {
			all[7].rows = append(all[7].rows, row)
		}
	}
	for _, c := range changedObjects(doc) {
		what := strings.Join(append(c.fields(), nonEmpty(c.note(v.names))...), "; ")
		if c.Change == "remove" {
			all[1].rows = append(all[1].rows, []string{v.names.Object(c.Object), c.Pos.String(), what})
		} else {
			all[3].rows = append(all[3].rows, []string{c.Change, v.names.Object(c.Object), c.Pos.String(), what})
		}
	}
	for _, h := range doc.Holds {
		all[2].rows = append(all[2].rows, []string{v.names.Object(h.Object), strconv.Itoa(h.Status) + " " + string(h.Code), h.Message, h.Pos.String()})
	}
	for _, d := range doc.Drift {
		all[4].rows = append(all[4].rows, []string{d.Machine, v.names.Object(d.Object), d.Message})
	}
	for _, p := range doc.Placements {
		all[5].rows = append(all[5].rows, []string{v.names.Object(p.Run), p.Worker, p.Machine})
	}
	for _, w := range OpenWaits(doc.Steps, doc.Waits) {
		all[6].rows = append(all[6].rows, []string{v.names.Object(w.Run), w.Worker, w.Summary()})
	}
	for _, d := range doc.Diagnostics {
		all[8].rows = append(all[8].rows, []string{d.Pos.String(), string(d.Severity), string(d.Code), d.Message})
	}
	return all
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// render writes the table into at most room bytes beside its own frame, saying
// how many rows did not fit.
func (t markdownTable) render(room int) string {
	if len(t.rows) == 0 {
		return ""
	}
	var b strings.Builder
	title := fmt.Sprintf("%s (%d)", t.title, len(t.rows))
	if t.open {
		fmt.Fprintf(&b, "\n**%s**\n\n", title)
	} else {
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", title)
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.header, " | "), strings.Repeat(" --- |", len(t.header)))
	for i, row := range t.rows {
		cells := make([]string, len(row))
		for j, cell := range row {
			cells[j] = markdownEscape(shorten(cell, markdownCell))
		}
		line := "| " + strings.Join(cells, " | ") + " |\n"
		if b.Len()+len(line) > room {
			fmt.Fprintf(&b, "\n… and %d more: `astraeus plan` shows all.\n", len(t.rows)-i)
			break
		}
		b.WriteString(line)
	}
	if !t.open {
		b.WriteString("\n</details>\n")
	}
	return b.String()
}

func shorten(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// markdownEscape makes foreign text stand for itself: it can end no cell, start
// no markup and mention nobody. Ampersands come first by the replacer's one pass.
func markdownEscape(text string) string { return markdownEscaper.Replace(Plain(text)) }

var markdownEscaper = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, `\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`,
	"[", `\[`, "]", `\]`, "~", `\~`, "#", "&#35;", "@", "&#64;", "!", `\!`, "://", "&#58;//",
)
