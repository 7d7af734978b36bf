package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema/link"
)

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key = a.newKey()
	c := a.template(pkix.Name{CommonName: "test authority"})
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	return key
}

func (a *authority) template(subject pkix.Name, names ...string) *x509.Certificate {
	a.next++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: subject, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

func (a *authority) issue(subject pkix.Name, names ...string) tls.Certificate {
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, a.template(subject, names...), a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// X-24 and design.md: the certificate names the machine; the metadata cannot.
func TestCertificateNamesTheMachine(t *testing.T) {
	ours := newAuthority(t)
	server := New(Options{})
	server.Lead(Term{ClusterUID: "uid", Epoch: 1})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Serve(listener, Credentials(ours.issue(pkix.Name{CommonName: "controller"}, "controller"), ours.pool())))
	r := &rig{Server: server, t: t}
	as := func(certificates ...tls.Certificate) *grpc.ClientConn {
		return dial(t, listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			Certificates: certificates, RootCAs: ours.pool(), ServerName: "controller",
		})))
	}
	connect(t, as(ours.issue(pkix.Name{CommonName: "gpu-01"})), "gpu-01").hello()
	r.connected("gpu-01")
	connect(t, as(ours.issue(pkix.Name{}, "gpu-02")), "gpu-02").hello()
	r.connected("gpu-02")

	// connect puts the second name into metadata and hello: the certificate wins.
	connect(t, as(ours.issue(pkix.Name{CommonName: "gpu-03"})), "gpu-01").hello().
		refused(codes.PermissionDenied, `machine "gpu-03" cannot speak for "gpu-01"`)
	connect(t, as(ours.issue(pkix.Name{CommonName: "gpu-01", OrganizationalUnit: []string{OperatorUnit}})), "gpu-01").hello().
		refused(codes.PermissionDenied, "an operator's certificate")
	connect(t, as(ours.issue(pkix.Name{}, "a", "b")), "a").hello().refused(codes.Unauthenticated, "names no machine")
}

func TestUnknownCertificatesAreRefused(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	server := New(Options{})
	server.Lead(Term{ClusterUID: "uid", Epoch: 1})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Serve(listener, Credentials(ours.issue(pkix.Name{CommonName: "controller"}, "controller"), ours.pool())))
	for _, certificates := range [][]tls.Certificate{nil, {foreign.issue(pkix.Name{CommonName: "gpu-01"})}} {
		conn := dial(t, listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			Certificates: certificates, RootCAs: ours.pool(), ServerName: "controller",
		})))
		stream, err := link.Connect(t.Context(), conn)
		if err == nil {
			_, err = stream.Recv()
		}
		require.Equal(t, codes.Unavailable, status.Code(err), err)
		require.Empty(t, server.Machines())
	}
}

// Without certificates a machine names itself on a unix socket only.
func TestBareConnections(t *testing.T) {
	server := New(Options{})
	server.Lead(Term{ClusterUID: "uid", Epoch: 1})
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "link.sock"))
	require.NoError(t, err)
	t.Cleanup(server.Serve(socket))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Serve(tcp))
	r := &rig{Server: server, t: t}
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connect(t, dial(t, "unix:"+socket.Addr().String(), plain), "m1").hello()
	r.connected("m1")
	connect(t, dial(t, "unix:"+socket.Addr().String(), plain), "").hello().refused(codes.Unauthenticated, "names no machine")
	connect(t, dial(t, "unix:"+socket.Addr().String(), plain), "a/b").hello().refused(codes.InvalidArgument, "no machine's name")
	connect(t, dial(t, tcp.Addr().String(), plain), "m2").hello().refused(codes.Unauthenticated, "needs a certificate")
}
