package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/statusapi"
)

// serverVariable names the status API for commands without --server.
const serverVariable = "ASTRAEUS_SERVER"

// labAddressFile is where a lab in its usual directory writes its status API's address.
const labAddressFile = ".lab/address"

// Bounds of one answer.
const (
	clientTimeout = 30 * time.Second
	maxAnswer     = 256 << 20
)

func serverFlag() cli.Flag {
	return &cli.StringFlag{Name: "server", Usage: "`URL` of the status API; default $" + serverVariable + ", or the lab's"}
}

// client reads one status API.
type client struct {
	base serverURL
	http *http.Client
}

// server is the status API that a command line means: --server, the environment,
// or a running lab's.
func (e *environment) server(c *cli.Context) (*client, error) {
	text := c.String("server")
	if text == "" {
		text = e.getenv(serverVariable)
	}
	if text == "" {
		data, _ := os.ReadFile(labAddressFile) // without a lab there is no file
		text = strings.TrimSpace(string(data))
	}
	if text == "" {
		return nil, errors.New("no server: give --server URL or set " + serverVariable)
	}
	base, err := parseServerURL(text)
	if err != nil {
		return nil, err
	}
	return &client{base: base, http: &http.Client{Timeout: clientTimeout}}, nil
}

// get decodes the answer at path into value. Unknown fields are let through: a
// newer server may say more.
func (c *client) get(ctx context.Context, query url.Values, value any, path ...string) error {
	u := c.base.JoinPath(escaped(path)...)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("status API: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("status API: %w", err)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("status API: the answer has more than %d bytes", maxAnswer)
	}
	if resp.StatusCode != http.StatusOK {
		return answerError(resp, body)
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("status API: %s: %w", u.Path, err)
	}
	return nil
}

func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, part := range path {
		out[i] = url.PathEscape(part)
	}
	return out
}

func answerError(resp *http.Response, body []byte) error {
	var p statusapi.Problem
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		return fmt.Errorf("%w (%d %s)", &p, p.Status, p.Code)
	}
	return fmt.Errorf("status API: %s", resp.Status)
}

// all reads every page of a list.
func all[T any](ctx context.Context, c *client, query url.Values, path ...string) ([]T, error) {
	if query == nil {
		query = url.Values{}
	}
	items := []T{}
	for {
		var page statusapi.List[T]
		if err := c.get(ctx, query, &page, path...); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Continue == "" {
			return items, nil
		}
		query.Set("continue", page.Continue)
	}
}
