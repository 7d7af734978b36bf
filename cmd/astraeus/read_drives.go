package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// listing reads a list and makes a row of each item.
func listing[T any](ctx context.Context, c *client, path string, columns []view.Column, empty string, row func(T) view.Row) (view.Listing, error) {
	list, err := all[T](ctx, c, nil, "v1", path)
	if err != nil {
		return view.Listing{}, err
	}
	value, err := itemsOf(list)
	if err != nil {
		return view.Listing{}, err
	}
	l := view.Listing{Columns: columns, Value: value, Empty: empty}
	for _, item := range list {
		l.Rows = append(l.Rows, row(item))
	}
	return l, nil
}

func refOf(kind schema.Kind, m statusapi.Metadata) string {
	return schema.Key{Kind: kind, Namespace: m.Namespace, Name: m.Name}.String()
}

func listDrives(ctx context.Context, c *client) (view.Listing, error) {
	columns := []view.Column{ // D-90
		{Name: "WORKSPACE"}, {Name: "NAME"}, {Name: "STATE"}, {Name: "WHERE"}, {Name: "USED"}, {Name: "FILES"},
		{Name: "ANSWERS"}, {Name: "WORKERS"}, {Name: "MEASURED", Wide: true}, {Name: "NAMESPACE", Wide: true}, {Name: "MESSAGE", Wide: true},
	}
	return listing(ctx, c, "drives", columns, "no drives", func(d statusapi.Drive) view.Row {
		s := d.Status
		return view.Row{Ref: refOf(schema.KindDrive, d.Metadata), Workspace: workspaceOf(d.Metadata), Cells: []string{
			workspaceCell(d.Metadata.Org, d.Metadata.Workspace), d.Metadata.Name, string(s.State), strings.Join(s.Where, ","),
			sizeCell(s.UsedBytes), numberCell(s.Files), numberCell(s.Answers), strconv.Itoa(s.Workers), ageCell(s.MeasuredAt), d.Metadata.Namespace, s.Message,
		}}
	})
}

func oneDrive(ctx context.Context, c *client, name string) (view.Detail, error) {
	var d statusapi.Drive
	if err := c.get(ctx, nil, &d, "v1", "drives", name); err != nil {
		return view.Detail{}, err
	}
	names, err := c.names(ctx)
	if err != nil {
		return view.Detail{}, err
	}
	s := d.Status
	detail := view.Detail{
		Ref: refOf(schema.KindDrive, d.Metadata), Value: d,
		Fields: append(metadataFields(schema.KindDrive, d.Metadata),
			view.Field{Name: "State", Value: joinNonEmpty(": ", string(s.State), s.Message)},
			view.Field{Name: "Where", Value: strings.Join(s.Where, ", ")},
			view.Field{Name: "Used", Value: sizeCell(s.UsedBytes)},
			view.Field{Name: "Files", Value: numberCell(s.Files)},
			view.Field{Name: "Answers", Value: numberCell(s.Answers)},
			view.Field{Name: "Measured", Value: timeCell(s.MeasuredAt)},
			view.Field{Name: "Workers", Value: strconv.Itoa(s.Workers)},
			view.Field{Name: "Managed by", Value: s.ManagedBy},
			view.Field{Name: "Held back", Value: holdText(d.Refused)},
		),
	}
	sources := view.Table{Title: "Sources", Header: []string{"SOURCE", "SCOPE", "NODE", "PATH", "MOUNT_PATH", "MODE"}}
	for i, src := range d.Spec.Sources {
		scope := string(src.NodeScope)
		if scope == "" {
			scope = "one-machine"
		}
		sources.Rows = append(sources.Rows, []string{strconv.Itoa(i), scope, src.Node, src.Path, src.MountPath, string(src.Mode)})
	}
	users := view.Table{Title: "Used by", Header: []string{"RUN", "WORKER", "MACHINE", "STATE", "MODE"}}
	for _, u := range d.UsedBy {
		users.Rows = append(users.Rows, []string{names.Scoped(u.Run), u.Worker, u.Machine, u.State, string(u.Mode)})
	}
	copies := view.Table{Title: "Copies", Header: []string{"MACHINE", "STATE", "SIZE", "FILES", "LAST_USED", "FOLDER"}}
	for _, cp := range d.Copies {
		copies.Rows = append(copies.Rows, []string{cp.Machine, string(cp.State), bytesCell(cp.Bytes), numberCell(&cp.Files), timeCell(cp.LastUsed), cp.Folder})
	}
	mounts := view.Table{Title: "Network mounts", Header: claimHeader}
	for _, m := range d.Claims {
		mounts.Rows = append(mounts.Rows, claimCells(m, names))
	}
	detail.Tables = []view.Table{sources, users, copies, mounts}
	return detail, nil
}

var claimHeader = []string{"DRIVE", "SOURCE", "FROM", "CLIENT", "STATE", "TRANSPORT", "MODE", "MESSAGE"}

func claimCells(m statusapi.Claim, names view.Names) []string {
	return []string{names.Scoped(m.Drive), strconv.Itoa(m.Source), m.From, m.Client, string(m.State), string(m.Transport), string(m.Mode), m.Message}
}

func listMounts(ctx context.Context, c *client) (view.Listing, error) {
	names, err := c.names(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	var columns []view.Column
	for _, name := range claimHeader {
		columns = append(columns, view.Column{Name: name})
	}
	columns = append(columns, view.Column{Name: "NAMESPACE", Wide: true})
	return listing(ctx, c, "mounts", columns, "no network mounts", func(m statusapi.Claim) view.Row {
		namespace, _, _ := strings.Cut(m.Drive, ".")
		return view.Row{Ref: fmt.Sprintf("mount/%s-%d@%s", m.Drive, m.Source, m.Client), Workspace: names[namespace],
			Cells: append(claimCells(m, names), namespace)}
	})
}

// metadataFields begin every detail.
func metadataFields(kind schema.Kind, m statusapi.Metadata) []view.Field {
	return []view.Field{
		{Name: "Name", Value: m.Name},
		{Name: "Kind", Value: string(kind)},
		{Name: "Workspace", Value: workspaceCell(m.Org, m.Workspace)},
		{Name: "Namespace", Value: m.Namespace, Wide: true},
		{Name: "Owner", Value: m.Owner},
		{Name: "UID", Value: m.UID},
		{Name: "Declared in", Value: m.File},
		{Name: "Commit", Value: m.Commit},
	}
}

func holdText(h *schema.Hold) string {
	if h == nil {
		return ""
	}
	return fmt.Sprintf("%d %s: %s", h.Status, h.Code, h.Message)
}

func joinNonEmpty(sep string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}

// ageCell is how long ago something was.
func ageCell(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return time.Since(*t).Round(time.Second).String()
}

func timeCell(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
