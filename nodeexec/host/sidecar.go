package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// Names of our files on a machine's disks. They are a format: old ones stay readable.
const (
	markerName  = ".astraeus-data.json" // in a data location
	drivesName  = "drives"              // in a data location: the copies
	metaName    = ".astraeus"           // in drives: <drive>.json
	trashName   = "trash"               // in .astraeus: <uid>-<n>, with <uid>-<n>.json
	recordName  = "data-locations.json" // in the state directory
	fileVersion = 1                     // of sidecar, marker and record
	jsonSuffix  = ".json"
)

// sidecar says whose copy lies beside it.
type sidecar struct {
	Version          int        `json:"version"`
	ClusterUID       string     `json:"cluster_uid"`
	Drive            string     `json:"drive"` // "<namespace>.<name>"
	DriveUID         string     `json:"drive_uid"`
	FilledGeneration int64      `json:"filled_generation"`
	Created          time.Time  `json:"created"`
	LastUsed         *time.Time `json:"last_used"`
}

// marker binds a data location to the filesystem of its first use.
type marker struct {
	Version    int       `json:"version"`
	ClusterUID string    `json:"cluster_uid"`
	FSID       string    `json:"fs_id"`
	Created    time.Time `json:"created"`
}

// record is the agent's own memory of the data locations, so that a disk that
// is not there is missed, and its copies known by name.
type record struct {
	Version    int                       `json:"version"`
	ClusterUID string                    `json:"cluster_uid"`
	Locations  map[string]locationRecord `json:"locations"` // by host path
}

type locationRecord struct {
	FSID    string            `json:"fs_id"`
	Created time.Time         `json:"created"`
	Copies  map[string]string `json:"copies,omitempty"` // drive uid -> "<namespace>.<name>"
}

func parseSidecar(data []byte) (sidecar, error) {
	var s sidecar
	if err := decodeStrict(data, &s); err != nil {
		return sidecar{}, err
	}
	switch {
	case s.ClusterUID == "" || !validUID(s.DriveUID) || !validDrive(s.Drive):
		return sidecar{}, fmt.Errorf("%w: it does not say whose it is", ErrDamaged)
	case s.FilledGeneration < 0:
		return sidecar{}, fmt.Errorf("%w: a negative generation", ErrDamaged)
	}
	return s, nil
}

func parseMarker(data []byte) (marker, error) {
	var m marker
	if err := decodeStrict(data, &m); err != nil {
		return marker{}, err
	}
	if m.ClusterUID == "" || m.FSID == "" {
		return marker{}, fmt.Errorf("%w: it does not say whose it is", ErrDamaged)
	}
	return m, nil
}

func parseRecord(data []byte) (record, error) {
	var r record
	if err := decodeStrict(data, &r); err != nil {
		return record{}, err
	}
	if r.ClusterUID == "" {
		return record{}, fmt.Errorf("%w: it does not say whose it is", ErrDamaged)
	}
	return r, nil
}

// decodeStrict looks at the version first: a newer file has fields that are
// unknown here, and is not damaged.
func decodeStrict(data []byte, into any) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case head.Version > fileVersion:
		return fmt.Errorf("%w (%d)", ErrNewerFormat, head.Version)
	case head.Version < 1:
		return fmt.Errorf("%w: no version", ErrDamaged)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value", ErrDamaged)
	}
	return nil
}

func encode(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // none of these types can fail
	}
	return append(data, '\n')
}

// validDrive reports whether a drive's scoped name can be a directory of ours.
func validDrive(name string) bool {
	return name != "" && len(name) <= 240 && name[0] != '.' && !strings.ContainsAny(name, "/\x00\n")
}

// validUID reports whether a uid can be part of a file's name.
func validUID(uid string) bool {
	if uid == "" || len(uid) > 128 || uid[0] == '.' {
		return false
	}
	for _, r := range uid {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return false
		}
	}
	return true
}

func copyName(drive schema.Key, uid string) (string, error) {
	name := drive.Scoped()
	if drive.Kind != schema.KindDrive || drive.Namespace == "" || !validDrive(name) || !validUID(uid) {
		return "", &PathError{drive.String(), fmt.Errorf("%w: not a drive (uid %q)", ErrBadPath, uid)}
	}
	return name, nil
}
