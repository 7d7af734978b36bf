package e2e

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// patience bounds every wait for another goroutine; nothing passes because of it.
const patience = 60 * time.Second

// cluster is a repository and what leads by it; machines find it at a socket.
type cluster struct {
	t        testing.TB
	dir      string
	recorder *gitsource.Recorder
	source   *gitsource.Source
	loader   *load.Loader
	peers    string // where machines look their neighbours up
	log      *slog.Logger

	mu       sync.Mutex
	observed schema.Observed // of the newest pass

	lead *leading // nil while the control plane is away
}

type leading struct {
	*reconciler.Reconciler
	store *store.Store
	stop  func()
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("", "e2e") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	c := &cluster{t: t, dir: dir, loader: load.New(load.Options{}), peers: filepath.Join(dir, "peers.json"), log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() && os.Getenv("E2E_LOG") != "" {
		c.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	t.Cleanup(c.loader.Close)
	kept := filepath.Join(dir, "git")
	c.recorder, err = gitsource.OpenRecorder(t.Context(), kept)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.recorder.Close()) })
	c.source, err = gitsource.Open(t.Context(), gitsource.Options{URL: kept})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.source.Close()) })
	t.Cleanup(func() { c.away() })
	return c
}

// declare writes files of the repository ("" removes one) and records a commit.
func (c *cluster) declare(files map[string]string) (commit string) {
	c.t.Helper()
	for name, text := range files {
		path := filepath.Join(c.dir, "repo", name)
		if text == "" {
			require.NoError(c.t, os.Remove(path))
			continue
		}
		write(c.t, path, text)
	}
	commit, _, err := c.recorder.Record(c.t.Context(), filepath.Join(c.dir, "repo"), "change")
	require.NoError(c.t, err)
	return commit
}

func (c *cluster) socket() string { return filepath.Join(c.dir, "link.sock") }

// open starts the control plane.
func (c *cluster) open() {
	t := c.t
	t.Helper()
	st, err := store.Open(context.Background(), store.Options{Cluster: "test", Dir: filepath.Join(c.dir, "store"), NoSync: true})
	require.NoError(t, err)
	machines := link.New(link.Options{})
	r, err := reconciler.New(reconciler.Config{Source: reconciler.Git(c.source), Store: reconciler.Etcd(st), Link: machines, Address: "here",
		Resync: 100 * time.Millisecond, Coalesce: 10 * time.Millisecond, Log: c.log,
		Load: func(ctx context.Context, files fs.FS, commit string, at time.Time) (*schema.Desired, error) {
			return c.loader.Load(ctx, files, load.Commit{ID: commit, Time: at})
		},
		Plan: func(in planner.Input) schema.Plan {
			c.mu.Lock()
			c.observed = in.Observed
			c.mu.Unlock()
			return planner.Plan(in)
		}})
	require.NoError(t, err)
	listener, err := net.Listen("unix", c.socket())
	require.NoError(t, err)
	stopLink := machines.Serve(listener)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	c.lead = &leading{r, st, func() {
		cancel()
		<-done
		stopLink()
		_ = os.Remove(c.socket())
		require.NoError(t, st.Close())
	}}
}

// away takes the control plane away.
func (c *cluster) away() {
	if c.lead != nil {
		c.lead.stop()
	}
	c.lead = nil
}

// until waits until something holds, asked after each pass.
func (c *cluster) until(what string, holds func(reconciler.Status) bool) reconciler.Status {
	c.t.Helper()
	updates, cancel := c.lead.Subscribe()
	defer cancel()
	late := time.After(patience)
	for {
		select {
		case u := <-updates:
			if holds(u.Status) {
				return u.Status
			}
		case <-late:
			s := c.lead.Status()
			require.FailNow(c.t, "never: "+what, "head %s, commit %s, fetch %s, store %s\ndiagnostics %v\nsteps %+v\nholds %+v\nwaits %+v\nobserved %+v",
				s.Head, s.Commit, s.FetchError, s.StoreError, s.Diagnostics, s.Plan.Steps, s.Plan.Holds, s.Plan.Waits, c.report("gpu-01"))
		}
	}
}

// settled waits until a commit is in force, the machines are up and nothing is to be done.
func (c *cluster) settled(commit string, machines ...string) {
	c.t.Helper()
	c.until("settled", func(s reconciler.Status) bool {
		for _, m := range machines {
			if s.Machines[m].State != schema.MachineUp || c.report(m) == nil {
				return false
			}
		}
		yes, _ := s.Converged(false)
		return yes && s.Head == commit
	})
}

// report is a machine's newest that a pass has seen.
func (c *cluster) report(machine string) *schema.MachineReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.observed.Machines, func(r *schema.MachineReport) bool { return r.Name == machine })
	if i < 0 {
		return nil
	}
	return c.observed.Machines[i]
}

// events are the messages about a drive, the oldest first.
func (c *cluster) events(drive string) (messages []string) {
	c.t.Helper()
	list, err := c.lead.store.ListEvents(c.t.Context(), store.EventFilter{Object: schema.Key{Kind: schema.KindDrive, Namespace: namespace, Name: drive}})
	require.NoError(c.t, err)
	for _, e := range list {
		messages = append(messages, e.Message)
	}
	return messages
}
