package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema/link"
)

// OperatorUnit is the organizational unit of operators' certificates. Such
// a certificate is no machine's.
const OperatorUnit = "astraeus-operator"

// Credentials are those of a listener for machines: mutual TLS 1.3 with the
// controller's certificate, every machine's verified against authorities.
func Credentials(certificate tls.Certificate, authorities *x509.CertPool) grpc.ServerOption {
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    authorities,
	}))
}

// bare are the networks on which a machine names itself: nobody else reaches them.
var bare = []string{"unix", "bufconn", "pipe"}

// identify names the machine at the other end.
func identify(ctx context.Context) (string, error) {
	name, err := claimed(ctx)
	if err == nil && (len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' })) {
		return "", status.Errorf(codes.InvalidArgument, "%q is no machine's name", name)
	}
	return name, err
}

func claimed(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "the connection has no peer")
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return certified(info.State)
	}
	if p.Addr == nil || !slices.Contains(bare, p.Addr.Network()) {
		return "", status.Error(codes.Unauthenticated, "a machine needs a certificate on this connection")
	}
	md, _ := metadata.FromIncomingContext(ctx)
	names := md.Get(link.MachineHeader)
	if len(names) != 1 || names[0] == "" {
		return "", status.Errorf(codes.Unauthenticated, "the connection names no machine: set %s once", link.MachineHeader)
	}
	return names[0], nil
}

// certified reads the machine's name from a verified certificate: its common
// name, or its only DNS name.
func certified(state tls.ConnectionState) (string, error) {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return "", status.Error(codes.Unauthenticated, "the certificate was not verified")
	}
	subject := state.VerifiedChains[0][0]
	if slices.Contains(subject.Subject.OrganizationalUnit, OperatorUnit) {
		return "", status.Error(codes.PermissionDenied, "an operator's certificate names no machine")
	}
	name := subject.Subject.CommonName
	if name == "" && len(subject.DNSNames) == 1 {
		name = subject.DNSNames[0]
	}
	if name == "" {
		return "", status.Error(codes.Unauthenticated, "the certificate names no machine: it has no common name and not one DNS name")
	}
	return name, nil
}
