package link

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
)

// OperatorServiceName is the gRPC service of the calls that are not reading.
// Its methods are Sync, Approve and Epoch, and only an operator's certificate or the
// controller's own unix socket may call them.
const OperatorServiceName = "astraeus.link.v1.Operator"

// OperatorHeader is the metadata key in which an operator names itself on a unix
// socket. With mutual TLS the certificate names the operator.
const OperatorHeader = "astraeus-operator"

// SyncRequest asks for a fetch and a pass now.
type SyncRequest struct{}

// SyncReply says that they were asked for.
type SyncReply struct{}

// ApproveRequest lets a commit through. Commit is its id, or the first seven digits or more.
type ApproveRequest struct {
	Commit string `json:"commit"`
}

// ApproveReply says which commit was approved; the approval is durable.
type ApproveReply struct {
	Commit string `json:"commit"`
}

// EpochRequest asks what a new epoch waits for. With Begin it begins without that.
type EpochRequest struct {
	Begin bool `json:"begin,omitempty"`
}

// EpochReply says how far the new epoch is. Missing are sentences; with Begin, what
// it did not wait for.
type EpochReply struct {
	Epoch    int64    `json:"epoch"`
	Machines int      `json:"machines"`
	Missing  []string `json:"missing,omitempty"`
}

// OperatorServer carries out what operators ask for.
type OperatorServer interface {
	Sync(context.Context, *SyncRequest) (*SyncReply, error)
	Approve(context.Context, *ApproveRequest) (*ApproveReply, error)
	Epoch(context.Context, *EpochRequest) (*EpochReply, error)
}

// RegisterOperator adds the operators' service to a gRPC server.
func RegisterOperator(registrar grpc.ServiceRegistrar, server OperatorServer) {
	registrar.RegisterService(&operatorDesc, server)
}

var operatorDesc = grpc.ServiceDesc{
	ServiceName: OperatorServiceName,
	HandlerType: (*OperatorServer)(nil),
	Methods: []grpc.MethodDesc{
		method("Sync", OperatorServer.Sync), method("Approve", OperatorServer.Approve),
		method("Epoch", OperatorServer.Epoch),
	},
	Metadata: "schema/link/operator.go",
}

// method describes a call with one message in and one out.
func method[In, Out any](name string, call func(OperatorServer, context.Context, *In) (*Out, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(server any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, err
		}
		if intercept == nil {
			return call(server.(OperatorServer), ctx, in)
		}
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + OperatorServiceName + "/" + name}
		return intercept(ctx, in, info, func(ctx context.Context, in any) (any, error) {
			return call(server.(OperatorServer), ctx, in.(*In))
		})
	}}
}

// Sync asks the leading controller for a fetch and a pass. Errors are gRPC
// statuses: FailedPrecondition from one that does not lead.
func Sync(ctx context.Context, conn grpc.ClientConnInterface) error {
	return invoke(ctx, conn, "Sync", &SyncRequest{}, &SyncReply{})
}

// Approve lets a commit through and returns its whole id. Errors are gRPC
// statuses: FailedPrecondition when the controller does not lead or the commit
// does not wait for approval.
func Approve(ctx context.Context, conn grpc.ClientConnInterface, commit string) (string, error) {
	var reply ApproveReply
	err := invoke(ctx, conn, "Approve", &ApproveRequest{Commit: commit}, &reply)
	return reply.Commit, err
}

// Epoch asks what a new epoch waits for; with begin it begins without that.
// Errors are gRPC statuses: FailedPrecondition when the controller does not lead, or
// no new epoch is beginning.
func Epoch(ctx context.Context, conn grpc.ClientConnInterface, begin bool) (EpochReply, error) {
	var reply EpochReply
	err := invoke(ctx, conn, "Epoch", &EpochRequest{Begin: begin}, &reply)
	return reply, err
}

func invoke(ctx context.Context, conn grpc.ClientConnInterface, name string, in, out any) error {
	if err := conn.Invoke(ctx, "/"+OperatorServiceName+"/"+name, in, out, grpc.CallContentSubtype(codecName)); err != nil {
		return fmt.Errorf("link: %s: %w", name, err)
	}
	return nil
}
