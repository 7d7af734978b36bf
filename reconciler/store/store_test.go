package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

//
func TestIdentityIsKeptAndEpochGrows(t *testing.T) {
	dir := t.TempDir()
	reopen := func(newEpoch bool) Meta {
		s, err := Open(t.Context(), Options{Cluster: "c", Dir: dir, NewEpoch: newEpoch})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		require.Equal(t, s.Meta(), load(t, s).Meta)
		return s.Meta()
	}
	first := reopen(false)
	require.Equal(t, int64(1), first.Epoch)
	require.Len(t, first.ClusterUID, 32)
	require.Equal(t, first, reopen(false))
	again := reopen(true)
	require.Equal(t, first.ClusterUID, again.ClusterUID)
	require.Equal(t, int64(2), again.Epoch)
}

func TestSecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	open(t, func(o *Options) { o.Dir = dir })
	_, err := Open(t.Context(), Options{Cluster: "test", Dir: dir})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, dir)
}

// A controller that was killed leaves its key; the next one on the same directory
// must not wait for the lease.
func TestRestartDoesNotWaitForTheDeadLeader(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Options{Cluster: "c", Dir: dir})
	require.NoError(t, err)
	_, err = s.Campaign(t.Context(), "old")
	require.NoError(t, err)
	require.NoError(t, s.Close()) // the lease lives on

	s = open(t, func(o *Options) { o.Dir, o.Cluster = dir, "c" })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	l, err := s.Campaign(ctx, "new")
	require.NoError(t, err)
	l.Resign(t.Context())
}

func TestExternalStore(t *testing.T) {
	endpoint := external(t)
	s := open(t, func(o *Options) { o.Dir, o.Endpoints = "", []string{endpoint} })
	l := lead(t, s)
	st, err := l.Commit(t.Context(), many(3, "c1"))
	require.NoError(t, err)
	other := open(t, func(o *Options) { o.Dir, o.Endpoints = "", []string{endpoint} })
	require.Equal(t, st.Accepted, load(t, other).Accepted)
	address, err := other.LeaderAddress(t.Context())
	require.NoError(t, err)
	require.Equal(t, "here:1", address)
}

// external runs an etcd that listens on a unix socket, as a cluster of its own.
func external(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	socket := url.URL{Scheme: "unix", Path: filepath.Join(dir, "etcd.sock")}
	cfg := embedConfig(Options{Dir: dir, QuotaBytes: 1 << 30, NoSync: true})
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{socket}, []url.URL{socket}
	etcd, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	return socket.String()
}

func TestCorruptValuesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, want string }{
		"not JSON":        {"accepted/drive/ws-1.a", "{", "unexpected EOF"},
		"unknown field":   {"accepted/drive/ws-1.a", `{"format":1,"value":{"uid":"u","colour":1}}`, `unknown field "colour"`},
		"inside the spec": {"accepted/drive/ws-1.a", `{"format":1,"value":{"uid":"u","object":{"key":"drive/ws-1.a","spec":{"colour":1}}}}`, `unknown field "colour"`},
		"no uid":          {"accepted/drive/ws-1.a", `{"format":1,"value":{"uid":"","object":null}}`, "no object or no uid"},
		"a refusal":       {"refused/drive/ws-1.a", `{"format":1,"value":{"candidate":{"key":"drive/ws-1.a","spec":{"colour":1}}}}`, `unknown field "colour"`},
		"no format":       {"placed/ws-1.a", `{"value":{}}`, "no format"},
		"a bad reference": {"accepted/thing/ws-1.a", `{"format":1,"value":{}}`, "object reference"},
		"a part":          {"observed/m1/colours", `{"format":1,"value":[]}`, `no part "colours"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			_, err := s.client.Put(t.Context(), s.keys.root+tc.key, tc.value)
			require.NoError(t, err)
			_, err = s.Load(t.Context())
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "/astraeus/test/"+tc.key)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	s := open(t)
	_, err := s.client.Put(t.Context(), s.keys.single(areaHead), `{"format":2,"value":{"x":1}}`)
	require.NoError(t, err)
	_, err = s.Load(t.Context())
	require.ErrorIs(t, err, ErrNewerFormat)
	require.ErrorContains(t, err, "/astraeus/test/head")
}

func TestSecretsAreNotShown(t *testing.T) {
	const word = "hunter2"
	o := Options{Cluster: "c", Username: "u", Password: word}
	data, err := json.Marshal(o.Password)
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "options", o, "password", o.Password)
	for _, text := range []string{string(data), fmt.Sprintf("%v %+v %#v %s %q %d %x", o, o, o, o.Password, o.Password, o.Password, o.Password), log.String()} {
		require.NotContains(t, text, word)
	}
	_, err = Open(t.Context(), Options{Cluster: "c", Endpoints: []string{"http://u:" + word + "@127.0.0.1:1"}})
	require.ErrorContains(t, err, "endpoint 1 carries credentials")
	require.NotContains(t, err.Error(), word)
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Dir: "x"}, {Cluster: "a/b", Dir: "x"}, {Cluster: "a"}} {
		_, err := Open(t.Context(), o)
		require.Error(t, err)
	}
}

// etcd panics where it cannot read or write its files, which is an error here. G-12
func TestEtcdThatCannotStartIsAnError(t *testing.T) {
	etcd, err := boot(nil) // anything that makes it panic
	require.Nil(t, etcd)
	require.ErrorContains(t, err, "cannot be read or written")
}
