package link

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema/link"
)

// Operator carries out what operators ask for; the reconciler does.
type Operator interface {
	// Sync asks for a fetch and a pass; it returns at once.
	Sync()
	// Approve lets a commit through and returns its whole id once that is durable.
	Approve(ctx context.Context, commit, by string) (string, error)
	// Epoch says what a new epoch waits for, of how many machines; with begin it begins
	// without that.
	Epoch(ctx context.Context, begin bool, by string) (epoch int64, machines int, missing []string, err error)
}

// Operate serves operators on every listener that Serve is given from now on.
func (s *Server) Operate(o Operator) { s.operator = o }

// desk is the operators' service.
type desk struct{ *Server }

// Sync implements link.OperatorServer.
func (d desk) Sync(ctx context.Context, _ *link.SyncRequest) (*link.SyncReply, error) {
	if _, err := d.admit(ctx); err != nil {
		return nil, err
	}
	d.operator.Sync()
	return &link.SyncReply{}, nil
}

// Approve implements link.OperatorServer.
func (d desk) Approve(ctx context.Context, in *link.ApproveRequest) (*link.ApproveReply, error) {
	by, err := d.admit(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := d.operator.Approve(ctx, in.Commit, by)
	if err != nil {
		return nil, refusal(ctx, err)
	}
	return &link.ApproveReply{Commit: commit}, nil
}

// Epoch implements link.OperatorServer.
func (d desk) Epoch(ctx context.Context, in *link.EpochRequest) (*link.EpochReply, error) {
	by, err := d.admit(ctx)
	if err != nil {
		return nil, err
	}
	epoch, machines, missing, err := d.operator.Epoch(ctx, in.Begin, by)
	if err != nil {
		return nil, refusal(ctx, err)
	}
	return &link.EpochReply{Epoch: epoch, Machines: machines, Missing: missing}, nil
}

// refusal is what a person reads of an operator's error.
func refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// admit names the operator at the other end, and turns away who is none and who
// came to a controller that does not lead.
func (d desk) admit(ctx context.Context) (string, error) {
	by, err := operatorOf(ctx)
	if err != nil {
		return "", err
	}
	_, err = d.leading()
	return by, err
}

// operatorOf names who calls. A machine's certificate is no operator's, and only
// who may open the controller's socket needs none.
func operatorOf(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "the connection has no peer")
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		chains := info.State.VerifiedChains
		if len(chains) == 0 || len(chains[0]) == 0 {
			return "", status.Error(codes.Unauthenticated, "the certificate was not verified")
		}
		subject := chains[0][0].Subject
		if !slices.Contains(subject.OrganizationalUnit, OperatorUnit) {
			return "", status.Error(codes.PermissionDenied, "this call needs an operator's certificate")
		}
		return named(subject.CommonName), nil
	}
	if p.Addr == nil || !slices.Contains(bare, p.Addr.Network()) {
		return "", status.Error(codes.Unauthenticated, "an operator needs a certificate on this connection")
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return named(strings.Join(md.Get(link.OperatorHeader), " ")), nil
}

// maxOperator bounds a name that goes into the audit log.
const maxOperator = 100

// named is a name as it may stand in a log: printable and not long.
func named(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	if text = text[:min(len(text), maxOperator)]; text == "" {
		return "an operator without a name"
	}
	return text
}
