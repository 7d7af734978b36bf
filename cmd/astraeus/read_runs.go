package main

import (
	"context"
	"strconv"
	"strings"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

func listRuns(ctx context.Context, c *client) (view.Listing, error) {
	columns := []view.Column{
		{Name: "WORKSPACE"}, {Name: "NAME"}, {Name: "PHASE"}, {Name: "WORKERS"}, {Name: "ATTEMPT"}, {Name: "MACHINES"},
		{Name: "NAMESPACE", Wide: true}, {Name: "WHY", Wide: true},
	}
	return listing(ctx, c, "runs", columns, "no runs", func(r statusapi.Run) view.Row {
		running, machines := 0, []string{}
		for _, w := range r.Status.Workers {
			if w.State == schema.WorkerRunning {
				running++
			}
			if w.Machine != "" {
				machines = append(machines, w.Machine)
			}
		}
		return view.Row{Ref: refOf(schema.KindRun, r.Metadata), Workspace: workspaceOf(r.Metadata), Cells: []string{
			workspaceCell(r.Metadata.Org, r.Metadata.Workspace), r.Metadata.Name, string(r.Status.Phase),
			strconv.Itoa(running) + "/" + strconv.Itoa(len(r.Status.Workers)), strconv.Itoa(r.Status.Attempt),
			strings.Join(machines, ","), r.Metadata.Namespace, r.Status.Summary,
		}}
	})
}

func oneRun(ctx context.Context, c *client, name string) (view.Detail, error) {
	var r statusapi.Run
	if err := c.get(ctx, nil, &r, "v1", "runs", name); err != nil {
		return view.Detail{}, err
	}
	detail := view.Detail{
		Ref: refOf(schema.KindRun, r.Metadata), Value: r,
		Fields: append(metadataFields(schema.KindRun, r.Metadata),
			view.Field{Name: "Phase", Value: string(r.Status.Phase)},
			view.Field{Name: "Why", Value: r.Status.Summary},
			view.Field{Name: "Attempt", Value: strconv.Itoa(r.Status.Attempt)},
			view.Field{Name: "Held back", Value: holdText(r.Refused)},
		),
	}
	workers := view.Table{Title: "Workers", Header: []string{"NAME", "RANK", "STATE", "MACHINE", "ADDRESS", "EXIT_CODE", "WHY"}}
	for _, w := range r.Status.Workers {
		code, why := "", w.Summary
		if w.Outcome != nil {
			code, why = numberCell(w.Outcome.ExitCode), joinNonEmpty("; ", w.Outcome.Reason, why)
		}
		workers.Rows = append(workers.Rows, []string{w.Name, strconv.Itoa(w.Rank), string(w.State), w.Machine, w.Address, code, why})
	}
	reasons := view.Table{Title: "Why it waits", Header: []string{"MACHINES", "CODE", "REASON"}}
	for _, why := range r.Status.Reasons {
		reasons.Rows = append(reasons.Rows, []string{strconv.Itoa(max(1, why.Count)), string(why.Code), why.Message()})
	}
	detail.Tables = []view.Table{workers, reasons, specTable(r.Spec)}
	return detail, nil
}

func listVolumes(ctx context.Context, c *client) (view.Listing, error) {
	names, err := c.names(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	columns := []view.Column{
		{Name: "WORKSPACE"}, {Name: "ID"}, {Name: "SHARED"}, {Name: "NODE"}, {Name: "CAPACITY_GB"}, {Name: "HOST_PATH"}, {Name: "NAME"}, {Name: "NAMESPACE", Wide: true},
	}
	return listing(ctx, c, "volumes", columns, "no volumes", func(v statusapi.Volume) view.Row {
		key := schema.Key{Kind: schema.KindVolume, Namespace: v.Namespace, Name: v.Name}
		return view.Row{Ref: key.String(), Workspace: names[v.Namespace], Cells: []string{
			names[v.Namespace], v.ID, yesNo(v.Shared), v.NodeID, strconv.FormatInt(v.CapacityGB, 10), v.HostPath, v.Name, v.Namespace,
		}}
	})
}

func oneVolume(ctx context.Context, c *client, name string) (view.Detail, error) {
	var d statusapi.VolumeDetail
	if err := c.get(ctx, nil, &d, "v1", "volumes", name); err != nil {
		return view.Detail{}, err
	}
	v := d.Volume
	refs := view.Table{Title: "References", Header: []string{"TASK", "STATUS", "ACTIVE", "USER"}}
	for _, r := range d.References {
		refs.Rows = append(refs.Rows, []string{r.TaskName, string(r.TaskStatus), yesNo(r.Active), r.UserID})
	}
	return view.Detail{
		Ref: schema.Key{Kind: schema.KindVolume, Namespace: v.Namespace, Name: v.Name}.String(), Value: d,
		Fields: []view.Field{
			{Name: "Name", Value: v.Name}, {Name: "Kind", Value: string(schema.KindVolume)}, {Name: "ID", Value: v.ID},
			{Name: "Namespace", Value: v.Namespace, Wide: true}, {Name: "Host path", Value: v.HostPath}, {Name: "Shared", Value: yesNo(v.Shared)},
			{Name: "Node", Value: v.NodeID}, {Name: "Capacity", Value: strconv.FormatInt(v.CapacityGB, 10) + " GB"},
			{Name: "Description", Value: v.Description}, {Name: "Owner", Value: v.Owner}, {Name: "In use", Value: yesNo(d.InUse)},
			{Name: "Held back", Value: holdText(d.Refused)},
		},
		Tables: []view.Table{refs},
	}, nil
}

func listEvents(ctx context.Context, c *client) (view.Listing, error) {
	names, err := c.names(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	return listing(ctx, c, "events", eventColumns, "no events", func(e schema.Event) view.Row { return eventRow(e, names) })
}
