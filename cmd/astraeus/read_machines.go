package main

import (
	"context"
	"strconv"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

func listMachines(ctx context.Context, c *client) (view.Listing, error) {
	columns := []view.Column{
		{Name: "ORG"}, {Name: "NAME"}, {Name: "STATE"}, {Name: "ADDRESS"}, {Name: "CPU"}, {Name: "MEMORY"}, {Name: "GPUS"},
		{Name: "COPIES"}, {Name: "WORKERS"}, {Name: "DATA_LOCATION"}, {Name: "FREE", Wide: true}, {Name: "ENGINE", Wide: true},
	}
	return listing(ctx, c, "machines", columns, "no machines", func(m statusapi.Machine) view.Row {
		cells := []string{m.Metadata.Org, m.Metadata.Name, string(m.State), m.Address}
		cells = append(cells, resourceCells(m.Resources)...)
		cells = append(cells, strconv.Itoa(len(m.Copies)), strconv.Itoa(len(m.Workers)))
		location, free := "", ""
		if m.Location != nil {
			location, free = m.Location.Path, bytesCell(m.Location.FreeBytes)
		}
		engine := ""
		if m.Engine != nil {
			engine = string(m.Engine.Kind)
		}
		return view.Row{Ref: refOf(schema.KindMachine, m.Metadata), Cells: append(cells, location, free, engine)}
	})
}

func resourceCells(r *schema.Resources) []string {
	if r == nil {
		return []string{"", "", ""}
	}
	return []string{strconv.FormatFloat(r.CPUCores, 'f', -1, 64), bytesCell(r.MemoryBytes), strconv.Itoa(r.GPUs)}
}

func oneMachine(ctx context.Context, c *client, name string) (view.Detail, error) {
	var m statusapi.Machine
	if err := c.get(ctx, nil, &m, "v1", "machines", name); err != nil {
		return view.Detail{}, err
	}
	names, err := c.names(ctx)
	if err != nil {
		return view.Detail{}, err
	}
	resources := resourceCells(m.Resources)
	detail := view.Detail{
		Ref: refOf(schema.KindMachine, m.Metadata), Value: m,
		Fields: append(metadataFields(schema.KindMachine, m.Metadata),
			view.Field{Name: "State", Value: string(m.State)},
			view.Field{Name: "Address", Value: m.Address},
			view.Field{Name: "Schedulable", Value: yesNo(m.Schedulable)},
			view.Field{Name: "CPU cores", Value: resources[0]},
			view.Field{Name: "Memory", Value: resources[1]},
			view.Field{Name: "GPUs", Value: resources[2]},
			view.Field{Name: "Engine", Value: engineText(m.Engine)},
			view.Field{Name: "Network mounts", Value: networkText(m.Network)},
			view.Field{Name: "Data location", Value: locationText(m)},
			view.Field{Name: "Held back", Value: holdText(m.Refused)},
		),
	}
	disks := view.Table{Title: "Disks", Header: []string{"MOUNT_POINT", "MEDIUM", "TYPE", "TOTAL", "FREE", "SYSTEM", "SHARED", "RECOMMENDED"}}
	for _, d := range m.Disks {
		disks.Rows = append(disks.Rows, []string{d.MountPoint, string(d.Medium), d.Type, bytesCell(d.TotalBytes), bytesCell(d.FreeBytes), yesNo(d.System), yesNo(d.Shared), yesNo(d.Recommended)})
	}
	copies := view.Table{Title: "Copies", Header: []string{"DRIVE", "STATE", "SIZE", "FILES", "LAST_USED", "FOLDER"}}
	for _, cp := range m.Copies {
		copies.Rows = append(copies.Rows, []string{names.Scoped(cp.Drive), string(cp.State), bytesCell(cp.Bytes), numberCell(&cp.Files), timeCell(cp.LastUsed), cp.Folder})
	}
	workers := view.Table{Title: "Workers", Header: []string{"RUN", "WORKER", "STATE"}}
	for _, w := range m.Workers {
		workers.Rows = append(workers.Rows, []string{names.Scoped(w.Run), w.Name, string(w.State)})
	}
	failures := view.Table{Title: "Failing steps", Header: []string{"ACTION", "KIND", "OBJECT", "ATTEMPTS", "SINCE", "MESSAGE"}}
	for _, f := range m.Failures {
		failures.Rows = append(failures.Rows, []string{string(f.Action), f.Object.Kind.Word(), names.Name(f.Object), strconv.Itoa(f.Attempts), timeCell(&f.Since), f.Message})
	}
	problems := view.Table{Title: "Problems", Header: []string{"MESSAGE"}}
	for _, p := range m.Problems {
		problems.Rows = append(problems.Rows, []string{p})
	}
	detail.Tables = []view.Table{disks, copies, workers, failures, problems}
	return detail, nil
}

func engineText(e *schema.EngineState) string {
	if e == nil {
		return ""
	}
	state := "ready"
	if !e.Ready {
		state = "not ready"
	}
	return joinNonEmpty(": ", string(e.Kind)+" "+state, e.Message)
}

func networkText(n *schema.NetworkPart) string {
	if n == nil {
		return ""
	}
	return joinNonEmpty("; ", n.Kind+" server "+yesNo(n.Server)+" client "+yesNo(n.Client), n.ServerMessage, n.ClientMessage)
}

// locationText names the data location, or the folder to choose for one (D-33).
func locationText(m statusapi.Machine) string {
	if m.Location == nil {
		if m.Recommended == "" {
			return "none chosen"
		}
		return "none chosen; recommended: " + m.Recommended
	}
	text := m.Location.Path
	if m.Location.MaxBytes > 0 {
		text += ", at most " + schema.Size(m.Location.MaxBytes)
	}
	if m.Location.UsedBytes >= 0 {
		text += ", used " + schema.Size(m.Location.UsedBytes)
	}
	if m.Location.FreeBytes >= 0 {
		text += ", free " + schema.Size(m.Location.FreeBytes)
	}
	return joinNonEmpty(": ", text, m.Location.Message)
}
