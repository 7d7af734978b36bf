package main

import (
	"fmt"
	"strings"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// removalNotes say of every volume and drive that a plan removes what becomes of
// the data: nothing, unless it is in copies of a placed drive (D-61, V-9).
func removalNotes(plan schema.Plan, input planner.Input) (notes []schema.Diagnostic) {
	said := map[schema.Key]string{}
	for _, e := range plan.Decisions.Events {
		if e.Type == "Removed" {
			said[e.Object] = e.Message
		}
	}
	for _, r := range plan.Decisions.Remove {
		o := input.Accepted.Objects[r.Key]
		if o == nil || o.Object == nil {
			continue
		}
		message := ""
		switch spec := o.Object.Spec.(type) {
		case *schema.VolumeSpec:
			message = said[r.Key] + " (host_data_deleted: false)" // id and host_path are said there
		case *schema.DriveSpec:
			if paths := ownPaths(spec); len(paths) > 0 {
				message = fmt.Sprintf("drive %s is removed; the data under %s is not deleted", r.Key.Name, strings.Join(paths, ", "))
			}
		}
		if message != "" {
			notes = append(notes, schema.Diagnostic{
				Pos: o.Object.Origin, Severity: schema.SeverityWarning, Object: r.Key, Code: schema.CodeDataNotDeleted,
				Status: schema.CodeDataNotDeleted.Status(), Message: message,
			})
		}
	}
	return notes
}

// ownPaths are the host paths of a drive's sources that are not placed.
func ownPaths(spec *schema.DriveSpec) (paths []string) {
	for _, s := range spec.Sources {
		if s.NodeScope != schema.ScopePlaced {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

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
