package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const childDir = "ASTRAEUS_TEST_STORE_DIR"

// writeForEver is the child of TestKilled: it commits and says each head that was committed.
func writeForEver(dir string) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Cluster: "test", Dir: dir})
	if err != nil {
		panic(err)
	}
	l, err := s.Campaign(ctx, "child")
	if err != nil {
		panic(err)
	}
	st, err := l.Load(ctx)
	if err != nil {
		panic(err)
	}
	from, _ := strconv.Atoi(st.Accepted.Head)
	for n := from + 1; ; n++ {
		if _, err := l.Commit(ctx, many(250, strconv.Itoa(n))); err != nil {
			panic(err)
		}
		fmt.Println(n)
	}
}

// A controller that is killed while it writes loses nothing that it was told is
// written, leaves nothing half, and its successor starts at once (X-6, G-8).
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	last := 0
	for round := 1; round <= 3; round++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for range 5 * round {
			require.True(t, lines.Scan())
		}
		require.NoError(t, child.Process.Kill())
		last, err = strconv.Atoi(lines.Text())
		require.NoError(t, err)
		_ = child.Wait()

		s, err := Open(t.Context(), Options{Cluster: "test", Dir: dir})
		require.NoError(t, err)
		st := load(t, s)
		head, err := strconv.Atoi(st.Accepted.Head)
		require.NoError(t, err)
		require.GreaterOrEqual(t, head, last)
		require.Len(t, st.Accepted.Objects, 250)
		for key, a := range st.Accepted.Objects {
			require.Contains(t, []string{strconv.Itoa(head), strconv.Itoa(head + 1)}, a.Commit, key)
		}
		require.NoError(t, s.Close())
	}
}
