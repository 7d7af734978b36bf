package main

import (
	"astraeus.io/astraeus/schema"
)

// membersNote says once that roles do not yet keep anybody from changing files
// unless a CODEOWNERS file does.
func membersNote(desired *schema.Desired) (notes []schema.Diagnostic) {
	if desired.Guard != "" {
		return nil
	}
	var first *schema.Object
	for _, o := range desired.Objects {
		spec, ok := o.Spec.(*schema.WorkspaceSpec)
		if ok && len(spec.Members) > 0 && (first == nil || schema.CompareKeys(o.Key, first.Key) < 0) {
			first = o
		}
	}
	if first == nil {
		return nil
	}
	return []schema.Diagnostic{{
		Pos: first.At("spec.members"), Severity: schema.SeverityWarning, Object: first.Key, Field: "spec.members",
		Code: schema.CodeNotGuarded, Status: schema.CodeNotGuarded.Status(),
		Message: "members have roles here, but who may change which file is decided where the repository is hosted",
		Hint:    "guard the folders of orgs and workspaces there, for example with a CODEOWNERS file",
	}}
}
