package main

import (
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// partialNote is what a plan says that was made from a part of a cluster.
var partialNote = schema.Diagnostic{
	Severity: schema.SeverityWarning, Code: schema.CodeWarning,
	Message: "the token shows a part of the cluster only, and the plan is of that part; what is hidden may change it",
	Hint:    "plan with a token of the role cluster-reader",
}

// within is what a commit declares in the part of a cluster that an answer shows:
// of what is hidden nobody could say whether it is new. The argument is not changed.
func within(desired *schema.Desired, shown statusapi.Accepted) *schema.Desired {
	type workspace struct{ org, name string }
	spaces, keys := map[workspace]bool{}, map[schema.Key]bool{}
	for _, o := range shown.Objects {
		if o == nil || o.Object == nil {
			continue
		}
		key := o.Object.Key
		keys[key] = true
		if key.Kind == schema.KindWorkspace {
			spaces[workspace{key.Namespace, key.Name}] = true
		}
	}
	out := *desired
	out.Objects = map[schema.Key]*schema.Object{}
	for key, o := range desired.Objects {
		if keys[key] || key.Kind.InWorkspace() && spaces[workspace{o.Org, o.Workspace}] {
			out.Objects[key] = o
		}
	}
	return &out
}
