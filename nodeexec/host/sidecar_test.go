package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// Files as older versions wrote them; never change one, only add.
func TestFormatsOfOldFiles(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		return data
	}
	s, err := parseSidecar(read("sidecar-v1.json"))
	require.NoError(t, err)
	require.Equal(t, "ws-3f9c2a7d41be.hf-cache", s.Drive)
	require.Equal(t, int64(4), s.FilledGeneration)
	require.Equal(t, string(read("sidecar-v1.json")), string(encode(s)), "and it is written the same way")
	m, err := parseMarker(read("marker-v1.json"))
	require.NoError(t, err)
	require.Equal(t, string(read("marker-v1.json")), string(encode(m)))
	r, err := parseRecord(read("record-v1.json"))
	require.NoError(t, err)
	require.Equal(t, string(read("record-v1.json")), string(encode(r)))
}

func TestStrictDecoding(t *testing.T) {
	const good = `{"version":1,"cluster_uid":"c","drive":"ws.a","drive_uid":"u","filled_generation":0,"created":"2026-01-02T03:04:05Z","last_used":null}`
	_, err := parseSidecar([]byte(good))
	require.NoError(t, err)
	for text, want := range map[string]error{
		"": ErrDamaged, "{}": ErrDamaged, "null": ErrDamaged, "[]": ErrDamaged, `{"version":0}`: ErrDamaged,
		good + good:                   ErrDamaged,
		good + "x":                    ErrDamaged,
		good[:50]:                     ErrDamaged,
		"\x00" + good:                 ErrDamaged,
		`{"version":2,"anything":[]}`: ErrNewerFormat,
		strings.Replace(good, `"version":1`, `"version":1,"x":1`, 1):                ErrDamaged,
		strings.Replace(good, `"drive_uid":"u"`, `"drive_uid":""`, 1):               ErrDamaged,
		strings.Replace(good, `"drive_uid":"u"`, `"drive_uid":"../u"`, 1):           ErrDamaged,
		strings.Replace(good, `"cluster_uid":"c"`, `"cluster_uid":""`, 1):           ErrDamaged,
		strings.Replace(good, `"ws.a"`, `"ws/../a"`, 1):                             ErrDamaged,
		strings.Replace(good, `"filled_generation":0`, `"filled_generation":-1`, 1): ErrDamaged,
		strings.Replace(good, `"created":"2026-01-02T03:04:05Z"`, `"created":7`, 1): ErrDamaged,
	} {
		_, err := parseSidecar([]byte(text))
		require.ErrorIs(t, err, want, text)
	}
}

func FuzzSidecar(f *testing.F) {
	for _, name := range []string{"sidecar-v1.json", "marker-v1.json", "record-v1.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"version":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSidecar(data)
		if err != nil {
			return
		}
		if !validDrive(s.Drive) || !validUID(s.DriveUID) || s.Version != fileVersion {
			t.Fatalf("accepted %+v", s)
		}
		again, err := parseSidecar(encode(s))
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(s)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Fatalf("%s became %s", a, b)
		}
	})
}

func TestCopyNames(t *testing.T) { // D-2
	name, err := copyName(schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "hf-cache"}, "u-1")
	require.NoError(t, err)
	require.Equal(t, "ws-1.hf-cache", name)
}
