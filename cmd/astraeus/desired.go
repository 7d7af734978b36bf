package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/schema"
)

func repoFlag() cli.Flag {
	return &cli.StringFlag{Name: "repo", Value: ".", Usage: "`DIR` or URL of the desired-state repository"}
}

func refFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "ref", Usage: usage} }

// repository is the desired state that a command line names: files as they lie,
// or commits of a git repository. It is opened when a commit is asked for.
type repository struct {
	text   string
	env    *environment
	source *gitsource.Source
}

func (e *environment) repository(c *cli.Context) (*repository, error) {
	text := c.String("repo")
	if text == "" {
		return nil, errors.New("--repo is empty: give a directory or a URL")
	}
	if c.IsSet("ref") && c.String("ref") == "" {
		return nil, errors.New("--ref is empty: give a commit, a branch or a tag")
	}
	return &repository{text: text, env: e}, nil
}

func (r *repository) close() {
	if r.source != nil {
		_ = r.source.Close() // only read from
	}
}

// open makes commits readable.
func (r *repository) open(ctx context.Context) (*gitsource.Source, error) {
	if r.source != nil {
		return r.source, nil
	}
	source, err := gitsource.Open(ctx, gitsource.Options{URL: r.text, Auth: r.env.gitAuth()})
	if err != nil {
		return nil, err
	}
	r.source = source
	return source, nil
}

// snapshot is the files at a revision; without one, a directory's files as they
// lie or a remote's newest commit.
func (r *repository) snapshot(ctx context.Context, rev string) (*gitsource.Snapshot, error) {
	u, err := gitsource.ParseURL(r.text)
	if err != nil {
		return nil, err
	}
	if rev == "" && u.Local() {
		return gitsource.DirSnapshot(u.String())
	}
	source, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	if rev == "" {
		return source.Fetch(ctx)
	}
	return source.At(ctx, rev)
}

// desired loads the files at a revision.
func (r *repository) desired(ctx context.Context, rev string) (*schema.Desired, error) {
	snapshot, err := r.snapshot(ctx, rev)
	if err != nil {
		return nil, err
	}
	if !holdsCluster(snapshot.FS()) {
		return nil, fmt.Errorf("%s holds no cluster: there is neither a cluster.cue nor a folder orgs; run this at the top of the repository, or give --repo", redact(r.text))
	}
	return r.env.loader.files(ctx, snapshot.FS(), snapshot.Commit, snapshot.Time)
}

// holdsCluster tells a repository from any other directory, in which nothing is
// declared and everything would therefore be in order.
func holdsCluster(files fs.FS) bool {
	entries, err := fs.ReadDir(files, ".")
	return err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { // an error is told by loading
		return e.Name() == "orgs" || strings.HasPrefix(e.Name(), "cluster.")
	})
}

// descends reports whether newer has older in its history. A commit that the
// repository does not know is in nobody's history.
func (r *repository) descends(ctx context.Context, older, newer string) (bool, error) {
	source, err := r.open(ctx)
	if err != nil {
		return false, err
	}
	yes, err := source.IsAncestor(ctx, older, newer)
	if errors.Is(err, gitsource.ErrRefNotFound) {
		return false, nil
	}
	return yes, err
}

// gitAuth reads how to sign in at a remote from the environment: what stands on
// a command line can be seen by everybody.
func (e *environment) gitAuth() gitsource.Auth {
	return gitsource.Auth{
		Username:   e.getenv("ASTRAEUS_GIT_USERNAME"),
		Password:   gitsource.Secret(e.getenv("ASTRAEUS_GIT_TOKEN")),
		TokenFile:  e.getenv("ASTRAEUS_GIT_TOKEN_FILE"),
		SSHKeyFile: e.getenv("ASTRAEUS_GIT_SSH_KEY_FILE"),
	}
}
