package statusapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// maxConnections are served at a time; more wait to be accepted. One that sends
// nothing is closed after readHeaderTimeout.
const maxConnections = 8192

// Listening says how to listen.
type Listening struct {
	// Address is host:port.
	Address string
	// Cert and Key are PEM files; they are read again when they change. Without them
	// the address must be loopback's.
	Cert, Key string
	// Tokens says that callers need a token; without, the address must be loopback's.
	Tokens bool
}

// Listen opens a TCP listener. Beyond loopback it needs TLS and tokens.
func Listen(ctx context.Context, l Listening) (net.Listener, error) {
	host, _, err := net.SplitHostPort(l.Address)
	if err != nil {
		return nil, fmt.Errorf("status address %q: %w", l.Address, err)
	}
	secure := l.Cert != "" && l.Key != ""
	switch {
	case (l.Cert == "") != (l.Key == ""):
		return nil, errors.New("status API: a certificate and its key go together: give both")
	case !loopbackHost(host) && !secure:
		return nil, fmt.Errorf("status address %q is not loopback's: the status API is served there with TLS only; give a certificate and a key", l.Address)
	case !loopbackHost(host) && !l.Tokens:
		return nil, fmt.Errorf("status address %q is not loopback's: the status API is served there with tokens only; give a token file", l.Address)
	}
	var config *tls.Config
	if secure {
		pair := &keyPair{cert: l.Cert, key: l.Key}
		if _, err := pair.get(nil); err != nil {
			return nil, fmt.Errorf("status API: %w", err)
		}
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get, NextProtos: []string{"h2", "http/1.1"}}
	}
	var listen net.ListenConfig
	tcp, err := listen.Listen(ctx, "tcp", l.Address)
	if err != nil {
		return nil, err
	}
	limited := netutil.LimitListener(tcp, maxConnections)
	if config == nil {
		return limited, nil
	}
	return tls.NewListener(limited, config), nil
}

// keyPair is a certificate that follows its files.
type keyPair struct {
	cert, key string

	mu    sync.Mutex
	stamp [2]time.Time
	pair  *tls.Certificate
}

// get implements tls.Config.GetCertificate. Files that cannot be read leave the
// certificate that was read last.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var stamp [2]time.Time
	for i, file := range []string{k.cert, k.key} {
		if info, err := os.Stat(file); err == nil {
			stamp[i] = info.ModTime()
		}
	}
	if k.pair != nil && stamp == k.stamp {
		return k.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err == nil {
		k.pair, k.stamp = &pair, stamp
	}
	if k.pair == nil {
		return nil, err
	}
	return k.pair, nil
}

// loopbackHost takes "localhost" and loopback IP literals; a name that merely
// resolves to loopback today is not one of them.
func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// localRequest refuses names other than loopback's: a page on a name that was
// made to resolve here would otherwise read everything.
func localRequest(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopbackHost(host)
}
