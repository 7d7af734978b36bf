package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An agent whose state is damaged does not start on an empty one; what it
// says reaches the person, and it is not tried in a hot loop.
func TestDamagedAgentStateIsTold(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	code, stdout, stderr := run(t, at, "lab", "--once", "--repo", repo, "--dir", "lab")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	uses := filepath.Join(at, "lab/machines/gpu-01/root/var/lib/astraeus-agent/uses.json")
	write(t, uses, `{"version":2,"data":{}}`)
	code, stdout, stderr = run(t, at, "lab", "--once", "--timeout", "8s", "--repo", repo, "--dir", "lab")
	require.Equal(t, 6, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stderr, "uses.json has version 2, this program knows 1")
	log, err := os.ReadFile(filepath.Join(at, "lab/room.log"))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(log), "is started again"), 7)
	data, err := os.ReadFile(uses)
	require.NoError(t, err)
	require.JSONEq(t, `{"version":2,"data":{}}`, string(data))
}
