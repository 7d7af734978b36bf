package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"astraeus.io/astraeus/statusapi"
)

// Bounds of one answer.
const (
	clientTimeout = 30 * time.Second
	maxAnswer     = 256 << 20
)

// client reads one status API.
type client struct {
	base   serverURL
	http   *http.Client
	from   string // who named it: a flag, a variable or a lab's file
	bearer bearer
	// isLab: a lab wrote the address, and may be gone.
	isLab bool
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
	c.authorize(req)
	resp, err := c.http.Do(req)
	if err != nil && c.isLab && ctx.Err() == nil {
		return fmt.Errorf("the lab of %s does not answer (%w): start it, remove the file if it is gone, or give --server", c.from, err)
	}
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

func (c *client) authorize(r *http.Request) {
	if c.bearer != (bearer{}) {
		r.Header.Set("Authorization", "Bearer "+c.bearer.text)
	}
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

// maxRestarts is how often a list is begun again whose pages were not kept.
const maxRestarts = 3

// all reads every page of a list. Pages are of one moment; when that is gone, the
// list is read again from the start.
func all[T any](ctx context.Context, c *client, query url.Values, path ...string) ([]T, error) {
	if query == nil {
		query = url.Values{}
	}
	items, restarts := []T{}, 0
	for {
		var page statusapi.List[T]
		err := c.get(ctx, query, &page, path...)
		if gone := (*statusapi.Problem)(nil); errors.As(err, &gone) && gone.Status == http.StatusGone && restarts < maxRestarts {
			items, restarts = items[:0], restarts+1
			query.Del("continue")
			continue
		}
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Continue == "" {
			return items, nil
		}
		query.Set("continue", page.Continue)
	}
}
