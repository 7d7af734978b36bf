package load

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// No object goes silently because another one of its file is found: G-5, X-10.
func TestG5NoObjectGoesSilently(t *testing.T) {
	const one = "{kind: Drive, metadata: {name: d1}, spec: {sources: [{node_scope: placed}]}}"
	for name, file := range map[string]struct{ ext, text, place string }{
		"a second document":   {"yaml", one + "\n---\nKind: Drive\nMetadata: {name: d2}\n", ":3:1"},
		"an item of a list":   {"yaml", "- " + one + "\n- {Kind: Drive, Metadata: {name: d2}}\n", ":2:3"},
		"a value far down":    {"yaml", "a: " + one + "\nb: {c: {d: {e: " + one + "}}}\n", ":2:16"},
		"a list item of JSON": {"json", `[{"kind": "Drive", "metadata": {"name": "d1"}, "spec": {"sources": [{"node_scope": "placed"}]}}, "d2"]`, ":1:98"},
		"a value far down in a package": {"cue", `package w
a: {kind: "Drive", metadata: name: "d1", spec: sources: [{node_scope: "placed"}]}
b: c: d: e: {kind: "Drive", metadata: name: "d2", spec: sources: [{node_scope: "placed"}]}`, ":3:13"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "orgs/a/workspaces/w/drives/d." + file.ext
			fsys := fstest.MapFS{
				"cluster.cue":                       {Data: []byte(`kind: "Cluster", metadata: name: "c"`)},
				"orgs/a/org.cue":                    {Data: []byte(`kind: "Org", metadata: name: "a"`)},
				"orgs/a/workspaces/w/workspace.cue": {Data: []byte(`kind: "Workspace", metadata: name: "w"`)},
				path:                                {Data: []byte(file.text)},
			}
			l := New(Options{})
			defer l.Close()
			d, err := l.Load(t.Context(), fsys, Commit{})
			require.NoError(t, err)
			require.Contains(t, d.NotWhole, "a/w", "%v", d.Diagnostics)
			require.Equal(t, path+file.place, d.NotWhole["a/w"].String())
			require.Len(t, d.Objects, 4)
		})
	}
}
