package link_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

type echo struct{}

func (echo) Connect(s link.ServerStream) error {
	up, err := s.Recv()
	if err != nil {
		return err
	}
	return s.Send(&schema.Down{
		Assignment: &schema.Assignment{Machine: up.Hello.Machine, Revision: 7},
		Blobs:      map[string][]byte{"h": {0, 255}},
	})
}

func TestMessagesAreTheSchemaTypes(t *testing.T) {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	link.Register(server, echo{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })

	stream, err := link.Connect(t.Context(), conn)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&schema.Up{Hello: &schema.Hello{Machine: "gpu-01"}}))
	down, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "gpu-01", down.Assignment.Machine)
	require.Equal(t, int64(7), down.Assignment.Revision)
	require.Equal(t, []byte{0, 255}, down.Blobs["h"])
}
