package moves

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

const placed = `spec: sources: [{node_scope: "placed", path: "", mount_path: "/x", mode: "ReadWrite"}]` + "\n"

// repository is two orgs; acme/serving has two drives and a run, fewer than the
// three that the deletion budget looks at.
var repository = map[string]string{
	"cluster.cue":                                        "kind: \"Cluster\"\nmetadata: name: \"test\"\n",
	"orgs/acme/org.cue":                                  "kind: \"Org\"\nmetadata: name: \"acme\"\n",
	"orgs/acme/machines/gpu-01.cue":                      "kind: \"Machine\"\nmetadata: name: \"gpu-01\"\nspec: data_location: path: \"/data\"\n",
	"orgs/acme/workspaces/serving/workspace.cue":         "kind: \"Workspace\"\nmetadata: name: \"serving\"\n",
	"orgs/acme/workspaces/serving/drives/models.cue":     "kind: \"Drive\"\nmetadata: name: \"models\"\n" + placed,
	"orgs/acme/workspaces/serving/drives/cache.cue":      "kind: \"Drive\"\nmetadata: name: \"cache\"\n" + placed,
	"orgs/acme/workspaces/serving/runs/api.cue":          "kind: \"Run\"\nmetadata: name: \"api\"\nspec: task_template: {command: \"sleep\", datavolume_refs: [{name: \"models\"}]}\n",
	"orgs/acme/workspaces/research/workspace.cue":        "kind: \"Workspace\"\nmetadata: name: \"research\"\n",
	"orgs/acme/workspaces/research/drives/imagenet.json": `{"kind": "Drive", "metadata": {"name": "imagenet"}, "spec": {"sources": [{"node_scope": "placed", "path": ""}]}}`,
	"orgs/beta/org.cue":                                  "kind: \"Org\"\nmetadata: name: \"beta\"\n",
}

// cluster is a controller's memory with one machine that reports nothing special.
type cluster struct {
	t        *testing.T
	loader   *load.Loader
	files    map[string]string
	accepted schema.Accepted
	placed   map[schema.Key]schema.Placement
	plan     schema.Plan
	commits  int
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, loader: load.New(load.Options{}), files: maps.Clone(repository), placed: map[schema.Key]schema.Placement{}}
	t.Cleanup(c.loader.Close)
	c.commit()
	require.Empty(t, c.plan.Holds)
	require.NotEmpty(t, c.placed, "the run is placed")
	return c
}

