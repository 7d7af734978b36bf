package main

import (
	"time"

	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// opening is what an apply has written before its first pass: that its commit is
// approved, where a commit needs that.
func opening(commit string) func(*store.State) (schema.Decisions, error) {
	return func(state *store.State) (schema.Decisions, error) {
		for key, o := range state.Accepted.Objects {
			spec, ok := specOf(o).(*schema.ClusterSpec)
			if key.Kind == schema.KindCluster && ok && spec.Sync == schema.SyncApprove && state.Accepted.Head != commit {
				return reconciler.Approval(state, commit, "apply", time.Now()), nil
			}
		}
		return schema.Decisions{}, nil
	}
}
