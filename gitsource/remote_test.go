package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// G-8
func TestFetchHTTP(t *testing.T) {
	r := newRepo(t)
	one := r.commit("a", "1")
	srv := serve(t, r)
	cache := t.TempDir()
	s := openTest(t, Options{URL: srv.url(""), CacheDir: cache})
	snap := fetch(t, s)
	require.Equal(t, one, snap.Commit)
	require.Equal(t, "refs/heads/main", snap.Ref)
	require.Same(t, snap, fetch(t, s))
	require.EqualValues(t, 1, srv.packs.Load(), "nothing moved, nothing is fetched")
	require.EqualValues(t, 2, srv.lists.Load())

	two := r.commit("b", "2")
	next := fetch(t, s)
	require.Equal(t, two, next.Commit)
	for _, sn := range []*Snapshot{snap, next} {
		data, err := fs.ReadFile(sn.FS(), "a")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	}
	yes, err := s.IsAncestor(testCtx(t), one, two)
	require.NoError(t, err)
	require.True(t, yes)

	// A restart goes on with the clone.
	require.NoError(t, s.Close())
	packs := srv.packs.Load()
	again := openTest(t, Options{URL: srv.url(""), CacheDir: cache})
	require.Equal(t, two, fetch(t, again).Commit)
	require.Equal(t, packs, srv.packs.Load())
}

func TestRemoteRefs(t *testing.T) { // G-5, G-6
	r := newRepo(t)
	one := r.commit("a", "1")
	r.git("tag", "-a", "v1", "-m", "x")
	r.git("branch", "prod")
	two := r.commit("a", "2")
	r.git("checkout", "-q", "-b", "other")
	three := r.commit("a", "3")
	r.git("checkout", "-q", "main")
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url(""), Ref: "prod"})
	require.Equal(t, one, fetch(t, s).Commit)
	for rev, want := range map[string]string{
		"main": two, "HEAD": two, "other~1": two, "v1": one, "other": three, three: three, "HEAD~1": one, one[:7]: one,
	} {
		snap, err := s.At(testCtx(t), rev)
		require.NoError(t, err, rev)
		require.Equal(t, want, snap.Commit, rev)
	}
	for _, rev := range []string{"nope", "HEAD~5", "../x", "0123456789012345678901234567890123456789"} {
		_, err := s.At(testCtx(t), rev)
		require.ErrorIs(t, err, ErrRefNotFound, rev)
	}
	tag := openTest(t, Options{URL: srv.url(""), Ref: "v1"})
	require.Equal(t, one, fetch(t, tag).Commit)
	r.git("branch", "-D", "prod")
	snap, err := s.Fetch(testCtx(t))
	require.Nil(t, snap)
	require.ErrorIs(t, err, ErrRefNotFound)
}

func TestRemoteEmptyThenFilled(t *testing.T) { // G-5
	r := newRepo(t)
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url("")})
	_, err := s.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrEmptyRepository)
	r.commit("a", "1")
	require.Equal(t, 1, fetch(t, s).Files)
	none := openTest(t, Options{URL: strings.TrimSuffix(srv.url(""), ".git") + "nothing.git"})
	_, err = none.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrNotRepository)
}

// G-5: rewritten history arrives as it is, and is told apart.
func TestForcePush(t *testing.T) {
	r := newRepo(t)
	one := r.commit("a", "1")
	two := r.commit("a", "2")
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url("")})
	require.Equal(t, two, fetch(t, s).Commit)
	r.git("reset", "-q", "--hard", one)
	forced := r.commit("a", "3")
	require.Equal(t, forced, fetch(t, s).Commit)
	yes, err := s.IsAncestor(testCtx(t), two, forced)
	require.NoError(t, err)
	require.False(t, yes)
	r.git("reset", "-q", "--hard", one)
	require.Equal(t, one, fetch(t, s).Commit, "moved back")
}

