package nodeexec

import (
	"context"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// touch keeps the copies' time of last use: hourly while a worker uses one, and
// when its worker ended (D-70). What is written is compared with what the
// sidecar says, so that nothing is lost with this process.
func (a *Agent) touch(ctx context.Context, s *situation) {
	if !s.seen.copiesKnown || a.copies() == nil {
		return
	}
	now := a.cfg.Now()
	for _, c := range s.seen.copies.Copies {
		if c.State != schema.CopyPresent || c.UID == "" {
			continue
		}
		at := lastUse(s.seen.workers, c, now)
		if at.IsZero() {
			continue
		}
		a.startTidy(ctx, &job{tidies: "note the use of " + c.UID, locks: []lock{{copyObject(c.UID), false}}, within: deadlineOf(""),
			run: func(context.Context) error { return a.copies().MarkUsed(c.UID, at) }})
	}
}

// lastUse is the time of use that the sidecar should say and does not, or zero.
func lastUse(workers []localWorker, c schema.Copy, now time.Time) (at time.Time) {
	var known time.Time
	if c.LastUsed != nil {
		known = *c.LastUsed
	}
	for i := range workers {
		w := &workers[i]
		switch {
		case !w.uses(c.UID):
		case w.live() && now.Sub(known) >= lastUsedStep:
			at = laterOf(at, now)
		case w.state == runtime.Exited && w.worker.Ended.After(known.Add(time.Second)) && !w.worker.Ended.After(now):
			at = laterOf(at, w.worker.Ended)
		}
	}
	return at
}
