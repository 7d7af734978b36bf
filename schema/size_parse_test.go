package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// D-33, D-58
func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "500G": 500e9, "500 GB": 500e9, "1.5TB": 15e11, "512MiB": 512 << 20, "1gi": 1 << 30, " 7b ": 7, "107374182400": 107374182400,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, bad := range []string{"", "G", "-1G", "1e3", "0x10", "1.2.3G", "500Q", "500 G B", "9999999P", "NaN", "inf", "1_000", "٥G", "500G!"} {
		_, err := ParseSize(bad)
		require.Error(t, err, bad)
	}
}
