package nodeexec

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

// controller is the other end of the link, played by a test.
type controller struct {
	listener *bufconn.Listener
	server   *grpc.Server
	streams  chan *stream
	mu       sync.Mutex
	refuse   error
	known    *schema.MachineReport // of the machine's reports, when it connects
	recall   bool
}

// stream is one machine's open stream.
type stream struct {
	link.ServerStream
	hello   *schema.Hello
	reports chan *schema.MachineReport
	sent    chan *schema.ReportParts
	held    chan *schema.Held
	close   chan error
}

func newController(t *testing.T) *controller {
	c := &controller{listener: bufconn.Listen(1 << 20), server: grpc.NewServer(), streams: make(chan *stream, 8)}
	link.Register(c.server, c)
	go func() { _ = c.server.Serve(c.listener) }()
	t.Cleanup(c.server.Stop)
	return c
}

func (c *controller) Connect(s link.ServerStream) error {
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get(link.MachineHeader)) != 1 {
		return errors.New("the machine does not name itself")
	}
	up, err := s.Recv()
	if err != nil {
		return err
	}
	st := &stream{ServerStream: s, hello: up.Hello, reports: make(chan *schema.MachineReport, 1000), close: make(chan error, 1),
		sent: make(chan *schema.ReportParts, 1000), held: make(chan *schema.Held, 10)}
	c.mu.Lock()
	known, recall := c.known, c.recall
	c.mu.Unlock()
	parts, have, err := link.NewReceiver(known, up.Hello.Parts)
	if err != nil {
		return err
	}
	if err := s.Send(&schema.Down{Welcome: &schema.Welcome{Have: have, Recall: recall}}); err != nil {
		return err
	}
	c.streams <- st
	go func() {
		defer close(st.reports)
		for {
			up, err := s.Recv()
			if err != nil {
				return
			}
			if up.Held != nil {
				st.held <- up.Held
				continue
			}
			st.sent <- up.Report
			if report, err := parts.Take(up.Report); err == nil && report != nil {
				st.reports <- report
			}
		}
	}()
	select {
	case err := <-st.close:
		return err
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

func (c *controller) dial(context.Context) (grpc.ClientConnInterface, error) {
	return grpc.NewClient("passthrough:///controller", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.listener.DialContext(ctx) }))
}

// until gives the first report for which the test holds.
func (s *stream) until(t *testing.T, what string, ok func(*schema.MachineReport) bool) *schema.MachineReport {
	t.Helper()
	timeout := time.After(20 * time.Second)
	var last *schema.MachineReport
	for {
		select {
		case r, open := <-s.reports:
			require.True(t, open, "the stream ended while waiting for %s; last: %+v", what, last)
			if last = r; ok(r) {
				return r
			}
		case <-timeout:
			require.FailNow(t, "no report", "waiting for %s; last: %+v", what, last)
		}
	}
}

