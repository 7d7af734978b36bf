//go:build !linux

package process

import (
	"errors"

	"astraeus.io/astraeus/nodeexec/runtime"
)

// ErrNeedsLinux is what New returns on other systems.
var ErrNeedsLinux = errors.New("the process engine needs Linux")

// Engine does not exist here; the type lets callers compile.
type Engine struct{ runtime.Engine }

// New returns ErrNeedsLinux.
func New(o Options) (*Engine, error) {
	if _, err := o.withDefaults(); err != nil {
		return nil, err
	}
	return nil, ErrNeedsLinux
}

// MaybeShim does nothing here.
func MaybeShim() {}

// ShimMain returns 1: there is no shim here.
func ShimMain() int { return 1 }
