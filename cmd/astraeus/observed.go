package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// observedFile reads an observed state file. A misspelt field would read as
// "unknown", so unknown fields are refused.
func (e *environment) observedFile(name string) (schema.Observed, error) {
	var out schema.Observed
	data, err := e.readFile(name)
	if err != nil {
		return out, fmt.Errorf("--observed: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, fmt.Errorf("--observed %s: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return out, fmt.Errorf("--observed %s: there is something after the JSON value", name)
	}
	first := map[string]int{}
	for i, m := range out.Machines {
		if m == nil || m.Name == "" {
			return out, fmt.Errorf("--observed %s: machines[%d] has no name", name, i)
		}
		if at, twice := first[m.Name]; twice {
			return out, fmt.Errorf("--observed %s: machines[%d] and machines[%d] are both %q", name, at, i, m.Name)
		}
		first[m.Name] = i
	}
	return out, nil
}

// readFile reads a file, or standard input for "-".
func (e *environment) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(e.stdin)
	}
	return os.ReadFile(name)
}

func (c *client) accepted(ctx context.Context) (statusapi.Accepted, error) {
	var out statusapi.Accepted
	if err := c.get(ctx, nil, &out, "v1", "accepted"); err != nil {
		return out, err
	}
	if out.Version != statusapi.AcceptedVersion {
		return out, fmt.Errorf("status API: /v1/accepted has version %d, this program knows %d", out.Version, statusapi.AcceptedVersion)
	}
	return out, nil
}
