package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
)

// reading opens what a command that reads a status API needs: where its result
// goes, in the format of --output, and the server.
func reading[V any](e *environment, c *cli.Context, open func(string, view.Out) (V, error)) (out V, server *client, err error) {
	if out, err = open(c.String("output"), e.out(c)); err != nil {
		return out, nil, err
	}
	server, err = e.server(c)
	return out, server, err
}

// tokenVariable names the file of a token for commands without --token-file.
const tokenVariable = "ASTRAEUS_TOKEN_FILE"

// accessFlags say how a server is asked; every command with --server has them.
func accessFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` with the token for the status API; default $" + tokenVariable},
		&cli.StringFlag{Name: "server-ca", Usage: "certificate authorities of the status API, PEM `FILE`; default is the system's"},
	}
}

// maxTokenFile bounds what is read of a file that may be the wrong one.
const maxTokenFile = 4 << 10

// bearer is a token that shows itself to the server alone.
type bearer struct{ text string }

func (bearer) String() string   { return "REDACTED" }
func (bearer) GoString() string { return "REDACTED" }

// bearer reads the token that a command line means, the zero one for none.
func (e *environment) bearer(c *cli.Context) (bearer, error) {
	name, from := c.String("token-file"), "--token-file"
	if name == "" {
		name, from = e.getenv(tokenVariable), tokenVariable
	}
	if name == "" {
		return bearer{}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return bearer{}, fmt.Errorf("%s: %w", from, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return bearer{}, fmt.Errorf("%s: %w", from, err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(data) > maxTokenFile || strings.ContainsAny(text, " \t\r\n\x00") {
		return bearer{}, fmt.Errorf("%s: %s does not hold one token", from, name)
	}
	return bearer{text}, nil
}

// access lets a client in: a token, and the authorities that it trusts. A token is
// sent over TLS or to this computer only.
func (e *environment) access(c *cli.Context, to *client) error {
	var err error
	if to.bearer, err = e.bearer(c); err != nil {
		return err
	}
	if to.bearer != (bearer{}) && to.base.Scheme != "https" && !local(to.base.Hostname()) {
		return errors.New("a token is sent with https only, or to this computer: the server's URL begins with http://")
	}
	if file := c.String("server-ca"); file != "" {
		pool, err := authorities(file)
		if err != nil {
			return fmt.Errorf("--server-ca: %w", err)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		to.http.Transport = transport
	}
	// Whoever redirects elsewhere does not get the token.
	to.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return nil
}

func local(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && net.IP(addr.AsSlice()).IsLoopback()
}
