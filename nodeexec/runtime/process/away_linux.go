package process

import (
	"os"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// StopsAway implements runtime.AwayStopper: the shims see to it, which outlive the agent.
func (e *Engine) StopsAway() bool { return true }

const awayReason = runtime.ReasonAway

func now() time.Duration { return runtime.Uptime() }

// contactEvery is how often a shim looks at the agent's contact.
const contactEvery = time.Second

func (c *shimConfig) contact() *runtime.Spec {
	return &runtime.Spec{StopIfAway: c.StopIfAway, Contact: os.NewFile(fdContact, "contact")}
}

// watchContact ends the worker when its machine had no controller for too long
// all its processes at once, and after the grace whatever is left.
func (s *shim) watchContact(contact *runtime.Spec) {
	for !contact.Away(now()) {
		time.Sleep(contactEvery)
	}
	s.away.Store(true)
	_ = unix.Kill(-1, unix.SIGTERM)
	time.Sleep(s.cfg.AwayGrace)
	for { // until reap sees the last one go, and the program ends
		_ = unix.Kill(-1, unix.SIGKILL)
		time.Sleep(contactEvery)
	}
}