func TestLink(t *testing.T) {
	c := newController(t)
	r := newRig(t)
	r.cfg.Dial, r.cfg.ReportEvery = c.dial, 50*time.Millisecond
	refused := make(chan error, 100)
	r.cfg.Refused = func(err error) { refused <- err }
	c.refuse = status.Error(codes.FailedPrecondition, "not leader, try 192.0.2.9:7443")
	r.start()
	err := <-refused
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "try 192.0.2.9:7443")
	c.mu.Lock()
	c.refuse = nil
	c.mu.Unlock()

	s := <-c.streams
	require.Equal(t, "gpu-01", s.hello.Machine)
	require.Empty(t, s.hello.ClusterUID)
	first := s.until(t, "the first report", func(*schema.MachineReport) bool { return true })
	require.Equal(t, "boot-1", first.BootID)
	require.Nil(t, first.Copies, "no cluster is known, so whose copies these are is not")

	r.base.Revision++
	r.upSteps(&r.base)
	hash := r.base.Workers[0].Template
	require.NoError(t, s.Send(&schema.Down{Assignment: &r.base, Blobs: r.blobs}))
	running := s.until(t, "a running worker", func(r *schema.MachineReport) bool { return len(r.Workers) == 1 })
	require.Equal(t, int64(1), running.Applied)
	beat := s.until(t, "a heartbeat", func(r *schema.MachineReport) bool { return r.Sequence > running.Sequence })
	require.Equal(t, first.Incarnation, beat.Incarnation)

	s.close <- status.Error(codes.Unavailable, "the leader steps down")
	s = <-c.streams // it comes back by itself, and is known
	require.Equal(t, "cluster-1", s.hello.ClusterUID)
	require.Equal(t, []string{hash}, s.hello.Blobs)
	s.until(t, "a whole report", func(r *schema.MachineReport) bool { return len(r.Workers) == 1 && len(r.Copies) == 1 })
	require.False(t, r.a.online.Load(), "the assignment is not confirmed on this stream")
	require.NoError(t, s.Send(&schema.Down{Assignment: &r.base}))
	require.Eventually(t, r.a.online.Load, 10*time.Second, time.Millisecond)

	foreign := r.base
	foreign.ClusterUID, foreign.Revision = "cluster-2", 50
	require.NoError(t, s.Send(&schema.Down{Assignment: &foreign}))
	for errors.Is(<-refused, errForeign) {
		break
	}
	require.Equal(t, int64(1), r.a.target.Load().Revision)
	r.stop()
}

// a leader that adopts is told what the machine was assigned and
// which workers ended; a report that a leader knows is not sent again.
func TestRecallAndDigests(t *testing.T) {
	c := newController(t)
	r := newRig(t)
	r.cfg.Dial, r.cfg.ReportEvery = c.dial, 50*time.Millisecond
	r.start()
	s := <-c.streams
	require.Zero(t, s.hello.Revision)
	r.base.Revision++
	r.upSteps(&r.base)
	require.NoError(t, s.Send(&schema.Down{Assignment: &r.base, Blobs: r.blobs}))
	s.until(t, "a running worker", func(r *schema.MachineReport) bool { return len(r.Workers) == 1 })
	r.w.mu.Lock()
	for _, f := range r.w.state.Workers {
		code := 0
		f.Status.State, f.Status.ExitCode, f.Status.Ended = runtime.Exited, &code, time.Now()
	}
	r.w.mu.Unlock()
	r.a.wake()
	s.until(t, "its end", func(r *schema.MachineReport) bool {
		return len(r.Workers) == 1 && r.Workers[0].State == schema.WorkerSucceeded
	})
	ended := r.base
	ended.Revision, ended.Workers, ended.Steps = 2, nil, nil
	require.NoError(t, s.Send(&schema.Down{Assignment: &ended}))
	last := s.until(t, "the worker is forgotten", func(r *schema.MachineReport) bool { return len(r.Workers) == 0 && r.Applied == 2 })

	c.mu.Lock()
	c.known, c.recall = last, true
	c.mu.Unlock()
	s.close <- status.Error(codes.Unavailable, "the leader steps down")
	s = <-c.streams
	require.Equal(t, int64(1), s.hello.Epoch)
	require.Equal(t, int64(2), s.hello.Revision)
	require.NotEmpty(t, s.hello.Parts)
	held := <-s.held
	require.Equal(t, ended.Revision, held.Assignment.Revision)
	require.Len(t, held.Ended, 1)
	require.Equal(t, r.base.Workers[0].Template, held.Ended[0].Template)
	require.Equal(t, r.base.Workers[0].Name, held.Ended[0].Worker.Name)
	require.Equal(t, schema.WorkerSucceeded, held.Ended[0].Worker.State)
	s.until(t, "a report", func(r *schema.MachineReport) bool { return r.Applied == 2 })
	sent := <-s.sent
	for _, part := range []string{"machine", "copies", "workers", "exports", "mounts"} {
		require.NotContains(t, sent.Parts, part)
	}
	r.stop()

	r.start() // the next process remembers
	s = <-c.streams
	require.Len(t, (<-s.held).Ended, 1)
	r.stop()
}
