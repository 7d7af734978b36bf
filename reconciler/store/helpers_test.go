package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"astraeus.io/astraeus/schema"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		writeForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

// open starts an embedded store in a new directory and closes it with the test.
func open(t testing.TB, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{Cluster: "test", Dir: t.TempDir(), NoSync: true}
	for _, f := range change {
		f(&o)
	}
	if point := o.Point; point != nil {
		o.Point = func(name string) error {
			if !slices.Contains(CrashPoints, name) {
				t.Errorf("crash point %q is not listed (X-40)", name)
			}
			return point(name)
		}
	}
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// lead campaigns and loads; the term ends with the test.
func lead(t testing.TB, s *Store) *Leader {
	t.Helper()
	l, err := s.Campaign(t.Context(), "here:1")
	require.NoError(t, err)
	t.Cleanup(func() { l.Resign(context.Background()) })
	_, err = l.Load(t.Context())
	require.NoError(t, err)
	return l
}

// tell writes events that come with no decision.
func tell(l *Leader, events ...schema.Event) error {
	_, err := l.Commit(context.Background(), schema.Decisions{Events: events})
	return err
}

func driveKey(name string) schema.Key {
	return schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: name}
}

func driveObject(name string) *schema.Object {
	o := &schema.Object{
		Key: driveKey(name), Org: "acme", Workspace: "research", Metadata: schema.Metadata{Name: name},
		Spec:   &schema.DriveSpec{Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced}}},
		Origin: schema.Pos{File: "orgs/acme/workspaces/research/drives/" + name + ".cue", Line: 1},
	}
	o.Rehash()
	return o
}

func accept(name, commit string) schema.Acceptance {
	return schema.Acceptance{Object: schema.AcceptedObject{
		UID: "uid-" + name, Generation: 1, Seq: 1, Commit: commit, Object: driveObject(name),
	}}
}

func runKey(name string) schema.Key {
	return schema.Key{Kind: schema.KindRun, Namespace: "ws-1", Name: name}
}

func placement(name, machine string) schema.Placement {
	return schema.Placement{
		Run: runKey(name), RunUID: "uid-" + name, Generation: 1, Spec: &schema.RunSpec{RestartPolicy: schema.RestartNever},
		Workers: []schema.PlacedWorker{{Name: name + "-0", Machine: machine, Since: time.Unix(1000, 0).UTC()}},
	}
}

// many decides n new drives, named a-000 and on.
func many(n int, commit string) schema.Decisions {
	d := schema.Decisions{Head: commit}
	for i := range n {
		d.Accept = append(d.Accept, accept(fmt.Sprintf("a-%03d", i), commit))
	}
	return d
}

// revision is the store's newest one: it moves with every write.
func revision(t testing.TB, s *Store) int64 {
	t.Helper()
	got, err := s.client.Get(t.Context(), s.keys.single(areaMeta))
	require.NoError(t, err)
	return got.Header.Revision
}

func load(t testing.TB, s *Store) *State {
	t.Helper()
	st, err := s.Load(t.Context())
	require.NoError(t, err)
	return st
}
