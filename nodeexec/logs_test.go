package nodeexec

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
)

// Logs of workers that are gone are kept within a bound, those of others all. X-12
func TestOldLogsAreBounded(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.cfg.StateDir, LogsDir)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	log := func(name string, age time.Duration, size int64) {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Truncate(file, size))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(file, at, at))
	}
	r.w.set(func(s *worldState) { s.Workers["here"] = &fakeWorker{Status: runtime.Status{ID: "here"}} })
	log("here.log", 1000*time.Hour, 1)
	log("here.log.1", 1000*time.Hour, oldLogBytes)
	for i := range oldLogFiles + 5 {
		log(fmt.Sprintf("gone-%04d.log", i), time.Duration(i)*time.Minute, 1)
	}
	a, err := New(r.cfg)
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, a.sweepLogs(t.Context()))
	require.NoFileExists(t, filepath.Join(dir, fmt.Sprintf("gone-%04d.log", oldLogFiles)))
	require.FileExists(t, filepath.Join(dir, fmt.Sprintf("gone-%04d.log", oldLogFiles-1)))

	log("big.log.1", -time.Minute, oldLogBytes) // the newest
	require.NoError(t, a.sweepLogs(t.Context()))
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{"big.log.1", "here.log", "here.log.1"}, []string{filepath.Base(left[0]), filepath.Base(left[1]), filepath.Base(left[2])})
	require.Len(t, left, 3)
}
