package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// namesIn are the workspaces of all that a plan is made from.
func namesIn(input planner.Input) view.Names {
	objects := map[schema.Key]*schema.Object{}
	for key, o := range input.Accepted.Objects {
		switch {
		case o == nil:
		case o.Object != nil:
			objects[key] = o.Object
		case o.Refused != nil:
			objects[key] = o.Refused.Candidate
		}
	}
	if input.Desired == nil {
		return view.NamesOf(objects)
	}
	return view.NamesOf(objects, input.Desired.Objects)
}

// names are the workspaces that a server knows. An older one does not tell, and
// its objects are shown by their namespaces.
func (c *client) names(ctx context.Context) (view.Names, error) {
	list, err := all[statusapi.Workspace](ctx, c, nil, "v1", "workspaces")
	var refused *statusapi.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return view.Names{}, nil
	}
	names := view.Names{}
	for _, w := range list {
		names[w.Namespace] = w.Org + "/" + w.Name
	}
	return names, err
}

// workspace is one that was asked for: ORG/NAME, or NAME where one org has it.
func (c *client) workspace(ctx context.Context, text string) (string, error) {
	names, err := c.names(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, name := range slices.Sorted(maps.Values(names)) {
		if name == text || strings.HasSuffix(name, "/"+text) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1 || len(found) > 1 && slices.Contains(found, text):
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("the workspace %q is in several orgs: %s", text, strings.Join(found, ", "))
	}
	return "", fmt.Errorf("there is no workspace %q; there are %s", text, strings.Join(slices.Sorted(maps.Values(names)), ", "))
}

// named takes an object's name as people see it, "acme/research/x", to the one
// that the server knows it by. Other names are left alone.
func (c *client) named(ctx context.Context, kind schema.Kind, name string) (string, error) {
	at := strings.LastIndex(name, "/")
	if at < 0 {
		return name, nil
	}
	if !kind.InWorkspace() {
		return strings.Replace(name, "/", ".", 1), nil // grant acme/serving
	}
	names, err := c.names(ctx)
	if err != nil {
		return "", err
	}
	namespace := names.Namespace(name[:at])
	if namespace == "" {
		return "", fmt.Errorf("workspace %s not found", name[:at])
	}
	return namespace + "." + name[at+1:], nil
}
