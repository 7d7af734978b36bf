package link

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema/link"
)

// clerk notes what operators asked for.
type clerk struct {
	syncs    int
	approved []string
	err      error
	hang     bool
}

func (c *clerk) Sync() { c.syncs++ }

func (c *clerk) Approve(ctx context.Context, commit, by string) (string, error) {
	if c.hang {
		<-ctx.Done()
		return "", ctx.Err()
	}
	c.approved = append(c.approved, commit+" by "+by)
	return commit + "-whole", c.err
}

func (c *clerk) Epoch(_ context.Context, begin bool, by string) (int64, int, []string, error) {
	return 3, 5, []string{fmt.Sprint(begin, " by ", by)}, c.err
}

func refusedWith(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	require.Equal(t, code, status.Code(errors.Unwrap(err)), err)
	require.ErrorContains(t, err, text)
}

// on the controller's own socket an operator needs no certificate; only the
// leader answers.
func TestOperatorOnTheSocket(t *testing.T) {
	c := &clerk{}
	server := New(Options{})
	server.Operate(c)
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "link.sock"))
	require.NoError(t, err)
	t.Cleanup(server.Serve(socket))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Serve(tcp))
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn := dial(t, "unix:"+socket.Addr().String(), plain)

	server.Follow("elsewhere:1")
	refusedWith(t, link.Sync(t.Context(), conn), codes.FailedPrecondition, "not leader, try elsewhere:1")
	server.Lead(Term{ClusterUID: "uid", Epoch: 1})
	require.NoError(t, link.Sync(t.Context(), conn))
	require.Equal(t, 1, c.syncs)
	commit, err := link.Approve(metadata.AppendToOutgoingContext(t.Context(), link.OperatorHeader, "ada"+strings.Repeat("x", 500)), conn, "c1")
	require.NoError(t, err)
	require.Equal(t, "c1-whole", commit)
	require.Less(t, len(c.approved[0]), 150)
	_, err = link.Approve(t.Context(), conn, "c2")
	require.NoError(t, err)
	require.Equal(t, "c2 by an operator without a name", c.approved[1])
	reply, err := link.Epoch(metadata.AppendToOutgoingContext(t.Context(), link.OperatorHeader, "ada"), conn, true)
	require.NoError(t, err)
	require.Equal(t, link.EpochReply{Epoch: 3, Machines: 5, Missing: []string{"true by ada"}}, reply)
	c.err = errors.New("commit c2 does not wait")
	_, err = link.Epoch(t.Context(), conn, false)
	refusedWith(t, err, codes.FailedPrecondition, "does not wait")
	_, err = link.Approve(t.Context(), conn, "c2")
	refusedWith(t, err, codes.FailedPrecondition, "does not wait")
	c.hang = true
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = link.Approve(ctx, conn, "c2")
	refusedWith(t, err, codes.DeadlineExceeded, "")

	refusedWith(t, link.Sync(t.Context(), dial(t, tcp.Addr().String(), plain)), codes.Unauthenticated, "needs a certificate")
}

// over TCP an operator's certificate is needed; a machine's is not enough.
func TestOperatorCertificate(t *testing.T) {
	ours := newAuthority(t)
	c := &clerk{}
	server := New(Options{})
	server.Operate(c)
	server.Lead(Term{ClusterUID: "uid", Epoch: 1})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Serve(listener, Credentials(ours.issue(pkix.Name{CommonName: "controller"}, "controller"), ours.pool())))
	as := func(subject pkix.Name) *grpc.ClientConn {
		return dial(t, listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{ours.issue(subject)}, RootCAs: ours.pool(), ServerName: "controller",
		})))
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), link.OperatorHeader, "mallory")
	_, err = link.Approve(ctx, as(pkix.Name{CommonName: "gpu-01"}), "c1")
	refusedWith(t, err, codes.PermissionDenied, "needs an operator's certificate")
	require.Empty(t, c.approved)
	_, err = link.Approve(ctx, as(pkix.Name{CommonName: "ada", OrganizationalUnit: []string{OperatorUnit}}), "c1")
	require.NoError(t, err)
	require.Equal(t, []string{"c1 by ada"}, c.approved, "the certificate names the operator, the metadata does not")
}
