// Package link describes the service that joins a machine to the leading
// controller: one stream that the machine keeps open, reports going up,
// assignments coming down (design.md, "The store and the link").
//
// The messages are the types of package schema as JSON; there is no second set
// of types and no generated code. reconciler/link serves it, nodeexec calls it,
// and neither imports the other. A peer that speaks to the wrong kind of
// controller gets codes.FailedPrecondition with "not leader, try <address>".
package link

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"astraeus.io/astraeus/schema"
)

// ServiceName is the gRPC service; its one method is Connect.
const ServiceName = "astraeus.link.v1.Link"

// MachineHeader is the metadata key in which a machine names itself on a
// connection that carries no certificate (unix socket, in memory). With mutual
// TLS the certificate names the machine and this header is ignored.
const MachineHeader = "astraeus-machine"

// MaxMessage bounds one message in bytes, either way: a machine with 10,000 copies
// has 4 MB to report, and as much to be told.
const MaxMessage = 16 << 20

const codecName = "astraeus-json"

type codec struct{}

func (codec) Name() string                       { return codecName }
func (codec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (codec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func init() { encoding.RegisterCodec(codec{}) }

// ServerStream is the controller's end. Send and Recv may be used by one
// goroutine each at a time.
type ServerStream interface {
	Context() context.Context
	Send(*schema.Down) error
	Recv() (*schema.Up, error)
}

// ClientStream is the machine's end. Send and Recv may be used by one goroutine
// each at a time.
type ClientStream interface {
	Context() context.Context
	Send(*schema.Up) error
	Recv() (*schema.Down, error)
	CloseSend() error
}

// Server serves machines. Connect returns when the stream is over; closing it is
// how a machine is put off.
type Server interface {
	Connect(ServerStream) error
}

// Register adds the service to a gRPC server.
func Register(registrar grpc.ServiceRegistrar, server Server) {
	registrar.RegisterService(&serviceDesc, server)
}

var connectDesc = grpc.StreamDesc{
	StreamName:    "Connect",
	ServerStreams: true,
	ClientStreams: true,
	Handler: func(server any, stream grpc.ServerStream) error {
		return server.(Server).Connect(serverStream{stream})
	},
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: ServiceName,
	HandlerType: (*Server)(nil),
	Streams:     []grpc.StreamDesc{connectDesc},
	Metadata:    "schema/link/link.go",
}

// Connect opens the machine's stream. The context ends it.
func Connect(ctx context.Context, conn grpc.ClientConnInterface, opts ...grpc.CallOption) (ClientStream, error) {
	opts = append([]grpc.CallOption{grpc.CallContentSubtype(codecName), grpc.MaxCallRecvMsgSize(MaxMessage)}, opts...)
	stream, err := conn.NewStream(ctx, &connectDesc, "/"+ServiceName+"/Connect", opts...)
	if err != nil {
		return nil, fmt.Errorf("link: connect: %w", err)
	}
	return clientStream{stream}, nil
}

type serverStream struct{ grpc.ServerStream }

func (s serverStream) Send(m *schema.Down) error { return s.SendMsg(m) }

func (s serverStream) Recv() (*schema.Up, error) {
	m := new(schema.Up)
	if err := s.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

type clientStream struct{ grpc.ClientStream }

func (s clientStream) Send(m *schema.Up) error { return s.SendMsg(m) }

func (s clientStream) Recv() (*schema.Down, error) {
	m := new(schema.Down)
	if err := s.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}
