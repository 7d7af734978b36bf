package process

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
)

// Descriptors a shim starts with, besides /dev/null as 0 and 1 and the log as
// 2. Sources of mounts follow from fdSources on.
const (
	fdConfig  = 3 // reads the config; its end means: look at the record
	fdReport  = 4 // writes reports
	fdRecord  = 5 // the record's directory
	fdLogs    = 6 // the log directory
	fdContact = 7 // the agent's contact file, or /dev/null
	fdSources = 8
)

// maxConfig bounds what a shim reads; config files are small.
const maxConfig = 16 << 20

// shimConfig is what the engine tells a shim. Both are the same program, so
// the format needs no version.
type shimConfig struct {
	ID       string
	Command  string
	Args     []string
	Env      []string
	WorkDir  string
	Hostname string
	Files    []runtime.File
	Mounts   []shimMount
	GPUs     []int
	// RootDir is the empty directory over which the new root is mounted.
	RootDir     string
	TmpfsBytes  int64
	LogMaxBytes int64
	StopIfAway  time.Duration
	AwayGrace   time.Duration
}

// shimMount is one mount. The descriptor is a detached mount when Path is "",
// else the verified source, to be compared with what is found at Path.
type shimMount struct {
	Target    string
	Path      string
	Dir       bool
	ReadOnly  bool
	Recursive bool
}

// shimReport is one step of a shim: Ready, then Started, or Error at any time.
type shimReport struct {
	Ready   bool   `json:",omitempty"`
	Started bool   `json:",omitempty"`
	Error   string `json:",omitempty"`
}

func sendConfig(w io.Writer, c shimConfig) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(body) > maxConfig {
		return fmt.Errorf("the config files are %d bytes together, above the limit of %d", len(body), maxConfig)
	}
	buf := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	_, err = w.Write(append(buf, body...))
	return err
}

func receiveConfig(r io.Reader) (c shimConfig, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return c, fmt.Errorf("reading the config: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxConfig {
		return c, fmt.Errorf("reading the config: %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return c, fmt.Errorf("reading the config: %w", err)
	}
	return c, json.Unmarshal(body, &c)
}
