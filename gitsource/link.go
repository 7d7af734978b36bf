package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

type session = transport.UploadPackSession

// link speaks git's protocol with one server. Calls do not overlap. Every error it returns is classified and redacted.
type link struct {
	url  URL
	auth Auth
	idle func() // closes idle connections
	tr   transport.Transport
	red  redactor
	slow chan struct{} // not nil while an abandoned ssh connect has not returned
}

func newLink(u URL, auth Auth) *link {
	l := &link{url: u, auth: auth, idle: func() {}}
	if u.scheme == "ssh" {
		l.tr = gitssh.DefaultClient
		return l
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	l.idle = t.CloseIdleConnections
	l.tr = githttp.NewClient(&http.Client{Transport: t})
	return l
}

func (l *link) close() { l.idle() }

// open signs in and reads the server's refs.
func (l *link) open(ctx context.Context) (session, *packp.AdvRefs, error) {
	m, secrets, err := l.auth.method(l.url)
	l.red = newRedactor(secrets...)
	if err != nil {
		return nil, nil, l.classify(err)
	}
	ep, err := l.endpoint()
	if err != nil {
		return nil, nil, l.classify(err)
	}
	s, err := l.connect(ctx, ep, m)
	if err != nil {
		return nil, nil, l.classify(err)
	}
	adv, err := s.AdvertisedReferencesContext(ctx)
	if err != nil {
		_ = s.Close()
		return nil, nil, l.classify(err)
	}
	return s, adv, nil
}

// endpoint has no credentials in it: go-git's errors quote endpoints.
func (l *link) endpoint() (*transport.Endpoint, error) {
	if l.url.scheme == "ssh" {
		host, port := l.url.hostPort()
		return &transport.Endpoint{Protocol: "ssh", User: "git", Host: host, Port: port, Path: l.url.path}, nil
	}
	return transport.NewEndpoint(l.url.scheme + "://" + l.url.host + (&url.URL{Path: l.url.path}).EscapedPath())
}

// connect gives up when ctx ends. An ssh handshake cannot be interrupted, so it is left behind, one at a time.
func (l *link) connect(ctx context.Context, ep *transport.Endpoint, m transport.AuthMethod) (session, error) {
	if l.url.scheme != "ssh" {
		return l.tr.NewUploadPackSession(ep, m)
	}
	if l.slow != nil {
		select {
		case <-l.slow:
			l.slow = nil
		default:
			return nil, errors.New("the server has not answered an earlier connection yet")
		}
	}
	type result struct {
		s   session
		err error
	}
	got, left := make(chan result), make(chan struct{})
	ended := ctx.Done()
	go func() {
		defer close(left)
		s, err := l.tr.NewUploadPackSession(ep, m)
		select {
		case got <- result{s, err}:
		case <-ended:
			if err == nil {
				_ = s.Close()
			}
		}
	}()
	select {
	case r := <-got:
		return r.s, r.err
	case <-ended:
		l.slow = left
		return nil, ctx.Err()
	}
}

// fetch brings the commit and all it needs into st as one pack.
func (l *link) fetch(ctx context.Context, s session, adv *packp.AdvRefs, want plumbing.Hash, st *filesystem.Storage) error {
	req := packp.NewUploadPackRequestFromCapabilities(adv.Capabilities)
	if adv.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return l.classify(err)
		}
	}
	req.Wants = []plumbing.Hash{want}
	haves, err := haves(st)
	if err != nil {
		return err
	}
	req.Haves = haves
	resp, err := s.UploadPack(ctx, req)
	if err != nil {
		return l.classify(fmt.Errorf("asking for %s: %w", want, err))
	}
	defer resp.Close()
	var pack io.Reader = resp
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, resp)
	}
	if err := packfile.UpdateObjectStorage(st, pack); err != nil {
		return l.classify(fmt.Errorf("receiving %s: %w", want, err))
	}
	if _, err := st.EncodedObject(plumbing.AnyObject, want); err != nil {
		return fail(ErrCorrupt, "%s cannot be read after it was received", want)
	}
	return nil
}

// maxHaves bounds what is told the server: enough to find a common commit unless a branch jumped far back.
const maxHaves = 64

// haves lists commits of the clone, newest first.
func haves(st *filesystem.Storage) ([]plumbing.Hash, error) {
	iter, err := st.IterReferences()
	if err != nil {
		return nil, fail(ErrCorrupt, "refs of the clone: %w", err)
	}
	defer iter.Close()
	var out []plumbing.Hash
	seen := map[plumbing.Hash]bool{}
	err = iter.ForEach(func(ref *plumbing.Reference) error {
		h := ref.Hash()
		for range maxHaves {
			if ref.Type() != plumbing.HashReference || seen[h] || len(out) >= 8*maxHaves {
				return nil
			}
			c, err := object.GetCommit(st, h)
			if err != nil {
				return nil // a tag, or cut off: claim nothing
			}
			seen[h] = true
			out = append(out, h)
			if len(c.ParentHashes) == 0 {
				return nil
			}
			h = c.ParentHashes[0]
		}
		return nil
	})
	if err != nil {
		return nil, fail(ErrCorrupt, "refs of the clone: %w", err)
	}
	return out, nil
}

// classify says what kind of failure a transport error is and takes the credentials out of it.
func (l *link) classify(err error) error {
	if err == nil {
		return nil
	}
	var done *classified
	if errors.As(err, &done) {
		return err
	}
	kind := ErrUnavailable
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return ErrEmptyRepository
	case strings.Contains(err.Error(), "not our ref"): // a commit asked for by hash
		kind = ErrRefNotFound
	case errors.Is(err, transport.ErrRepositoryNotFound):
		kind = ErrNotRepository
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed),
		strings.Contains(err.Error(), "unable to authenticate"):
		err = fmt.Errorf("%w: %w", ErrAuth, err)
	}
	return &classified{kind: kind, err: l.red.clean(err)}
}

// advertised finds a ref among those a server has; "" and HEAD are its default branch.
func advertised(adv *packp.AdvRefs, name string) (tip, error) {
	if len(adv.References) == 0 && adv.Head == nil {
		return tip{}, ErrEmptyRepository
	}
	if h, ok := fullHash(name); ok {
		return tip{commit: h}, nil
	}
	all, err := adv.AllReferences()
	if err != nil {
		return tip{}, fail(ErrUnavailable, "the server's refs: %w", err)
	}
	if name == "" || name == "HEAD" {
		ref, err := storer.ResolveReference(all, plumbing.HEAD)
		if err != nil {
			return tip{}, fail(ErrRefNotFound, "the server's HEAD points at a branch that does not exist")
		}
		return tip{ref: ref.Name(), commit: ref.Hash()}, nil
	}
	if err := checkRefName(name); err != nil {
		return tip{}, err
	}
	for _, full := range refCandidates(name) {
		if ref, err := storer.ResolveReference(all, full); err == nil {
			return tip{ref: full, commit: ref.Hash()}, nil
		}
	}
	return tip{}, fail(ErrRefNotFound, "%q does not exist", name)
}