// commit plans the files as they are and writes the decisions.
func (c *cluster) commit() {
	c.t.Helper()
	tree := fstest.MapFS{}
	for name, text := range c.files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c.commits++
	desired, err := c.loader.Load(c.t.Context(), fs.FS(tree), load.Commit{ID: fmt.Sprintf("c%d", c.commits)})
	require.NoError(c.t, err)
	report := &schema.MachineReport{Name: "gpu-01", State: schema.MachineUp, Address: "192.0.2.1",
		Resources: &schema.Resources{CPUCores: 8, MemoryBytes: 1 << 40}, Filesystems: []schema.Filesystem{{MountPoint: "/"}},
		Copies: c.copies(), Exports: []schema.Export{}, Mounts: []schema.Mount{}, Workers: []schema.Worker{}}
	c.plan = planner.Plan(planner.Input{Desired: desired, Accepted: c.accepted, Placed: c.placed, Seed: "seed",
		Observed: schema.Observed{Machines: []*schema.MachineReport{report}}, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	c.accepted, c.placed = planner.Apply(c.accepted, c.placed, c.plan.Decisions)
}

// copies: the machine holds one of every drive, so that the run can be placed.
func (c *cluster) copies() []schema.Copy {
	list := []schema.Copy{}
	for key, a := range c.accepted.Objects {
		if key.Kind == schema.KindDrive && a.UID != "" {
			list = append(list, schema.Copy{Drive: key.Scoped(), UID: a.UID, State: schema.CopyPresent, Folder: "/data/drives/" + key.Scoped()})
		}
	}
	return list
}

// move is git mv of a file or folder.
func (c *cluster) move(from, to string) {
	for name, text := range maps.Clone(c.files) {
		if rest, inside := strings.CutPrefix(name, from); inside {
			delete(c.files, name)
			c.files[to+rest] = text
		}
	}
}

func (c *cluster) edit(name, from, to string) {
	c.files[name] = strings.Replace(c.files[name], from, to, 1)
}

// gone is what the last commit took out of force, with its copies.
func (c *cluster) gone() []string {
	var list []string
	for _, r := range c.plan.Decisions.Remove {
		list = append(list, r.Key.Kind.Word()+"/"+r.Key.Name)
	}
	for _, b := range c.plan.Decisions.Bury {
		list = append(list, "copies of "+b.Key.Name)
	}
	slices.Sort(list)
	return list
}

func (c *cluster) held() []string {
	var list []string
	for _, h := range c.plan.Holds {
		list = append(list, fmt.Sprintf("%s/%s %s", h.Object.Kind.Word(), h.Object.Name, h.Code))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

const (
	serving  = "orgs/acme/workspaces/serving"
	research = "orgs/acme/workspaces/research"
)

var allOfServing = []string{"drive/cache", "drive/models", "run/api", "workspace/serving"}

func each(list []string, code schema.Code) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = s + " " + string(code)
	}
	return out
}

// G-5, X-28: a folder that vanished is held, however its files are found again,
// and nothing is deleted while a file that is concerned cannot be used.
func TestAVanishedFolderDeletesNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*cluster)
		holds  []string // among others
		valid  bool     // what is created is right: it starts beside what is held
	}{
		{"a workspace is renamed without its name", func(c *cluster) { c.move(serving, "orgs/acme/workspaces/srv") },
			append(each(allOfServing, schema.CodeWorkspaceNotWhole), "drive/cache NOT_FOUND"), false},
		{"a workspace is renamed with its name", func(c *cluster) {
			c.move(serving, "orgs/acme/workspaces/srv")
			c.edit("orgs/acme/workspaces/srv/workspace.cue", "serving", "srv")
		}, each(allOfServing, schema.CodeDeletionBudget), true},
		{"a workspace is renamed and its file is broken", func(c *cluster) {
			c.move(serving, "orgs/acme/workspaces/srv")
			c.files["orgs/acme/workspaces/srv/workspace.cue"] += "}"
		}, each(allOfServing, schema.CodeWorkspaceNotWhole), false},
		{"a workspace is moved to another org", func(c *cluster) { c.move(serving, "orgs/beta/workspaces/serving") },
			each(allOfServing, schema.CodeDeletionBudget), false},
		{"a workspace is moved out of its place", func(c *cluster) { c.move(serving, "orgs/acme/serving") },
			each(allOfServing, schema.CodeWorkspaceNotWhole), false},
		{"a workspace is moved below another", func(c *cluster) { c.move(serving, research+"/serving") },
			each(allOfServing, schema.CodeDeletionBudget), true},
		{"a workspace's files are moved into another", func(c *cluster) {
			for _, dir := range []string{"/drives/", "/runs/"} {
				c.move(serving+dir, research+dir)
			}
			delete(c.files, serving+"/workspace.cue")
		}, each(allOfServing, schema.CodeDeletionBudget), true},
		{"a workspace is moved out of orgs", func(c *cluster) { c.move(serving, "attic/serving") }, each(allOfServing, schema.CodeWorkspaceNotWhole), false},
		{"a workspace vanishes", func(c *cluster) {
			maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, serving) })
		}, each(allOfServing, schema.CodeDeletionBudget), false},
		{"a workspace's own file is deleted", func(c *cluster) { delete(c.files, serving+"/workspace.cue") },
			[]string{"workspace/serving WORKSPACE_NOT_WHOLE"}, false},
		{"a workspace's own file and a drive are deleted", func(c *cluster) {
			delete(c.files, serving+"/workspace.cue")
			delete(c.files, serving+"/drives/models.cue")
		}, []string{"drive/models WORKSPACE_NOT_WHOLE", "workspace/serving WORKSPACE_NOT_WHOLE"}, false},
		{"an org is renamed without its name", func(c *cluster) { c.move("orgs/acme/", "orgs/acme2/") },
			append(each(allOfServing, schema.CodeWorkspaceNotWhole), "org/acme WORKSPACE_NOT_WHOLE"), false},
		{"an org is renamed with its name", func(c *cluster) {
			c.move("orgs/acme/", "orgs/acme2/")
			c.edit("orgs/acme2/org.cue", "acme", "acme2")
		}, append(each(allOfServing, schema.CodeDeletionBudget), "org/acme DELETION_BUDGET"), false},
		{"an org is moved away", func(c *cluster) { c.move("orgs/acme/", "attic/acme/") },
			each(allOfServing, schema.CodeWorkspaceNotWhole), false},
		{"an org vanishes", func(c *cluster) {
			maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, "orgs/acme/") })
		}, append(each(allOfServing, schema.CodeDeletionBudget), "org/acme DELETION_BUDGET"), false},
		{"an org's own file is deleted", func(c *cluster) { delete(c.files, "orgs/acme/org.cue") }, []string{"org/acme WORKSPACE_NOT_WHOLE"}, false},
		{"a drive names the workspace that it left", func(c *cluster) {
			c.move(serving+"/drives/cache.cue", research+"/drives/cache.cue")
			c.edit(research+"/drives/cache.cue", `name: "cache"`, `{name: "cache", workspace: "serving"}`)
		}, []string{"drive/cache WORKSPACE_NOT_WHOLE"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			accepted, before := maps.Clone(c.accepted.Objects), maps.Clone(c.placed)
			test.change(c)
			for range 3 { // nor later, when nothing changes
				c.commit()
				require.Empty(t, c.gone(), "%v", c.held())
				require.Subset(t, c.held(), test.holds)
			}
			for key, a := range accepted {
				require.Equal(t, a.UID, c.accepted.Objects[key].UID, "%s", key)
			}
			for key, pl := range before {
				require.Equal(t, pl, c.placed[key], "the run keeps its place")
			}
			if !test.valid {
				require.Len(t, c.placed, len(before), "and none like it is started")
			}
		})
	}
}