const token = "s3cr3t/t%ken+?x"

// noToken fails when any form of the token is in any text of an error or value.
func noToken(t *testing.T, v any) {
	t.Helper()
	texts := []string{everyForm(v)}
	if err, ok := v.(error); ok {
		for _, e := range unwrapAll(err) {
			texts = append(texts, everyForm(e), e.Error())
		}
	}
	for _, text := range texts {
		for _, form := range newRedactor(token, "git:"+token) {
			require.NotContains(t, text, form)
		}
		require.NotContains(t, text, "s3cr3t")
	}
}

func unwrapAll(err error) []error {
	out := []error{err}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if e.Unwrap() != nil {
			out = append(out, unwrapAll(e.Unwrap())...)
		}
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			out = append(out, unwrapAll(sub)...)
		}
	}
	return out
}

// G-5, G-8: an outage or an expired token is an error without the token in it, and is over as soon as it is over.
func TestOutageAndTokens(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	srv := serve(t, r)
	srv.set(func() { srv.user, srv.pass = "git", token })
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	for name, opt := range map[string]Options{
		"in the URL": {URL: srv.url("git:" + url.QueryEscape(token))},
		"as options": {URL: srv.url(""), Auth: Auth{Password: token}},
		"in a file":  {URL: srv.url("ignored:gone"), Auth: Auth{Username: "git", TokenFile: file}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, opt)
			noToken(t, s.URL())
			snap := fetch(t, s)
			for _, status := range []int{500, 503, 401, 403, 404, 302} {
				srv.set(func() { srv.fail = status })
				got, err := s.Fetch(testCtx(t))
				require.Nil(t, got)
				require.Error(t, err, status)
				noToken(t, err)
				var e *Error
				require.ErrorAs(t, err, &e)
				if status == 404 {
					require.ErrorIs(t, err, ErrNotRepository)
				} else {
					require.ErrorIs(t, err, ErrUnavailable, status)
					require.True(t, e.Temporary())
				}
				require.Equal(t, status == 401 || status == 403, errors.Is(err, ErrAuth), status)
				_, err = s.At(testCtx(t), "main")
				noToken(t, err)
				require.Error(t, err)
				data, err := fs.ReadFile(snap.FS(), "a")
				require.NoError(t, err, "what was fetched stays readable")
				require.Equal(t, "1", string(data))
			}
			srv.set(func() { srv.fail = 0 })
			require.Same(t, snap, fetch(t, s))
		})
	}
	s := openTest(t, Options{URL: srv.url(""), Auth: Auth{TokenFile: file}})
	require.NoError(t, os.WriteFile(file, []byte("expired"), 0o600))
	_, err := s.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrAuth)
	require.NotContains(t, everyForm(err), "expired")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	fetch(t, s)

	srv.CloseClientConnections()
	srv.Close()
	down := openTest(t, Options{URL: srv.url("git:" + url.QueryEscape(token))})
	_, err = down.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrUnavailable)
	noToken(t, err)
}

// A burst of calls costs the fetch that runs and one more: those that came meanwhile share it, and see what was pushed
// before they called.
func TestConcurrentFetch(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url("")})
	ctx := testCtx(t)
	block := make(chan struct{})
	srv.set(func() { srv.block = block })
	var wg sync.WaitGroup
	call := func(got **Snapshot) {
		snap, err := s.Fetch(ctx)
		if err != nil {
			t.Error(err)
		}
		*got = snap
		wg.Done()
	}
	var first *Snapshot
	wg.Add(1)
	go call(&first)
	waitSeen(ctx, t, srv)
	const n = 100
	late := make([]*Snapshot, n)
	wg.Add(n)
	for i := range late {
		// join is what Fetch does before it waits; calling it here makes the order certain.
		f, err := s.join()
		require.NoError(t, err)
		go func() {
			<-f.done
			call(&late[i])
		}()
	}
	s.mu.Lock()
	require.NotNil(t, s.next, "all of them wait for one")
	s.mu.Unlock()
	srv.set(func() { srv.block = nil })
	close(block)
	wg.Wait()
	require.LessOrEqual(t, srv.packs.Load(), int64(1))
	for _, snap := range late {
		require.Same(t, first, snap)
	}
}

