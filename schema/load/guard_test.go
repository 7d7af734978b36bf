package load

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// the loader looks whether the host guards the files.
func TestGuard(t *testing.T) {
	for file, want := range map[string]string{
		"CODEOWNERS": "CODEOWNERS", ".github/CODEOWNERS": ".github/CODEOWNERS", "docs/CODEOWNERS": "docs/CODEOWNERS",
		"orgs/acme/CODEOWNERS": "", "CODEOWNERS/x": "",
	} {
		d := loadFS(t, fstest.MapFS{"cluster.cue": {Data: []byte(frameFiles["cluster.cue"])}, file: {Data: []byte("* @ops\n")}})
		require.Equal(t, want, d.Guard, file)
		require.Empty(t, d.Diagnostics, file)
	}
}
