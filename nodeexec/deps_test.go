package nodeexec

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLean: an agent links no CUE, git or etcd (design.md), and nodeexec
// imports nothing of ours but what the table of folders allows.
func TestLean(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "./nfs/lab").Output()
	require.NoError(t, err)
	for _, dep := range strings.Fields(string(out)) {
		for _, heavy := range []string{"cuelang.org/", "github.com/go-git/", "go.etcd.io/", "k8s.io/"} {
			require.False(t, strings.HasPrefix(dep, heavy), dep)
		}
		ours, ok := strings.CutPrefix(dep, "astraeus.io/astraeus/")
		if !ok {
			continue
		}
		folder, _, _ := strings.Cut(ours, "/")
		require.Contains(t, []string{"schema", "planner", "nodeexec", "dnszone", "internal"}, folder)
		require.NotEqual(t, "schema/load", ours)
	}
}