func TestFetchIsShared(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url("")})
	ctx := testCtx(t)
	block := make(chan struct{})
	srv.set(func() { srv.block = block })
	f1, err := s.join()
	require.NoError(t, err)
	waitSeen(ctx, t, srv)
	two := r.commit("a", "2")
	f2, err := s.join()
	require.NoError(t, err)
	for range 100 {
		f, err := s.join()
		require.NoError(t, err)
		require.Same(t, f2, f)
	}
	require.NotSame(t, f1, f2)
	close(block)
	<-f2.done
	require.NoError(t, f2.err)
	require.Equal(t, two, f2.snap.Commit, "a caller sees what was pushed before its call")
	require.EqualValues(t, 2, srv.lists.Load(), "102 calls, two fetches")

	// A caller that gives up does not take the fetch away from the others.
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Fetch(gone)
	require.ErrorIs(t, err, context.Canceled)
	fetch(t, s)
}

func TestRedirectKeepsTokenHome(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	srv := serve(t, r)
	leak := make(chan string, 10)
	thief := serveFunc(t, func(w http.ResponseWriter, req *http.Request) {
		leak <- req.Header.Get("Authorization")
		http.Error(w, "no", http.StatusForbidden)
	})
	front := serveFunc(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, strings.Replace(thief, "127.0.0.1", "localhost", 1)+req.URL.String(), http.StatusFound)
	})
	s := openTest(t, Options{URL: front + "/.git", Auth: Auth{Password: token}})
	_, err := s.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrUnavailable)
	noToken(t, err)
	close(leak)
	for got := range leak {
		require.Empty(t, got)
	}
	_ = srv
}

func TestPacksAreMerged(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "0")
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url(""), MaxPacks: 3})
	first := fetch(t, s)
	for i := range 12 {
		want := r.commit("a", fmt.Sprint(i+1))
		snap := fetch(t, s)
		require.Equal(t, want, snap.Commit)
		data, err := fs.ReadFile(snap.FS(), "a")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i+1), string(data))
		require.LessOrEqual(t, countPacks(s.back.(*remote).dir), 3)
	}
	data, err := fs.ReadFile(first.FS(), "a")
	require.NoError(t, err)
	require.Equal(t, "0", string(data))
	require.EqualValues(t, 13, srv.packs.Load(), "merging needs no server")
	hist, err := s.History(testCtx(t), "a", 0)
	require.NoError(t, err)
	require.Len(t, hist, 13)

	// A rewritten history leaves nothing of the old one after merging; reading an old snapshot then is an error that
	// does not make the clone a damaged one.
	old := fetch(t, s)
	r.git("reset", "-q", "--hard", "HEAD~5")
	for i := range 5 {
		r.commit("a", fmt.Sprint("other", i))
		fetch(t, s)
	}
	_, err = fs.ReadFile(old.FS(), "a")
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt)
	}
	require.False(t, s.broken)
}

// A big file comes over the network and is refused by who reads it.
func TestBigFileHTTP(t *testing.T) {
	r := newRepo(t)
	big := make([]byte, 50_000_000)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "big"), big, 0o644))
	r.commit("small", "1")
	srv := serve(t, r)
	snap := fetch(t, openTest(t, Options{URL: srv.url("")}))
	info, err := fs.Stat(snap.FS(), "big")
	require.NoError(t, err)
	require.EqualValues(t, len(big), info.Size())
	_, err = fs.ReadFile(snap.FS(), "big")
	require.ErrorIs(t, err, ErrTooLarge)
	data, err := fs.ReadFile(snap.FS(), "small")
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
}
