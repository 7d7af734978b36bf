package moves

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// add writes the file that a hold's hint shows.
func (c *cluster) add(hint string) {
	path, content, ok := strings.Cut(strings.TrimPrefix(hint, "add "), " with: ")
	require.True(c.t, ok, hint)
	c.files[path] = content + "\n"
}

func (c *cluster) hintOf(kind schema.Kind, name string) string {
	for _, h := range c.plan.Holds {
		if h.Object.Kind == kind && h.Object.Name == name {
			return h.Hint
		}
	}
	require.Fail(c.t, "not held", "%s %s: %v", kind, name, c.held())
	return ""
}

// what a hold says to add can stand where it says, and lifts the hold.
func TestTheHintOfAHoldLiftsIt(t *testing.T) {
	t.Run("too many of a kind", func(t *testing.T) {
		c := newCluster(t)
		for i := range 4 {
			c.files[fmt.Sprintf("%s/drives/d%d.cue", research, i)] = fmt.Sprintf("kind: \"Drive\"\nmetadata: name: \"d%d\"\n%s", i, placed)
		}
		c.commit()
		for round := range 2 { // an allowance works once: the second has another name
			maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, research+"/drives/d") })
			c.commit()
			require.Empty(t, c.gone())
			c.add(c.hintOf(schema.KindDrive, "d0"))
			c.commit()
			require.Contains(t, c.gone(), "drive/d0", "round %d: %v", round, c.held())
			for i := range 4 {
				c.files[fmt.Sprintf("%s/drives/d%d.cue", research, i)] = fmt.Sprintf("kind: \"Drive\"\nmetadata: name: \"d%d\"\n%s", i, placed)
			}
			c.commit()
		}
	})
	t.Run("a whole workspace", func(t *testing.T) {
		c := newCluster(t)
		for i := range 12 { // more than the budget of a kind
			c.files[fmt.Sprintf("%s/drives/d%d.cue", serving, i)] = fmt.Sprintf("kind: \"Drive\"\nmetadata: name: \"d%d\"\n%s", i, placed)
		}
		c.commit()
		maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, serving) })
		c.commit()
		require.Empty(t, c.gone())
		c.add(c.hintOf(schema.KindWorkspace, "serving"))
		c.commit()
		require.Subset(t, c.gone(), []string{"run/api", "drive/models", "drive/d11"}, "%v", c.held())
	})
	t.Run("the last workspace", func(t *testing.T) {
		c := newCluster(t)
		c.add(`add orgs/acme/workspaces/serving/deletions/x.cue with: kind: "Deletion", metadata: {name: "x"}, spec: {allow: {kind: "Workspace", count: 1}}`)
		maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, research) })
		c.commit()
		maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, serving) })
		c.commit()
		require.Contains(t, c.hintOf(schema.KindDrive, "cache"), "keep orgs/acme/workspaces/serving/workspace.cue until the rest of it is gone")
	})
	t.Run("an org", func(t *testing.T) {
		c := newCluster(t)
		maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, "orgs/acme/") })
		c.commit()
		require.Contains(t, c.hintOf(schema.KindDrive, "cache"), "org.cue last")
	})
	t.Run("one allowance is for as many workspaces as it says", func(t *testing.T) {
		c := newCluster(t)
		c.files["orgs/acme/workspaces/stays/workspace.cue"] = "kind: \"Workspace\"\nmetadata: name: \"stays\"\n"
		c.files["orgs/acme/workspaces/stays/deletions/x.cue"] = `kind: "Deletion", metadata: {name: "x"}, spec: {allow: {kind: "Workspace", count: 1}}` + "\n"
		for _, ws := range []string{serving, research} {
			maps.DeleteFunc(c.files, func(name, _ string) bool { return strings.HasPrefix(name, ws) })
		}
		c.commit()
		require.Empty(t, c.gone())
		require.Contains(t, c.hintOf(schema.KindWorkspace, "serving"), `name: "allow-workspaces"}, spec: {allow: {kind: "Workspace", count: 2}}`)
	})
}
