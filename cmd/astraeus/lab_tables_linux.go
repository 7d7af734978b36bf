package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// result shows what came of it: drives, copies, claims, workers, and what the
// workers printed. What was shown before is not repeated.
func (v *labView) result(ctx context.Context) error {
	state, err := v.lab.Source().View(ctx)
	if err != nil {
		return err
	}
	base, err := parseServerURL(v.lab.Address)
	if err != nil {
		return err
	}
	api := &client{base: base, http: &http.Client{Timeout: clientTimeout}}
	drives, err := listDrives(ctx, api)
	if err != nil {
		return err
	}
	claims, err := listMounts(ctx, api)
	if err != nil {
		return err
	}
	tables := []struct {
		title   string
		listing view.Listing
	}{
		{"Drives", drives}, {"Copies", copiesOf(state)}, {"Claims", claims}, {"Workers", workersOf(state)},
	}
	if text := fmt.Sprint(tables[1].listing.Rows, tables[3].listing.Rows, v.last.Commit); text == v.shown {
		return nil
	} else {
		v.shown = text
	}
	for _, table := range tables {
		if _, err := fmt.Fprintf(v.env.stdout, "\n%s\n", table.title); err != nil {
			return err
		}
		if err := v.lists.List(table.listing); err != nil {
			return err
		}
	}
	if _, err := v.lab.SaveObserved(ctx); err != nil {
		return err
	}
	return v.outputs(state)
}

func (v *labView) outputs(state *statusapi.View) error {
	if _, err := fmt.Fprintln(v.env.stdout, "\nOutput"); err != nil {
		return err
	}
	for _, output := range v.lab.Outputs(state.Input.Placed, outputLines) {
		for _, line := range output.Lines {
			if _, err := fmt.Fprintf(v.env.stdout, "%s | %s\n", view.Plain(output.Worker), view.Plain(line)); err != nil {
				return err
			}
		}
	}
	reached, why := v.last.Converged(v.cli.Bool("once"))
	if !reached {
		return nil
	}
	_, err := fmt.Fprintf(v.env.stdout, "\nReached: %d steps done, %d runs wait, %d changes held%s.\n",
		v.progress.Done(), len(v.last.Plan.Waits), len(v.last.Plan.Holds), why)
	return err
}

func copiesOf(state *statusapi.View) view.Listing {
	listing := view.Listing{Columns: columns("DRIVE", "MACHINE", "STATE", "SIZE", "FOLDER"), Empty: "no copies"}
	for _, m := range state.Input.Observed.Machines {
		for _, c := range m.Copies {
			listing.Rows = append(listing.Rows, view.Row{Cells: []string{c.Drive, m.Name,
				string(cmp.Or(c.State, schema.CopyPresent)), copySize(c.Bytes), c.Folder}})
		}
	}
	return sortRows(listing)
}

func copySize(bytes int64) string {
	if bytes < 0 {
		return "-" // not measured yet
	}
	return schema.Size(bytes)
}

// workersOf shows every placed worker: how it ended, or what its machine says.
func workersOf(state *statusapi.View) view.Listing {
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
			listing.Rows = append(listing.Rows, view.Row{Cells: []string{placement.Workspace + "/" + placement.Run.Name, w.Name,
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