// A drive moved to another workspace is deleted there and created here, with all
// that a deletion needs: nobody uses it, the workspace is whole, the budget.
func TestADriveMovedToAnotherWorkspace(t *testing.T) {
	move := func(c *cluster, name string) {
		c.move(serving+"/drives/"+name+".cue", research+"/drives/"+name+".cue")
	}
	c := newCluster(t)
	move(c, "cache")
	c.files[serving+"/runs/bad.cue"] = "kind: \"Run\"\n"
	c.commit()
	require.Equal(t, []string{"drive/cache WORKSPACE_NOT_WHOLE"}, c.held())
	delete(c.files, serving+"/runs/bad.cue")
	c.commit()
	require.Equal(t, []string{"copies of cache", "drive/cache"}, c.gone())

	move(c, "models")
	c.commit()
	require.Equal(t, []string{"drive/models DATAVOLUME_IN_USE"}, c.held(), "the run still uses it")
	require.Empty(t, c.gone())
}

// a file moved inside its workspace is the same object.
func TestAFileMovedInsideItsWorkspaceKeepsTheUID(t *testing.T) {
	c := newCluster(t)
	before := maps.Clone(c.accepted.Objects)
	c.move(serving+"/drives/models.cue", serving+"/team/a/data.cue")
	c.move(serving+"/runs/api.cue", serving+"/drives/api.cue")
	c.move(research+"/drives/imagenet.json", research+"/runs/imagenet.json")
	c.commit()
	require.Empty(t, c.gone())
	require.Empty(t, c.held())
	require.Len(t, c.accepted.Objects, len(before))
	for key, a := range c.accepted.Objects {
		require.Equal(t, before[key].UID, a.UID, "%s", key)
		require.Equal(t, before[key].Generation, a.Generation, "%s", key)
	}
}
