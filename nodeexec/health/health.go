// Package health asks a worker whether it is well: one question of a health check,
// from the machine on which it is called, in the network namespace of the caller
// (N-1). It keeps nothing between two questions; how often they are asked and what
// follows from the answers is its caller's, package nodeexec.
package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"astraeus.io/astraeus/schema"
)

// Check asks once, within the check's timeout. A TCP check passes when the
// connection is accepted, an HTTP check when the answer to a GET is 2xx or 3xx;
// redirects are not followed and nothing of the body is read. The error's text says
// why it does not pass, in the same words each time, without what differs from one
// question to the next.
func Check(ctx context.Context, c schema.CheckTarget) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout.Std())
	defer cancel()
	at := net.JoinHostPort(c.Address, strconv.Itoa(c.Port))
	if c.HTTPPath == "" {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", at)
		if err != nil {
			return explain(err, at, c.Timeout.Std())
		}
		return conn.Close()
	}
	return get(ctx, c, at)
}

func get(ctx context.Context, c schema.CheckTarget, at string) error {
	asked, err := url.Parse("http://" + at + c.HTTPPath)
	if err != nil {
		return fmt.Errorf("the path %s cannot be asked for", c.HTTPPath)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "astraeus-health-check")
	// A connection of its own for each question: one that is kept would go on
	// answering for a listener that is gone.
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: 64 << 10}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return explain(err, at, c.Timeout.Std())
	}
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("%s: HTTP %d", at, answer.StatusCode)
	}
	return nil
}

func explain(err error, at string, timeout time.Duration) error {
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: connection refused", at)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%s: no answer within %s", at, timeout)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("%s: no route to it", at)
	case errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%s: the connection was reset", at)
	}
	return fmt.Errorf("%s: no answer that is understood", at)
}
