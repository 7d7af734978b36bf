package load

import (
	"path"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// filePlace is what a path says by the repository's layout (G-3).
type filePlace struct {
	org       string // of orgs/<org>/…
	workspace string // of orgs/<org>/workspaces/<workspace>/…
	// inWorkspaces is below orgs/<org>/workspaces/, also without a workspace.
	inWorkspaces bool
	cluster      bool        // cluster.* at the top
	own          bool        // workspace.* right in a workspace's folder
	folder       schema.Kind // of drives/, runs/ …; "" for none
}

var folderKinds = map[string]schema.Kind{
	"machines": schema.KindMachine, "grants": schema.KindHostPathGrant, "drives": schema.KindDrive,
	"volumes": schema.KindVolume, "runs": schema.KindRun, "replica_groups": schema.KindReplicaGroup,
	"endpoints": schema.KindEndpoint, "models": schema.KindModel, "deletions": schema.KindDeletion,
}

func placeOf(file string) filePlace {
	seg := strings.Split(file, "/")
	base := seg[len(seg)-1]
	base = strings.TrimSuffix(base, path.Ext(base))
	p := filePlace{cluster: len(seg) == 1 && base == "cluster"}
	if p.cluster {
		p.folder = schema.KindCluster
	}
	if len(seg) < 3 || seg[0] != "orgs" {
		return p
	}
	p.org = seg[1]
	p.inWorkspaces = seg[2] == "workspaces"
	if !p.inWorkspaces {
		if p.folder = folderKinds[seg[2]]; p.folder.InWorkspace() || len(seg) == 3 {
			p.folder = ""
		}
		if len(seg) == 3 && base == "org" {
			p.folder = schema.KindOrg
		}
		return p
	}
	if len(seg) < 5 {
		return p
	}
	p.workspace = seg[3]
	p.own = len(seg) == 5 && base == "workspace"
	switch {
	case p.own:
		p.folder = schema.KindWorkspace
	case len(seg) > 5 && folderKinds[seg[4]].InWorkspace():
		p.folder = folderKinds[seg[4]]
	}
	return p
}

// scopeOfDir is the key of Desired.NotWhole for a directory.
func scopeOfDir(dir string) string {
	seg := strings.SplitN(dir, "/", 5)
	switch {
	case seg[0] != "orgs" || len(seg) < 2:
		return ""
	case len(seg) >= 4 && seg[2] == "workspaces":
		return seg[1] + "/" + seg[3]
	}
	return seg[1]
}

// accepts reports whether a kind may be declared at this place.
func (p filePlace) accepts(kind schema.Kind) bool {
	switch kind {
	case schema.KindCluster:
		return p.cluster
	case schema.KindOrg, schema.KindMachine, schema.KindHostPathGrant:
		return p.org != "" && !p.inWorkspaces
	case schema.KindWorkspace:
		return p.own
	}
	return p.workspace != ""
}

// nameOf is what an object that names its folder must be called here: an org or
// workspace in its own place (G-3). "" for other kinds and places.
func (p filePlace) nameOf(kind schema.Kind) string {
	switch {
	case kind == schema.KindOrg && p.accepts(kind):
		return p.org
	case kind == schema.KindWorkspace && p.accepts(kind):
		return p.workspace
	}
	return ""
}

// foreign reports whether an org's or workspace's file does not lie in the
// folder that its name says: what it declares is not declared by it.
func (p filePlace) foreign(kind schema.Kind, name string) bool {
	return (kind == schema.KindOrg || kind == schema.KindWorkspace) && p.nameOf(kind) != name
}

// otherScope is the scope that a file means by a name which contradicts its
// folder (a folder was renamed, a file moved), "" for none: what is missing there
// may be what stands here, so nothing is deleted there either (G-5). A file whose
// place may not declare the kind at all has no say over other places.
func (p filePlace) otherScope(kind schema.Kind, name, workspace string) string {
	folder := p.nameOf(kind)
	switch {
	case folder != "" && name != "" && name != folder:
		if kind == schema.KindOrg {
			return name
		}
		return p.org + "/" + name
	case workspace != "" && workspace != p.workspace && p.workspace != "":
		return p.org + "/" + workspace
	}
	return ""
}

// isFile reports whether a name is one of a file that may declare objects.
func isFile(name string) bool {
	return slices.Contains([]string{".cue", ".yaml", ".yml", ".json"}, path.Ext(name))
}

// skipped reports whether an entry is none of ours: dot files, cue.mod.
func skipped(dir, name string) bool {
	return strings.HasPrefix(name, ".") || dir == "." && name == "cue.mod"
}

// checkPlace judges the object against its file's place (G-3, X-30).
func (r *reader) checkPlace() {
	d, p := r.d, r.d.place
	if !p.accepts(d.kind) {
		d.misplaced = true
		r.add(schema.CodeForbiddenPlace, "kind", d.loc.locate("kind"), sayPlace(d.kind, p), "")
		return
	}
	if own := p.folder; own != "" && own != d.kind && (own.InWorkspace() || own == schema.KindMachine || own == schema.KindHostPathGrant) {
		r.add(schema.CodeOtherFolder, "kind", d.loc.locate("kind"), sayOtherFolder(d.kind, own, p), "")
	}
	if folder := p.nameOf(d.kind); folder != "" && d.meta.Name != "" && d.meta.Name != folder {
		// It must not get in the way of the one whose folder it is not in.
		d.misplaced = true
		r.add(schema.CodeForbiddenPlace, "metadata.name", d.loc.locate("metadata.name"), sayFolderName(d.kind.Word(), d.meta.Name, folder), "")
	}
	switch given := d.meta.Workspace; {
	case given == "":
	case !d.kind.InWorkspace() && d.kind != schema.KindWorkspace:
		r.fail("metadata.workspace", sayNoWorkspace)
	case given != p.workspace:
		r.add(schema.CodeForbiddenPlace, "metadata.workspace", d.loc.locate("metadata.workspace"),
			sayOtherWorkspace(given, p.workspace), "")
	}
}
