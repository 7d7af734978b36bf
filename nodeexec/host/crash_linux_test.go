package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// runCrash is the life of an agent that is killed: "<step>[*n] <op> <root>".
// The n-th time a step is reached the process kills itself as kill -9 does.
func runCrash(spec string) {
	var step, op, root string
	var nth int
	if _, err := fmt.Sscan(spec, &step, &nth, &op, &root); err != nil {
		panic(err)
	}
	sys := realSystem()
	sys.step = func(name string) {
		if name == step {
			if nth--; nth == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	h, err := newHost(Options{Root: root, WorkRoot: "/work", StateDir: "/var/lib/astraeus-agent"}, sys)
	if err != nil {
		panic(err)
	}
	c := h.Copies(cluster)
	if _, err = c.List(context.Background(), []schema.DataLocation{here}); err != nil {
		panic(err)
	}
	switch op {
	case "create":
		err = c.Create(context.Background(), here, drive("a"), "uid-a")
	case "delete":
		err = c.Delete(context.Background(), drive("a"), "uid-a")
	}
	if err != nil {
		panic(err)
	}
	select {} // the remover goes on until it reaches its step
}

// crash runs an operation in another process until that kills itself.
func crash(t *testing.T, h *machine, step string, nth int, op string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envCrash+"="+fmt.Sprintf("%s %d %s %s", step, nth, op, h.dir))
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	require.Error(t, err)
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "%v\n%s", err, out.String())
}

func TestCreateResumes(t *testing.T) {
	for _, step := range []string{"marker", "sidecar", "copy"} {
		t.Run(step, func(t *testing.T) {
			h := diskMachine(t)
			crash(t, h, step, 1, "create")
			c := h.copies(t)
			for _, cp := range list(t, c).Copies {
				require.NotEqual(t, schema.CopyUnknown, cp.State)
			}
			require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
			l := list(t, c)
			require.Empty(t, l.Problems)
			require.Equal(t, schema.CopyPresent, present(t, l, "uid-a").State)
		})
	}
}

func TestHalfMadeCopyCanBeDeleted(t *testing.T) { // D-9
	h := diskMachine(t)
	crash(t, h, "sidecar", 1, "create")
	c := h.copies(t)
	require.Equal(t, schema.CopyCreating, present(t, list(t, c), "uid-a").State)
	_, err := c.Open("uid-a", "")
	require.ErrorIs(t, err, ErrMissing)
	require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
	require.Empty(t, list(t, c).Copies)
}

func TestDeleteResumesAfterKill(t *testing.T) { // D-9, D-61: kill -9 at every step, the canaries survive
	for step, nth := range map[string]int{
		"trash-sidecar": 1, "trash-copy": 1, "trash-done": 1, "unlinked": 25, "removed": 1,
	} {
		t.Run(step, func(t *testing.T) {
			h := diskMachine(t)
			check := canaries(t, h)
			func() {
				c := h.Copies(cluster)
				defer c.Close()
				require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
				require.NoError(t, c.SetFilled("uid-a", 7))
				for i := range 50 {
					write(t, h.at(fmt.Sprintf("/data/astraeus/drives/ws-1.a/d%d/file", i)), "x")
				}
			}()
			crash(t, h, step, nth, "delete")
			check()

			c := h.copies(t)
			l := list(t, c)
			for _, cp := range l.Copies { // whole, or not there: never in between
				if cp.State == schema.CopyPresent {
					require.Equal(t, "trash-sidecar", step)
					require.True(t, cp.Filled)
				}
				if cp.State == schema.CopyCreating {
					require.False(t, cp.Filled, "its bytes are in the trash")
				}
			}
			require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
			settled(t, c)
			l = list(t, c)
			require.Empty(t, l.Copies)
			check()
			entries, err := os.ReadDir(h.at("/data/astraeus/drives/.astraeus/trash"))
			require.NoError(t, err)
			require.Len(t, entries, 1, "the stranger's")

			require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
			require.False(t, present(t, list(t, c), "uid-a").Filled)
		})
	}
}

func TestCreateAfterACrashedDelete(t *testing.T) { // old bytes never come back
	h := diskMachine(t)
	c1 := h.Copies(cluster)
	require.NoError(t, c1.Create(ctx(t), here, drive("a"), "uid-a"))
	require.NoError(t, c1.SetFilled("uid-a", 7))
	write(t, h.at("/data/astraeus/drives/ws-1.a/old"), "x")
	c1.Close()
	crash(t, h, "trash-copy", 1, "delete")
	c := h.copies(t)
	list(t, c)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	require.False(t, present(t, list(t, c), "uid-a").Filled)
	require.NoFileExists(t, h.at("/data/astraeus/drives/ws-1.a/old"))
	settled(t, c)
	requireEmptyTrash(t, h)
}

func TestTempFilesAreSwept(t *testing.T) {
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	left := h.at("/data/astraeus/drives/.astraeus/" + tempPrefix + "1-1")
	write(t, left, "half")
	require.Empty(t, list(t, c).Problems)
	require.NoFileExists(t, left)
	require.True(t, strings.HasPrefix(tempPrefix, "."))
}
