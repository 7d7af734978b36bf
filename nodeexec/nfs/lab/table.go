package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/google/renameio/v2/maybe"

	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/schema"
)

// tableVersion is in both tables; readers refuse others.
const tableVersion = 1

// exportEntry is one line of the export table. Device and Inode are what is
// exported, so that a client can tell it from an empty mount point.
type exportEntry struct {
	Drive     schema.Key  `json:"drive"`
	UID       string      `json:"uid"`
	Source    int         `json:"source"`
	Path      string      `json:"path"`
	Client    string      `json:"client"`
	Addresses []string    `json:"addresses"`
	Mode      schema.Mode `json:"mode"`
	Squash    string      `json:"squash,omitempty"`
	Device    uint64      `json:"device"`
	Inode     uint64      `json:"inode"`
}

func (e exportEntry) claim() nfs.Claim {
	return nfs.Claim{Drive: e.Drive, UID: e.UID, Source: e.Source, Client: e.Client}
}

func (e exportEntry) same(other exportEntry) bool { return reflect.DeepEqual(e, other) }

type exportTable []exportEntry

// index finds a claim, by uid, source and client machine.
func (t exportTable) index(c nfs.Claim) int {
	return slices.IndexFunc(t, func(e exportEntry) bool {
		return e.UID == c.UID && e.Source == c.Source && e.Client == c.Client
	})
}

func (t exportTable) with(c nfs.Claim, entry exportEntry) exportTable {
	out := slices.Clone(t)
	if at := t.index(c); at >= 0 {
		out[at] = entry
		return out
	}
	return append(out, entry)
}

// at finds the entry whose export directory is target.
func (t exportTable) at(workRoot, target string) *exportEntry {
	for i := range t {
		if t[i].claim().ExportDir(workRoot) == target {
			return &t[i]
		}
	}
	return nil
}

// mountEntry is one network mount of this machine.
type mountEntry struct {
	Drive  schema.Key  `json:"drive"`
	UID    string      `json:"uid"`
	Source int         `json:"source"`
	From   string      `json:"from"`
	Server string      `json:"server"`
	Export string      `json:"export"`
	Mode   schema.Mode `json:"mode"`
	Device uint64      `json:"device"`
	Inode  uint64      `json:"inode"`
}

// mountTable holds the mounts by mount point.
type mountTable map[string]mountEntry

type tableFile[T any] struct {
	Version int `json:"version"`
	Entries T   `json:"entries"`
}

func readExports(name string) (exportTable, error) { return readTable[exportTable](name) }

func writeExports(name string, t exportTable) error { return writeTable(name, t) }

// readTable reads a whole table; one that is not there is empty, one that
// cannot be read is an error and never empty.
func readTable[T any](name string) (T, error) {
	var file tableFile[T]
	body, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return file.Entries, nil
	}
	if err != nil {
		return file.Entries, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return file.Entries, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if file.Version != tableVersion {
		return file.Entries, fmt.Errorf("%s has version %d, this program knows %d", name, file.Version, tableVersion)
	}
	return file.Entries, nil
}

func writeTable[T any](name string, entries T) error {
	body, err := json.MarshalIndent(tableFile[T]{tableVersion, entries}, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o711); err != nil {
		return err
	}
	return maybe.WriteFile(name, body, 0o644)
}
