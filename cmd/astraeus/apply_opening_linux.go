package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
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

// approveInstead is apply where a controller runs already: it is that one's
// business, and in approve mode a person's to allow (G-7, X-25). locked is why
// this apply cannot lead.
func (e *environment) approveInstead(c *cli.Context, commit string, locked error) error {
	err := e.operate(c, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := link.Approve(ctx, conn, commit)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; %w", locked, err)
	}
	if c.String("output") == "json" {
		return json.NewEncoder(e.stdout).Encode(map[string]string{"approved": commit})
	}
	_, err = fmt.Fprintf(e.stdout, "approved: %s; the controller that runs applies it\n", view.Short(commit))
	return err
}
