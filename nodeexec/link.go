package nodeexec

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

// Reconnecting: 200 ms doubling to 15 s, from the start again after a stream
// that brought something.
const (
	connectFirst = 200 * time.Millisecond
	connectMost  = 15 * time.Second
)

// outbox holds the newest report that has not been sent. A newer one replaces
// it: reports are whole.
type outbox struct {
	mu     sync.Mutex
	report *schema.MachineReport
	ready  chan struct{}
}

func (o *outbox) put(r *schema.MachineReport) {
	o.mu.Lock()
	o.report = r
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

func (o *outbox) take() *schema.MachineReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.report
	o.report = nil
	return r
}

// holdLink keeps a stream to the leading controller open.
func (a *Agent) holdLink(ctx context.Context) error {
	wait := connectFirst
	for ctx.Err() == nil {
		heard, err := a.session(ctx)
		a.online.Store(false)
		a.wake()
		if ctx.Err() != nil {
			break
		}
		a.cfg.Refused(err)
		if heard {
			wait = connectFirst
		}
		pause := wait + time.Duration(a.cfg.Random()*float64(a.cfg.ConnectJitter))
		a.log.Warn("the link is down", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		wait = min(connectMost, wait*2)
	}
	return ctx.Err()
}

// session is one stream from its opening to its end.
func (a *Agent) session(ctx context.Context) (heard bool, err error) {
	conn, err := a.cfg.Dial(ctx)
	if err != nil {
		return false, err
	}
	if closer, ok := conn.(io.Closer); ok {
		defer closer.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := link.Connect(metadata.AppendToOutgoingContext(ctx, link.MachineHeader, a.cfg.Machine), conn)
	if err != nil {
		return false, err
	}
	if err := stream.Send(&schema.Up{Hello: a.hello()}); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	a.republish.Store(true)
	a.wake()
	received := make(chan error, 1)
	go func() {
		received <- a.receive(stream, &heard)
		cancel() // ends a Send that waits
	}()
	sendErr := a.sendReports(ctx, stream)
	cancel()
	if err := <-received; err != nil && !errors.Is(err, context.Canceled) {
		return heard, err
	}
	return heard, sendErr
}

func (a *Agent) hello() *schema.Hello {
	return &schema.Hello{Version: schema.AssignmentVersion, Machine: a.cfg.Machine, ClusterUID: a.clusterUID(),
		Incarnation: a.incarnation, Blobs: a.blobs.keep(hashesOf(a.target.Load()))}
}

func (a *Agent) receive(stream link.ClientStream, heard *bool) error {
	for {
		down, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := a.take(down); err != nil {
			return err
		}
		*heard = true
	}
}

func (a *Agent) sendReports(ctx context.Context, stream link.ClientStream) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.out.ready:
		}
		if r := a.out.take(); r != nil {
			if err := stream.Send(&schema.Up{Report: r}); err != nil {
				return err
			}
		}
	}
}
