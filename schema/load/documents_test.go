package load

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// Every body that the source documents send loads as a file, as it stands there. G-1
func TestDocuments(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/documents.txtar")
	require.NoError(t, err)
	fsys, _ := caseFiles(ar)
	d := loadFS(t, fsys)
	require.Empty(t, d.Diagnostics)
	require.Len(t, d.Objects, len(frameFiles)+9)
}
