package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// embedded is an etcd of one member inside this process. It listens nowhere: its
// client calls it directly.
type embedded struct {
	etcd *embed.Etcd
	lock *os.File
}

// startEmbedded opens the store in dir, which it locks. Errors: ErrLocked, or what etcd says.
func startEmbedded(ctx context.Context, o Options) (*embedded, *clientv3.Client, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	etcd, err := boot(embedConfig(o))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("store: start: %w", err), lock.Close())
	}
	e := &embedded{etcd, lock}
	select {
	case <-etcd.Server.ReadyNotify():
		return e, v3client.New(etcd.Server), nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, nil, errors.Join(fmt.Errorf("store: start: %w", err), e.close())
}

// boot starts etcd, which panics where its files cannot be read or written: a full
// disk, or a file that something else wrote to.
func boot(cfg *embed.Config) (etcd *embed.Etcd, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("its files cannot be read or written: %v (the last log line says more)", cause)
		}
	}()
	return embed.StartEtcd(cfg)
}

func embedConfig(o Options) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "astraeus"
	cfg.Dir = filepath.Join(o.Dir, "etcd")
	cfg.ListenPeerUrls, cfg.ListenClientUrls = nil, nil
	// A member must have an address although nobody calls it.
	nowhere := url.URL{Scheme: "http", Host: "localhost:0"}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{nowhere}, []url.URL{nowhere}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// One member elects itself as soon as its timer fires.
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, "15m"
	cfg.QuotaBackendBytes = o.QuotaBytes
	cfg.MaxRequestBytes = 2 * MaxBatchBytes
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 10_000, 1_000
	cfg.UnsafeNoFsync = o.NoSync
	cfg.WarningApplyDuration, cfg.WarningUnaryRequestDuration = time.Second, time.Second
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(slogCore{o.Log}))
	return cfg
}

// lockDir keeps a second process out; etcd itself would wait for ever on its own file lock.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = fmt.Errorf("store: %s: %w", dir, err)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("store: %s: %w", dir, ErrLocked)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (e *embedded) close() error {
	e.etcd.Close()
	return e.lock.Close()
}
