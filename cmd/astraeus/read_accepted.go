package main

import (
	"context"
	"errors"
	"fmt"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// acceptedLister reads kinds that have no route of their own from what is in force.
func acceptedLister(kind schema.Kind) lister {
	return lister{
		list: func(ctx context.Context, c *client) (view.Listing, error) {
			objects, err := acceptedOf(ctx, c, kind)
			if err != nil {
				return view.Listing{}, err
			}
			value, err := itemsOf(objects)
			l := view.Listing{
				Value: value, Empty: "no " + kind.Word() + "s",
				Columns: []view.Column{{Name: "WORKSPACE"}, {Name: "NAME"}, {Name: "GENERATION"}, {Name: "COMMIT"}, {Name: "FILE"}, {Name: "UID", Wide: true}},
			}
			for _, o := range objects {
				l.Rows = append(l.Rows, view.Row{Ref: o.Object.Key.String(), Workspace: workspaceOf(statusapi.MetadataOf(o)), Cells: []string{
					ownerCell(o.Object), o.Object.Key.Name, numberCell(&o.Generation),
					view.Short(o.Commit), o.Object.Origin.String(), o.UID,
				}})
			}
			return l, err
		},
		one: func(ctx context.Context, c *client, name string) (view.Detail, error) {
			objects, err := acceptedOf(ctx, c, kind)
			if err != nil {
				return view.Detail{}, err
			}
			var found []*schema.AcceptedObject
			for _, o := range objects {
				if refNamed(o.Object.Key.String(), name) {
					found = append(found, o)
				}
			}
			switch len(found) {
			case 0:
				return view.Detail{}, fmt.Errorf("%s %q not found", kind.Word(), name)
			case 1:
				return acceptedDetail(found[0]), nil
			}
			return view.Detail{}, errors.New("the name is in several places: give it as namespace.name")
		},
	}
}

// ownerCell is what an object lives in: its workspace, or its org.
func ownerCell(o *schema.Object) string {
	if !o.Key.Kind.InWorkspace() {
		return o.Org
	}
	return workspaceCell(o.Org, o.Workspace)
}

func acceptedOf(ctx context.Context, c *client, kind schema.Kind) ([]*schema.AcceptedObject, error) {
	acc, err := c.accepted(ctx)
	if err != nil {
		return nil, err
	}
	var out []*schema.AcceptedObject
	for _, o := range acc.Objects {
		if o != nil && o.Object != nil && o.Object.Key.Kind == kind {
			out = append(out, o)
		}
	}
	return out, nil
}

func acceptedDetail(o *schema.AcceptedObject) view.Detail {
	var held *schema.Hold
	if o.Refused != nil {
		held = &o.Refused.Hold
	}
	return view.Detail{
		Ref: o.Object.Key.String(), Value: o,
		Fields: append(metadataFields(o.Object.Key.Kind, statusapi.MetadataOf(o)),
			view.Field{Name: "Generation", Value: numberCell(&o.Generation)},
			view.Field{Name: "Held back", Value: holdText(held)}),
		Tables: []view.Table{specTable(o.Object.Spec)},
	}
}
