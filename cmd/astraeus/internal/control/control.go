package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// Options of Open. Source, Load and Store are required.
type Options struct {
	Source reconciler.Source
	Load   reconciler.LoadFunc
	// Store says where decisions are kept; its Log is set from Log when nil.
	Store store.Options
	// Address is where machines find this controller; others of the same store point to it.
	Address string
	// Plan is planner.Plan by default.
	Plan func(planner.Input) schema.Plan
	Log  *slog.Logger
	// Opening of the reconciler; may be nil.
	Opening func(*store.State) (schema.Decisions, error)
	// Hooks of the reconciler.
	Hooks reconciler.Hooks
}

// Controller is one that was put together. Open it, Listen, Run it, Close it.
type Controller struct {
	Store      *store.Store
	Link       *link.Server
	Reconciler *reconciler.Reconciler
	log        *slog.Logger
	source     *Source
	stops      []func()
}

// Open opens the store and makes the parts; nothing runs yet. The caller must
// Close the result. Errors are those of store.Open.
func Open(ctx context.Context, o Options) (*Controller, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Store.Log == nil {
		o.Store.Log = o.Log
	}
	st, err := store.Open(ctx, o.Store)
	if err != nil {
		return nil, err
	}
	machines := link.New(link.Options{Log: o.Log})
	r, err := reconciler.New(reconciler.Config{
		Source: o.Source, Load: o.Load, Store: reconciler.Etcd(st), Link: machines, Plan: o.Plan, Address: o.Address,
		Log: o.Log, Hooks: o.Hooks, Opening: o.Opening,
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	machines.Operate(r)
	return &Controller{Store: st, Link: machines, Reconciler: r, log: o.Log, source: newSource(st, r)}, nil
}

// Listen serves machines on a listener until Close. Options carry credentials
// (link.Credentials); without any, the listener must be a unix socket or in memory.
func (c *Controller) Listen(l net.Listener, options ...grpc.ServerOption) {
	c.stops = append(c.stops, c.Link.Serve(l, options...))
}

// Source is the status API's view of this controller. It answers while Run runs.
func (c *Controller) Source() *Source { return c.source }

// Metrics is what this controller counts, for the status API's /metrics.
func (c *Controller) Metrics() *prometheus.Registry { return c.source.metrics.registry }

// Run reconciles and keeps the view up to date until the context ends, which is
// no error. Other errors are those that no waiting heals.
func (c *Controller) Run(ctx context.Context) error {
	relaxCollector()
	ctx, stop := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		c.source.run(ctx, c.log)
	}()
	err := c.Reconciler.Run(ctx)
	ended := ctx.Err() != nil
	stop()
	<-watching
	if ended && errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// Close closes the listeners and the store. Run must have returned.
func (c *Controller) Close() error {
	for _, stop := range c.stops {
		stop()
	}
	return c.Store.Close()
}

// A plan of a large cluster allocates some 400 MB in a burst and drops most of it:
// collecting at every doubling would take a third of its time. The limit keeps the
// controller below 1 GB all the same.
const (
	collectAtPercent = 400
	memoryLimit      = 900 << 20
)

// relaxCollector leaves alone what the environment says.
func relaxCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAtPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
