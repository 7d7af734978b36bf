package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// result shows what came of it: what workers printed, drives, copies, claims and
// workers. Tables that say what they said before are not repeated.
func (v *labView) result(ctx context.Context) error {
	if err := v.outputs(ctx); err != nil {
		return err
	}
	state, err := v.lab.Source().View(ctx)
	if err != nil {
		return err
	}
	api, err := newClient(v.lab.Address, "the lab", false)
	if err != nil {
		return err
	}
	drives, err := listDrives(ctx, api)
	if err != nil {
		return err
	}
	claims, err := listMounts(ctx, api)
	if err != nil {
		return err
	}
	copies, workers := v.copies(state), v.workers(state)
	if _, err := v.lab.SaveObserved(ctx); err != nil {
		return err
	}
	// Sizes and the like change by themselves, and nobody waits for them.
	text := fmt.Sprint(cellsOf(drives, 4), cellsOf(copies, 3), cellsOf(claims, 5), cellsOf(workers, 5))
	if text == v.tables {
		return nil
	}
	v.tables = text
	for _, table := range []struct {
		title   string
		listing view.Listing
	}{{"Drives", drives}, {"Copies", copies}, {"Claims", claims}, {"Workers", workers}} {
		if err := v.print("\n%s", table.title); err != nil {
			return err
		}
		if err := v.lists.List(table.listing); err != nil {
			return err
		}
	}
	return nil
}

// cellsOf are the first cells of each row.
func cellsOf(l view.Listing, n int) (out [][]string) {
	for _, row := range l.Rows {
		out = append(out, row.Cells[:min(n, len(row.Cells))])
	}
	return out
}

func (v *labView) copies(state *statusapi.View) view.Listing {
	listing := view.Listing{Columns: columns("DRIVE", "MACHINE", "STATE", "SIZE", "FOLDER"), Empty: "no copies"}
	for _, m := range state.Input.Observed.Machines {
		for _, c := range m.Copies {
			listing.Rows = append(listing.Rows, view.Row{Cells: []string{v.names.Scoped(c.Drive), m.Name,
				string(cmp.Or(c.State, schema.CopyPresent)), bytesCell(c.Bytes), c.Folder}})
		}
	}
	return sortRows(listing)
}

// workers shows every placed worker: how it ended, or what its machine says.
func (v *labView) workers(state *statusapi.View) view.Listing {
	listing := view.Listing{Columns: columns("RUN", "WORKER", "MACHINE", "STATE", "REASON"), Empty: "no workers"}
	// An earlier attempt's worker may be listed still, on another machine too.
	seen := map[string]schema.Worker{}
	for _, m := range state.Input.Observed.Machines {
		for _, w := range m.Workers {
			seen[nodeexec.WorkerID(w.RunUID, w.Generation, w.Attempt, w.Name)] = w
		}
	}
	for _, placement := range state.Input.Placed {
		for _, w := range placement.Workers {
			now := seen[nodeexec.WorkerID(placement.RunUID, placement.Generation, placement.Attempt, w.Name)]
			stateNow, reason := cmp.Or(now.State, schema.WorkerPreparing), now.Reason
			if w.Outcome != nil {
				stateNow, reason = w.Outcome.State, w.Outcome.Reason
			}
			listing.Rows = append(listing.Rows, view.Row{Cells: []string{v.names.Name(placement.Run), w.Name,
				w.Machine, string(stateNow), reason}})
		}
	}
	return sortRows(listing)
}

func columns(names ...string) (out []view.Column) {
	for _, name := range names {
		out = append(out, view.Column{Name: name})
	}
	return out
}

func sortRows(l view.Listing) view.Listing {
	slices.SortFunc(l.Rows, func(a, b view.Row) int { return slices.Compare(a.Cells, b.Cells) })
	return l
}
