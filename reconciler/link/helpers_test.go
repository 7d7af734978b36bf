package link

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server on an in-memory listener.
type rig struct {
	*Server
	t    testing.TB
	conn *grpc.ClientConn
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{Server: New(o), t: t}
	listener := bufconn.Listen(1 << 20)
	t.Cleanup(r.Serve(listener))
	r.conn = dial(t, "passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	return r
}

func dial(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// agent is a machine that does only what the test says.
type agent struct {
	link.ClientStream
	t           testing.TB
	name        string
	incarnation string
	sequence    int64
	sender      *link.Sender
	drop        context.CancelFunc
}

func connect(t testing.TB, conn grpc.ClientConnInterface, name string) *agent {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), link.MachineHeader, name))
	t.Cleanup(cancel)
	stream, err := link.Connect(ctx, conn)
	require.NoError(t, err)
	return &agent{ClientStream: stream, t: t, name: name, incarnation: "i1", sender: link.NewSender(nil, nil), drop: cancel}
}

func (a *agent) hello(change ...func(*schema.Hello)) *agent {
	h := &schema.Hello{Version: schema.AssignmentVersion, Machine: a.name, Incarnation: a.incarnation}
	for _, f := range change {
		f(h)
	}
	_ = a.Send(&schema.Up{Hello: h}) // a refused stream says why in Recv
	return a
}

func (a *agent) report(change ...func(*schema.MachineReport)) {
	a.sequence++
	r := &schema.MachineReport{Name: a.name, Incarnation: a.incarnation, Sequence: a.sequence}
	for _, f := range change {
		f(r)
	}
	parts, err := a.sender.Messages(r)
	require.NoError(a.t, err)
	for _, part := range parts {
		_ = a.Send(&schema.Up{Report: part})
	}
}

// refused waits for the end of the stream and checks why it ended.
func (a *agent) refused(code codes.Code, message string) {
	a.t.Helper()
	for {
		_, err := a.Recv()
		if err == nil {
			continue
		}
		require.Equal(a.t, code, status.Code(err), err)
		require.ErrorContains(a.t, err, message)
		return
	}
}

// assigned reads until an assignment comes and returns it with the content that came with or before it.
func (a *agent) assigned() (*schema.Assignment, map[string][]byte) {
	a.t.Helper()
	blobs := map[string][]byte{}
	for {
		down, err := a.Recv()
		require.NoError(a.t, err)
		for hash, data := range down.Blobs {
			blobs[hash] = data
		}
		if down.Assignment != nil {
			return down.Assignment, blobs
		}
	}
}

// until waits for a condition that a change of the server brings about.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	late := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-r.Changed():
		case <-late:
			r.t.Fatal("never: " + what)
		}
	}
}

func (r *rig) connected(name string) {
	r.t.Helper()
	r.until(name+" is connected", func() bool { return r.Machines()[name].Connected })
}

// reports waits for a report of a machine and takes all.
func (r *rig) reports(name string) *schema.MachineReport {
	r.t.Helper()
	var got *schema.MachineReport
	r.until("a report of "+name, func() bool {
		reports, _ := r.Take()
		for _, report := range reports {
			if report.Name == name {
				got = report
			}
		}
		return got != nil
	})
	return got
}

func assignment(machine string, revision int64) *schema.Assignment {
	return &schema.Assignment{Version: schema.AssignmentVersion, Machine: machine, Epoch: 1, Revision: revision}
}

func targets(list ...*schema.Assignment) map[string]*schema.Assignment {
	out := map[string]*schema.Assignment{}
	for _, a := range list {
		out[a.Machine] = a
	}
	return out
}

func (r *rig) taken() []*schema.MachineReport {
	reports, _ := r.Take()
	return reports
}
