package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a worker prints does not fill the screen or the memory, however much it is. X-38
func TestTailIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"one\ntwo\nthree\n", []string{"two", "three"}},
		{"one\n\n", []string{"one"}},
		{strings.Repeat("x", 1<<20) + "\nend", []string{strings.Repeat("x", maxLine) + "…", "end"}},
	} {
		require.NoError(t, os.WriteFile(name, []byte(c.text), 0o600))
		lines, err := tail(name, 2)
		require.NoError(t, err)
		require.Equal(t, c.want, lines)
	}
	_, err := tail(name+".missing", 2)
	require.ErrorIs(t, err, os.ErrNotExist)
}
