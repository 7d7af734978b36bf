package statusapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// D-83: a mount shows its machines, transport, mode and state, and its series as
// values a second; before the client has reported, they are there and empty.
func TestMountSeries(t *testing.T) {
	view := cluster()
	client := &schema.MachineReport{Name: "gpu-02", State: schema.MachineUp, Address: "192.0.2.2", Mounts: []schema.Mount{
		{Drive: nsResearch + ".imagenet", UID: "uid-imagenet", From: "gpu-01", State: schema.MountBound, Mode: schema.ReadOnly, Transport: schema.TransportRDMA},
	}}
	view.Input.Accepted.Objects = with(view, object(schema.KindMachine, "", "gpu-02", &schema.MachineSpec{})).Input.Accepted.Objects
	view.Input.Observed.Machines = append(view.Input.Observed.Machines, client)
	h := serve(t, fixed{view: view})
	list := body[List[Claim]](t, h, long+"/mounts")
	require.Len(t, list.Items, 1)
	c := list.Items[0]
	require.Equal(t, []any{"imagenet-0@gpu-02", "imagenet", "gpu-01", "gpu-02", schema.TransportRDMA, schema.ReadOnly},
		[]any{c.ID, c.Drive, c.From, c.Client, c.Transport, c.Mode})
	m := body[MountDetail](t, h, long+"/mounts/"+c.ID)
	require.Equal(t, MountSeries{[]Point{}, []Point{}, []Point{}, []Point{}, []Point{}}, m.Series)

	client.MountSeries = []schema.MountSeries{{Drive: nsResearch + ".imagenet", UID: "uid-imagenet", Samples: []schema.MountSample{
		{At: noon, Seconds: 0, Operations: 5}, // says nothing of a rate
		{At: noon.Add(time.Minute), Seconds: 60, ReadBytes: 600, WrittenBytes: 60, Operations: 120, RoundTrip: 0.002, Retransmissions: 6, Timeouts: 3},
	}}}
	h = serve(t, fixed{view: view})
	for _, path := range []string{"/v1/mounts/ws-research.imagenet-0@gpu-02", "/v1/datavolume-claims/ws-research.imagenet-0@gpu-02", long + "/datavolume-claims/imagenet-0@gpu-02"} {
		s := body[MountDetail](t, h, path).Series
		at := noon.Add(time.Minute)
		require.Equal(t, MountSeries{[]Point{{at, 11}}, []Point{{at, 2}}, []Point{{at, 0.002}}, []Point{{at, 0.1}}, []Point{{at, 0.05}}}, s)
	}
	requireProblem(t, ask(t, h, http.MethodGet, long+"/mounts/imagenet-1@gpu-02"), http.StatusNotFound, codeNotFound)
}
