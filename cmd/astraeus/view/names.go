package view

import (
	"strings"

	"astraeus.io/astraeus/schema"
)

// Names say which workspace each namespace is: "acme/research". People know
// workspaces; a namespace is a hash, and is for programs and -o wide.
type Names map[string]string

// NamesOf are the names in a set of objects.
func NamesOf(sets ...map[schema.Key]*schema.Object) Names {
	names := Names{}
	for _, objects := range sets {
		for key, o := range objects {
			if key.Kind.InWorkspace() && o != nil {
				names[key.Namespace] = o.Org + "/" + o.Workspace
			}
		}
	}
	return names
}

// Object is "drive acme/serving/models", "grant acme/serving", "machine gpu-01".
func (n Names) Object(key schema.Key) string {
	if key.Kind == "" {
		return ""
	}
	return key.Kind.Word() + " " + n.Name(key)
}

// Name is Object without the kind. A namespace that is not known stays one.
func (n Names) Name(key schema.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	where := n[key.Namespace]
	if where == "" || !key.Kind.InWorkspace() {
		where = key.Namespace
	}
	return where + "/" + key.Name
}

// Scoped is the name that "<namespace>.<name>" of a report stands for.
func (n Names) Scoped(scoped string) string {
	namespace, name, ok := strings.Cut(scoped, ".")
	if !ok || n[namespace] == "" {
		return scoped
	}
	return n[namespace] + "/" + name
}

// Namespace is the namespace of a workspace given as "acme/research", "" for none.
func (n Names) Namespace(workspace string) string {
	for namespace, name := range n {
		if name == workspace {
			return namespace
		}
	}
	return ""
}
