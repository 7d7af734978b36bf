package statusapi

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// beyond loopback the API is served with TLS and tokens only.
func TestListenRefuses(t *testing.T) {
	cert, key, _ := certificate(t, "status.example")
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0"} {
		for want, l := range map[string]Listening{
			"TLS only":    {Address: address, Tokens: true},
			"tokens only": {Address: address, Cert: cert, Key: key},
		} {
			_, err := Listen(t.Context(), l)
			require.ErrorContains(t, err, want, address)
		}
	}
	for want, l := range map[string]Listening{
		"missing port": {Address: "localhost"}, `""`: {}, "give both": {Address: "127.0.0.1:0", Cert: cert},
		"no such file": {Address: "127.0.0.1:0", Cert: cert, Key: "/nowhere"},
	} {
		_, err := Listen(t.Context(), l)
		require.ErrorContains(t, err, want)
	}
	for _, l := range []Listening{{Address: "127.0.0.1:0"}, {Address: "localhost:0"}, {Address: "0.0.0.0:0", Cert: cert, Key: key, Tokens: true}} {
		opened, err := Listen(t.Context(), l)
		require.NoError(t, err)
		require.NoError(t, opened.Close())
	}
}

// certificate makes one for a name, and a client that trusts it.
func certificate(t *testing.T, name string) (certFile, keyFile string, trusting *http.Client) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(certFile, certPEM, 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certPEM))
	return certFile, keyFile, &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

// over serves a handler on a listener until the test ends.
func over(t *testing.T, h *Handler, l net.Listener, change func(*http.Server)) string {
	t.Helper()
	server := NewServer(h)
	if change != nil {
		change(server)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// with TLS and a token the API is reached under any name; a certificate that
// was replaced is used from the next connection on.
func TestServedWithTLS(t *testing.T) {
	certFile, keyFile, trusting := certificate(t, "status.example")
	h, secrets := scopedHandler(t, newStage(tenants()))
	l, err := Listen(t.Context(), Listening{Address: "127.0.0.1:0", Cert: certFile, Key: keyFile, Tokens: true})
	require.NoError(t, err)
	address := over(t, h, l, nil)
	get := func(client *http.Client, path string) (*http.Response, error) {
		r, err := http.NewRequest(http.MethodGet, "https://"+address+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+secrets["vic"])
		return client.Do(r)
	}
	resp, err := get(trusting, "/v1/drives")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []any{http.StatusOK, 2}, []any{resp.StatusCode, resp.ProtoMajor})
	resp, err = get(trusting, "/v1/drives?watch=1")
	require.NoError(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err, "a watch goes over HTTP/2 too")
	require.True(t, strings.HasPrefix(line, "id: "))
	require.NoError(t, resp.Body.Close())
	plain, err := http.Get("http://" + address + "/v1/drives")
	require.NoError(t, err)
	require.NoError(t, plain.Body.Close())
	require.Equal(t, http.StatusBadRequest, plain.StatusCode)

	newCert, newKey, newClient := certificate(t, "status.example")
	for from, to := range map[string]string{newCert: certFile, newKey: keyFile} {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, data, 0o600))
		require.NoError(t, os.Chtimes(to, time.Time{}, time.Now().Add(time.Minute)))
	}
	resp, err = get(newClient, "/v1/drives")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, os.WriteFile(certFile, []byte("broken"), 0o600))
	resp, err = get(newClient, "/v1/drives")
	require.NoError(t, err, "a broken file leaves the certificate that was read")
	require.NoError(t, resp.Body.Close())
}

func plainServer(t *testing.T, h *Handler, change func(*http.Server)) string {
	t.Helper()
	l, err := Listen(t.Context(), Listening{Address: "127.0.0.1:0"})
	require.NoError(t, err)
	return over(t, h, l, change)
}

// Half-open connections, and those that send slowly, are closed; others are
// answered meanwhile.
func TestHalfOpenConnections(t *testing.T) {
	limits := NewServer(serve(t, fixed{view: cluster()}))
	require.LessOrEqual(t, limits.ReadHeaderTimeout, 10*time.Second)
	address := plainServer(t, serve(t, fixed{view: cluster()}), func(s *http.Server) {
		require.Positive(t, s.ReadHeaderTimeout)
		s.ReadHeaderTimeout, s.ReadTimeout = 200*time.Millisecond, 200*time.Millisecond
	})
	var open []net.Conn
	for _, sent := range []string{"", "GET", "GET /v1/drives HTTP/1.1\r\n", "GET /v1/drives HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", "POST /v1/drives HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nab"} {
		for range 20 {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, sent)
			require.NoError(t, err)
			open = append(open, conn)
		}
	}
	resp, err := http.Get("http://" + address + "/v1/status")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for _, conn := range open {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err := io.ReadAll(conn)
		require.NoError(t, err, "the server closes it")
	}
	http.DefaultClient.CloseIdleConnections()
}

// Floods of headers and endless URLs are refused before they are looked at.
func TestFloods(t *testing.T) {
	address := plainServer(t, serve(t, fixed{view: cluster()}), nil)
	many := strings.Builder{}
	for i := range 4000 {
		fmt.Fprintf(&many, "X-Flood-%d: x\r\n", i)
	}
	for name, request := range map[string]string{
		"a long URL":    "GET /v1/drives/" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"a long query":  "GET /v1/drives?" + strings.Repeat("label=a&", 8<<10) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"many headers":  "GET /v1/drives HTTP/1.1\r\nHost: 127.0.0.1\r\n" + many.String() + "\r\n",
		"a long header": "GET /v1/drives HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
		"a long cookie": "GET /v1/drives HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " + strings.Repeat("a=b; ", 16<<10) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		go func() { _, _ = io.WriteString(conn, request) }()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode, name)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, conn.Close())
	}
	// As many parameters as fit are read, and one that nobody knows is named.
	resp, err := http.Get("http://" + address + "/v1/drives?" + strings.Repeat("label=a&", 1000) + "x=1")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

// A client that never reads its watch is dropped, and those who read are told
// everything meanwhile.
func TestWatcherThatNeverReads(t *testing.T) {
	source := newStage(cluster())
	h := serve(t, source)
	h.slowest = 100 * time.Millisecond
	server := httpServer(t, h)
	deaf, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = deaf.Close() })
	require.NoError(t, deaf.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = io.WriteString(deaf, "GET /v1/drives?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	require.NoError(t, err)
	l := listen(t, server, "/v1/drives?watch=1", "")
	l.until("synced")
	require.Eventually(t, func() bool { return h.hub.count() == 2 }, 10*time.Second, time.Millisecond)
	for i := 0; testutil.ToFloat64(h.metrics.dropped) == 0; i++ {
		require.Less(t, i, 300, "nobody was dropped")
		large := placedDrive()
		large.SizeHintBytes = int64(i + 1)
		o := object(schema.KindDrive, nsServing, "large", large)
		o.Metadata.Labels = map[string]string{"filler": strings.Repeat("x", 256<<10)}
		source.set(with(cluster(), o))
		h := l.next()
		require.Contains(t, []string{"added", "changed"}, h.event)
		require.Contains(t, h.data, fmt.Sprintf(`"size_hint_bytes":%d`, i+1))
	}
	require.Eventually(t, func() bool { return h.hub.count() == 1 }, 10*time.Second, time.Millisecond)
}
