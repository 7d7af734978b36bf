package main

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

// statePath is --state, or the usual place for whom the program runs as.
func (e *environment) statePath(c *cli.Context) (string, error) {
	switch dir := c.String("state"); {
	case dir != "":
		return dir, nil
	case os.Geteuid() == 0:
		return "/var/lib/astraeus-controller", nil // not the data folder's default
	case e.getenv("XDG_STATE_HOME") != "":
		return filepath.Join(e.getenv("XDG_STATE_HOME"), "astraeus"), nil
	case e.getenv("HOME") != "":
		return filepath.Join(e.getenv("HOME"), ".local", "state", "astraeus"), nil
	}
	return "", errors.New("give --state DIR: there is no home directory")
}

func socketPath(c *cli.Context, dir string) string {
	return cmp.Or(c.String("link-socket"), filepath.Join(dir, "link.sock"))
}

func authorities(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}
