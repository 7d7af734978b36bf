package reconciler

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

func BenchmarkCommitToDown(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			s, source := openStore(b, func(o *store.Options) { o.NoSync = false }), newSource()
			objects := []*schema.Object{machineObject("m1")}
			for i := range n {
				objects = append(objects, labelledRun(i, "0"))
			}
			source.push("c0", objects...)
			c := run(b, s, source, "one")
			m := c.machine("m1")
			c.until("c0", func(s Status) bool { return s.Head == "c0" && !s.Pass.Decided })
			for len(m.got) > 0 {
				<-m.got
			}
			i := 0
			for b.Loop() {
				i++
				next := slices.Clone(objects)
				next[1] = labelledRun(0, fmt.Sprint(i))
				source.push(fmt.Sprint("c", i), next...)
				<-m.got
			}
		})
	}
}

func labelledRun(i int, label string) *schema.Object {
	return runObject(fmt.Sprintf("r%04d", i), label)
}

// BenchmarkReportsToPlan is 5,000 machines of which each sends a changed report:
// taken, compared, planned for, and published.
func BenchmarkReportsToPlan(b *testing.B) {
	const n = 5000
	source, wire := newSource(), newFakeLink()
	var objects []*schema.Object
	for i := range n {
		objects = append(objects, machineObject(fmt.Sprintf("m%04d", i)))
	}
	source.push("c1", objects...)
	passed := make(chan Pass, 1)
	r, err := New(Config{
		Source: source, Load: source.load, Store: Etcd(openStore(b)), Link: wire, Plan: fakePlan, Coalesce: time.Nanosecond,
		Hooks: Hooks{Passed: func(p Pass) {
			select {
			case passed <- p:
			default:
			}
		}},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	for p := range passed {
		if r.Status().Head == "c1" && !p.Decided {
			break
		}
	}
	sequence := int64(0)
	for b.Loop() {
		sequence++
		wire.mu.Lock()
		for i := range n {
			name := fmt.Sprintf("m%04d", i)
			wire.heard[name] = link.Presence{Connected: true, Heard: time.Now()}
			wire.reports[name] = &schema.MachineReport{Name: name, Sequence: sequence, Applied: sequence}
		}
		wire.mu.Unlock()
		for len(passed) > 0 {
			<-passed
		}
		wire.changed <- struct{}{}
		<-passed
	}
	cancel()
	<-done
}

// BenchmarkFileToDown is from a changed file to the machine's assignment: record,
// notice, fetch, load, plan, commit, assign, send.
func BenchmarkFileToDown(b *testing.B) {
	repo := newRepository(b)
	repo.commit(smallCluster())
	c := runWhole(b, repo)
	c.until("leading", func(s Status) bool { return s.Leading })
	m := c.connectAs("m1", reported)
	c.until("converged", func(s Status) bool { yes, _ := s.Converged(false); return yes })
	name, i := workspace+"drives/x.cue", 0
	for b.Loop() {
		b.StopTimer()
		for len(m.got) > 0 {
			<-m.got
		}
		i++
		text := `kind: "Drive", metadata: name: "x", spec: {evictable: ` + []string{"true", "false"}[i%2] + `, sources: [{node_scope: "placed", mount_path: "/cache"}]}`
		b.StartTimer()
		repo.commit(map[string]string{name: text})
		<-m.got
	}
}
