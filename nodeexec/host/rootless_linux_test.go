package host

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRootless runs the other tests again in a user namespace, as a lab without
// root does, where only tmpfs can be mounted and flags are locked.
func TestRootless(t *testing.T) {
	if rootless() {
		t.Skip("we are in it")
	}
	t.Setenv("HOST_TEST_INNER", "1")
	t.Setenv("TMPDIR", "/tmp")
	var out bytes.Buffer
	code := reexec([]string{"-test.short", "-test.v"}, true, &out, &out)
	require.Zero(t, code, out.String())
	require.Contains(t, out.String(), "--- PASS: TestLockedFlags")
}

// A flag that the namespace around set cannot be cleared, and must not be tried to be.
func TestLockedFlags(t *testing.T) {
	h := newMachine(t)
	require.NoError(t, unix.Mount("", h.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOEXEC, ""))
	mkdir(t, h.at("/mnt/data"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, "/work/w", true))
	m := mustMounts(t, h, "/work/w")
	require.Len(t, m, 1)
	for _, flag := range []string{"ro", "noexec", "nosuid", "nodev"} {
		require.True(t, hasOption(m[0].Options, flag), m[0].Options)
	}
	require.NoError(t, h.Unmount("/work/w", true, false), "force needs more rights than we have here: plain then")
	if rootless() {
		require.Zero(t, os.Getuid())
	}
}
