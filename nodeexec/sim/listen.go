package sim

import (
	"context"
	"fmt"
	"slices"

	"astraeus.io/astraeus/schema"
)

// Listen makes something answer at a port of the machine's addresses: with an HTTP
// status, or not at all once the connection is there (0).
func (m *Machine) Listen(port, status int) {
	defer m.lock()()
	m.ports[port] = status
}

// Unlisten ends what Listen began.
func (m *Machine) Unlisten(port int) {
	defer m.lock()()
	delete(m.ports, port)
}

// Check asks as package health does, from this machine.
func (m *Machine) Check(ctx context.Context, c schema.CheckTarget) error {
	if err := m.o.Look("checks"); err != nil {
		return err
	}
	defer m.lock()()
	at := fmt.Sprintf("%s:%d", c.Address, c.Port)
	to := m
	if !slices.Contains(m.o.Addresses, c.Address) {
		if to, _ = m.net.at([]string{c.Address}); to == nil || m.away {
			return fmt.Errorf("%s: no route to it", at)
		}
	}
	status, open := to.ports[c.Port]
	switch {
	case !open:
		return fmt.Errorf("%s: connection refused", at)
	case c.HTTPPath == "" || status >= 200 && status < 400:
		return nil
	case status == 0:
		return fmt.Errorf("%s: no answer within %s", at, c.Timeout)
	}
	return fmt.Errorf("%s: HTTP %d", at, status)
}
