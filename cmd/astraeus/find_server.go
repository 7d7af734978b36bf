package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/gitsource"
)

// serverVariable names the status API for commands without --server.
const serverVariable = "ASTRAEUS_SERVER"

func serverFlag() cli.Flag {
	return &cli.StringFlag{Name: "server", Usage: "`URL` of the status API; default $" + serverVariable + ", or that of a lab started here"}
}

// server is the status API that a command line means.
func (e *environment) server(c *cli.Context) (*client, error) {
	server, err := e.findServer(c)
	if err == nil && server == nil {
		err = errors.New("no server: give --server URL, set " + serverVariable + ", or start a lab here")
	}
	return server, err
}

// findServer is the one look-up of all commands: --server, the environment, or a
// running lab of this place. Nil when there is none.
func (e *environment) findServer(c *cli.Context) (*client, error) {
	text, from, isLab := c.String("server"), "--server", false
	if text == "" {
		if c.IsSet("server") {
			return nil, errors.New("--server is empty: give a URL")
		}
		text, from = e.getenv(serverVariable), serverVariable
	}
	if text == "" {
		if text, from = e.labAddress(c.String("repo")); text == "" {
			return nil, nil
		}
		isLab = true
	}
	to, err := newClient(text, from, isLab)
	if err != nil {
		return nil, err
	}
	return to, e.access(c, to)
}

// newClient reads the status API at an address that somebody named.
func newClient(address, from string, isLab bool) (*client, error) {
	base, err := parseServerURL(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return &client{base: base, http: &http.Client{Timeout: clientTimeout}, from: from, isLab: isLab}, nil
}

// labAddress is what a running lab wrote, and the file: one of the repository
// that is asked about, or of the current directory or one above it.
func (e *environment) labAddress(repo string) (address, file string) {
	var dirs []string
	if u, err := gitsource.ParseURL(repo); repo != "" && err == nil && u.Local() {
		dirs = append(dirs, e.labOutside(u.String()))
	}
	here, err := os.Getwd()
	for err == nil {
		dirs = append(dirs, filepath.Join(here, labDir), e.labOutside(here))
		above := filepath.Dir(here)
		if above == here {
			break
		}
		here = above
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		file := filepath.Join(dir, "address")
		if data, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(data)), file
		}
	}
	return "", ""
}
