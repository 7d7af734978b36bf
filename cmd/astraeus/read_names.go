package main

import (
	"context"
	"strconv"
	"strings"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// look is the newest state of a cluster, as the planner sees it.
func (c *client) look(ctx context.Context) (*planner.View, error) {
	accepted, err := c.accepted(ctx)
	if err != nil {
		return nil, err
	}
	var in planner.Input
	if err := c.get(ctx, nil, &in.Observed, "v1", "observed"); err != nil {
		return nil, err
	}
	in.Accepted, in.Placed = accepted.State()
	in.Now = in.Observed.At
	return planner.NewView(in, planner.Plan(in)), nil
}

func listNames(ctx context.Context, c *client) (view.Listing, error) {
	v, err := c.look(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	spaces, err := c.names(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	list := v.Names()
	value, err := itemsOf(list)
	l := view.Listing{Value: value, Empty: "no names",
		Columns: []view.Column{{Name: "WORKSPACE"}, {Name: "KIND"}, {Name: "NAME"}, {Name: "ADDRESSES"}, {Name: "WHY_NOT"}}}
	for _, n := range list {
		l.Rows = append(l.Rows, view.Row{Ref: n.Name, Workspace: spaces[n.Namespace],
			Cells: []string{spaces[n.Namespace], n.Kind, n.Name, strings.Join(n.Addresses, ","), n.Why}})
	}
	return l, err
}

func listEndpoints(ctx context.Context, c *client) (view.Listing, error) {
	v, err := c.look(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	spaces, err := c.names(ctx)
	if err != nil {
		return view.Listing{}, err
	}
	list := v.Endpoints()
	value, err := itemsOf(list)
	l := view.Listing{Value: value, Empty: "no endpoints", Columns: []view.Column{{Name: "WORKSPACE"}, {Name: "NAME"}, {Name: "BEHIND"}, {Name: "PORT"},
		{Name: "CHECK"}, {Name: "READY"}, {Name: "BACKENDS"}, {Name: "MESSAGE"}, {Name: "NAMESPACE", Wide: true}}}
	for _, e := range list {
		var ready []string
		for _, b := range e.Backends {
			if b.Ready {
				ready = append(ready, b.Address)
			}
		}
		l.Rows = append(l.Rows, view.Row{Ref: e.Key.String(), Workspace: spaces[e.Key.Namespace], Cells: []string{
			spaces[e.Key.Namespace], e.Key.Name, behindCell(e.Spec), portCell(e.Spec.Port), checkCell(e.Spec.HealthCheck),
			strconv.Itoa(e.Ready) + "/" + strconv.Itoa(len(e.Backends)), strings.Join(ready, ","), e.Message, e.Key.Namespace}})
	}
	return l, err
}

func oneEndpoint(ctx context.Context, c *client, name string) (view.Detail, error) {
	detail, err := acceptedLister(schema.KindEndpoint).one(ctx, c, name)
	if err != nil {
		return detail, err
	}
	v, err := c.look(ctx)
	if err != nil {
		return detail, err
	}
	key, err := schema.ParseKey(detail.Ref)
	if err != nil {
		return detail, err
	}
	e, _ := v.Endpoint(key)
	detail.Value = e
	detail.Fields = append(detail.Fields, view.Field{Name: "Ready", Value: strconv.Itoa(e.Ready) + "/" + strconv.Itoa(len(e.Backends))},
		view.Field{Name: "Message", Value: e.Message})
	backends := view.Table{Title: "Backends", Header: []string{"WORKER", "MACHINE", "ADDRESS", "PORT", "STATE", "READY", "WHY_NOT"}}
	for _, b := range e.Backends {
		backends.Rows = append(backends.Rows, []string{b.Worker, b.Machine, b.Address, portCell(b.Port), string(b.State), yesNo(b.Ready), b.Message})
	}
	detail.Tables = append([]view.Table{backends}, detail.Tables...)
	return detail, nil
}

func behindCell(e schema.EndpointSpec) string {
	if e.Run != "" {
		return "run/" + e.Run
	}
	return "replica_group/" + e.ReplicaGroup
}

func portCell(port int) string {
	if port == 0 {
		return ""
	}
	return strconv.Itoa(port)
}

func checkCell(h *schema.HealthCheck) string {
	switch {
	case h == nil:
		return "none"
	case h.HTTP != nil:
		return "http:" + h.HTTP.Path
	}
	return "tcp"
}
