package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// a new leader knows by the store what may be on its way to a machine.
func TestWhatWasGivenIsKnownAgain(t *testing.T) {
	l := lead(t, open(t))
	w := schema.WorkerTarget{Run: runKey("train"), RunUID: "u-run", Generation: 3, Attempt: 2, Name: "train-w-0"}
	targets := map[string]*schema.Assignment{"gpu-01": {Machine: "gpu-01", Workers: []schema.WorkerTarget{w},
		DataLocations: []schema.DataLocation{{Path: "/nvme/a"}}, Copies: []schema.CopyTarget{{UID: "u-copy"}}, Mounts: []schema.MountTarget{{UID: "u-net", Source: 1}}}}
	_, err := l.Assign(t.Context(), targets, nil)
	require.NoError(t, err)
	again, err := l.store.Load(t.Context())
	require.NoError(t, err)
	a := again.Given()["gpu-01"]
	require.Equal(t, targets["gpu-01"].Revision, a.Revision)
	require.Equal(t, targets["gpu-01"].Epoch, a.Epoch)
	require.Equal(t, targets["gpu-01"].Workers, a.Workers)
	require.Equal(t, targets["gpu-01"].Copies, a.Copies)
	require.Equal(t, targets["gpu-01"].DataLocations, a.DataLocations)
	require.Equal(t, targets["gpu-01"].Mounts, a.Mounts)
}
