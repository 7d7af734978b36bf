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
	newest *schema.MachineReport // also when it was sent
	ready  chan struct{}
}

func (o *outbox) put(r *schema.MachineReport) {
	o.mu.Lock()
	o.report, o.newest = r, r
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

func (o *outbox) last() *schema.MachineReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newest
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
	hello, sentAt := a.hello(), a.contact.now()
	if err := stream.Send(&schema.Up{Hello: hello}); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	welcome, err := a.welcomed(stream)
	if err != nil {
		return false, err
	}
	heard = true
	if err := a.contact.opened(sentAt); err != nil {
		return heard, err
	}
	a.naming.opened()
	if have := a.naming.have(); have != nil {
		if err := stream.Send(&schema.Up{Zone: have}); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
	}
	a.republish.Store(true)
	a.wake()
	received := make(chan error, 1)
	go func() {
		received <- a.receive(stream)
		cancel() // ends a Send that waits
	}()
	sendErr := a.sendAll(ctx, stream, hello, welcome)
	cancel()
	if err := <-received; err != nil && !errors.Is(err, context.Canceled) {
		return heard, err
	}
	return heard, sendErr
}

func (a *Agent) hello() *schema.Hello {
	h := &schema.Hello{Version: schema.AssignmentVersion, Machine: a.cfg.Machine, ClusterUID: a.clusterUID(),
		Incarnation: a.incarnation, Blobs: a.blobs.keep(hashesOf(a.target.Load()))}
	if t := a.target.Load(); t != nil {
		h.Epoch, h.Revision = t.Epoch, t.Revision
	}
	h.Parts, _ = link.Digests(a.out.last()) // without them everything is sent
	return h
}

// welcomed waits for the answer to the hello. An older controller sends none.
func (a *Agent) welcomed(stream link.ClientStream) (*schema.Welcome, error) {
	down, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if err := a.take(down); err != nil {
		return nil, err
	}
	if down.Welcome == nil {
		return &schema.Welcome{}, nil
	}
	return down.Welcome, nil
}

func (a *Agent) receive(stream link.ClientStream) error {
	for {
		down, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := a.take(down); err != nil {
			return err
		}
	}
}

// sendAll sends what the leader asks for, and reports until the stream ends.
func (a *Agent) sendAll(ctx context.Context, stream link.ClientStream, hello *schema.Hello, welcome *schema.Welcome) error {
	if welcome.Recall {
		for _, part := range a.held() {
			if err := stream.Send(&schema.Up{Held: part}); err != nil {
				return err
			}
		}
	}
	sender := link.NewSender(hello.Parts, welcome.Have)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.out.ready:
		case <-a.naming.asks:
			if have := a.naming.have(); have != nil {
				if err := stream.Send(&schema.Up{Zone: have}); err != nil {
					return err
				}
			}
			continue
		}
		r := a.out.take()
		if r == nil {
			continue
		}
		a.contact.sending(r.Sequence)
		parts, err := sender.Messages(r)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if err := stream.Send(&schema.Up{Report: part}); err != nil {
				return err
			}
		}
	}
}

// held is what this machine was assigned last, in messages of about
// link.ChunkBytes, the assignment in the last one.
func (a *Agent) held() []*schema.Held {
	t := a.target.Load()
	part, size := &schema.Held{}, 0
	var list []*schema.Held
	if t != nil {
		for _, hash := range t.BlobHashes() {
			data, err := a.blobs.get(hash)
			if err != nil {
				continue // it was never sent, or is damaged: told without it
			}
			if size > 0 && size+len(data) > link.ChunkBytes*3/4 {
				part.More = true
				list = append(list, part)
				part, size = &schema.Held{}, 0
			}
			if part.Blobs == nil {
				part.Blobs = map[string][]byte{}
			}
			part.Blobs[hash], size = data, size+len(data)
		}
		part.Assignment = t
	}
	part.Ended = a.past.all()
	return append(list, part)
}
