package runtime

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"4f2a.3.1.0": true, "a": true, "train-0": true, strings.Repeat("a", maxID): true,
		"": false, ".": false, "..": false, "-x": false, "a/b": false, "A": false, "a_b": false,
		"../x": false, "a\x00": false, strings.Repeat("a", maxID+1): false,
	} {
		require.Equal(t, want, ValidID(id), "%q", id)
	}
}

func TestValidate(t *testing.T) {
	src := os.Stdin // any descriptor: Validate does not look at it
	mount := func(targets ...string) func(*Spec) {
		return func(s *Spec) {
			for _, target := range targets {
				s.Mounts = append(s.Mounts, Mount{Source: src, Target: target})
			}
		}
	}
	file := func(p string) func(*Spec) {
		return func(s *Spec) { s.Files = append(s.Files, File{Path: p}) }
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string // "" = valid
	}{
		"plain":            {func(*Spec) {}, ""},
		"nested":           {mount("/data/sub", "/data"), ""},
		"tmp":              {mount("/tmp"), ""},
		"below etc":        {mount("/etc/myapp"), ""},
		"root":             {mount("/"), "mount /: the root cannot be replaced"},
		"proc":             {mount("/proc"), "mount /proc: it is inside /proc"},
		"below dev":        {mount("/dev/shm"), "mount /dev/shm: it is inside /dev"},
		"below sys":        {mount("/sys/fs"), "inside /sys"},
		"system":           {mount("/usr/foo"), "mount /usr/foo: it is inside the machine's read-only directory /usr"},
		"lib64":            {mount("/lib64"), "read-only directory /lib64"},
		"etc":              {mount("/etc"), "mount /etc: it is made by the engine"},
		"dots":             {mount("/data/../etc"), "clean of dots"},
		"relative":         {mount("data"), "want an absolute path"},
		"slash":            {mount("/data/"), "want an absolute path"},
		"twice":            {mount("/data", "/data"), "mount /data: used twice"},
		"no source":        {func(s *Spec) { s.Mounts = []Mount{{Target: "/d"}} }, "no source descriptor"},
		"file":             {file("/etc/resolv.conf"), ""},
		"file in system":   {file("/usr/x"), "file /usr/x: it is inside the machine's"},
		"file in mount":    {func(s *Spec) { mount("/data")(s); file("/data/x")(s) }, "file /data/x: collides with the mount /data"},
		"file above mount": {func(s *Spec) { mount("/data/x")(s); file("/data")(s) }, "file /data: collides"},
		"file beside":      {func(s *Spec) { mount("/data")(s); file("/data2")(s) }, ""},
		"file twice":       {func(s *Spec) { file("/x")(s); file("/x")(s) }, "given twice"},
		"id":               {func(s *Spec) { s.ID = "../a" }, `id "../a"`},
		"command":          {func(s *Spec) { s.Command = "" }, "the command is empty"},
		"log dir":          {func(s *Spec) { s.LogDir = "logs" }, "log directory"},
		"work dir":         {func(s *Spec) { s.WorkDir = "../x" }, "working directory"},
		"env":              {func(s *Spec) { s.Env = []string{"SECRET"} }, "environment: an entry is not KEY=value"},
		"nul":              {func(s *Spec) { s.Args = []string{"a\x00b"} }, "NUL"},
		"negative":         {func(s *Spec) { s.CPU = -1 }, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{ID: "w", Command: "true", LogDir: "/logs"}
			c.change(&s)
			err := s.Validate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "SECRET")
		})
	}
}

func TestWithin(t *testing.T) {
	require.True(t, Within("/a", "/a"))
	require.True(t, Within("/a/b", "/a"))
	require.True(t, Within("/a", "/"))
	require.False(t, Within("/ab", "/a"))
	require.False(t, Within("/a", "/a/b"))
}
