package load

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// checkDrive is D-1 to D-7.
func (r *reader) checkDrive(s *schema.DriveSpec) {
	if s.ManagedBy != "" || r.given("spec.managed_by") {
		r.failAs(schema.CodeInvalid, "spec.managed_by", sayManagedBy)
	}
	placed := false
	for i, src := range s.Sources {
		at := each("spec.sources", i)
		if src.NodeScope == schema.ScopePlaced {
			placed = true
			if len(s.Sources) > 1 {
				r.fail(at+".node_scope", sayOneSource)
			}
		}
		r.checkSource(at, src)
	}
	if !placed {
		r.checkNotPlaced(s)
	}
	r.checkFill("spec.fill", s.Fill)
}

// checkNotPlaced refuses what only placed drives may set (D-2).
func (r *reader) checkNotPlaced(s *schema.DriveSpec) {
	for _, w := range r.wrong {
		if w == "spec.sources" || strings.HasPrefix(w, "spec.sources[") && (strings.HasSuffix(w, "].node_scope") || strings.HasSuffix(w, "]")) {
			return // what kind of drive it is cannot be known
		}
	}
	if s.Evictable {
		r.failAs(schema.CodeInvalid, "spec.evictable", sayNotEvictable)
	}
	if s.SizeHintBytes != 0 {
		r.fail("spec.size_hint_bytes", sayHintPlaced)
	}
	if s.Fill != nil {
		r.fail("spec.fill", sayFillPlaced)
	}
}

func (r *reader) checkSource(at string, src schema.DriveSource) {
	if src.MountPath != "" {
		r.failIf(at+".mount_path", schema.ContainerPathProblem(src.MountPath))
	}
	switch {
	case slices.Contains(r.wrong, at+".node_scope"):
		// Whether the path is absolute and a node is needed cannot be known.
		r.failIf(at+".path", schema.RelativePathProblem(strings.TrimLeft(src.Path, "/")))
		return
	case src.NodeScope == schema.ScopePlaced:
		if src.Node != "" {
			r.fail(at+".node", sayNodeEmpty)
		}
		r.failIf(at+".path", schema.RelativePathProblem(src.Path))
	case src.Path == "":
		r.fail(at+".path", sayRequired)
	default:
		r.failIf(at+".path", schema.AbsolutePathProblem(src.Path))
	}
	if src.NodeScope == schema.ScopeOneMachine && src.Node == "" {
		r.fail(at+".node", sayNodeNeeded)
	}
}

// checkFill is D-42.
func (r *reader) checkFill(at string, f *schema.FillSpec) {
	if f == nil {
		return
	}
	t := at + ".template"
	if f.Template.Image == "" {
		r.fail(t+".image", sayFillImage)
	}
	if len(f.Template.DatavolumeRefs) > 0 {
		r.fail(t+".datavolume_refs", sayFillDrives)
	}
	if len(f.Template.Volumes) > 0 {
		r.fail(t+".volumes", sayFillVolumes)
	}
	if len(f.Template.ExternalAccesses) > 0 {
		r.fail(t+".external_accesses", sayFillAccess)
	}
	r.checkTemplate(t, &f.Template)
}

// given reports whether a field stands in the file, also with an empty value.
func (r *reader) given(field string) bool {
	for _, e := range r.d.loc.entries {
		if e.path.Value() == field {
			return true
		}
	}
	return false
}
