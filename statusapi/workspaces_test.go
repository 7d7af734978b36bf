package statusapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// Namespaces are for programs: the API says which workspaces people mean by them.
func TestWorkspaces(t *testing.T) {
	view := cluster()
	other := object(schema.KindDrive, "ws-gone", "left", placedDrive())
	other.Workspace = "gone"
	view.Input.Accepted.Objects[other.Key] = &schema.AcceptedObject{UID: "uid-left", Object: other}
	derived := object(schema.KindWorkspace, "acme", "plain", &schema.WorkspaceSpec{})
	view.Input.Accepted.Objects[derived.Key] = &schema.AcceptedObject{UID: "uid-plain", Object: derived}
	got := body[List[Workspace]](t, serve(t, fixed{view: view}), "/v1/workspaces")
	require.Equal(t, []Workspace{
		{Org: "acme", Name: "gone", Namespace: "ws-gone"},
		{Org: "acme", Name: "plain", Namespace: schema.Namespace("lab", "acme", "plain"), UID: "uid-plain"},
		{Org: "acme", Name: "research", Namespace: nsResearch, UID: "uid-research"},
		{Org: "acme", Name: "serving", Namespace: nsServing, UID: "uid-serving"},
	}, got.Items)
}
