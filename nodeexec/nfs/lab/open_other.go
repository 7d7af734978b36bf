//go:build !linux

package lab

import (
	"errors"

	"astraeus.io/astraeus/nodeexec/host"
)

func openExport(string) (*host.Dir, error) {
	return nil, errors.New("lab: network mounts need Linux")
}
