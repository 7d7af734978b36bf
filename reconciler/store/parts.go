package store

import (
	"reflect"
	"time"

	"astraeus.io/astraeus/schema"
)

// part is one piece of a report with a key of its own, so that a small change is
// a small write.
type part struct {
	name string
	// value is what is kept of a report, nil when the part is unknown.
	value func(*schema.MachineReport) any
	// read decodes a kept value into a report.
	read func(key string, data []byte, r *schema.MachineReport) error
	// material reports whether the change from old to new is worth a write (D-70).
	// Both reports know the part.
	material func(old, new *schema.MachineReport) bool
	// copy takes the part over from another report.
	copy func(to, from *schema.MachineReport)
}

var parts = []part{
	identityPart(),
	slicePart("filesystems", func(r *schema.MachineReport) *[]schema.Filesystem { return &r.Filesystems }, sameFilesystem),
	slicePart("data_locations", func(r *schema.MachineReport) *[]schema.DataLocationState { return &r.DataLocations }, sameLocation),
	slicePart("paths", func(r *schema.MachineReport) *[]schema.PathState { return &r.Paths }, equal),
	slicePart("copies", func(r *schema.MachineReport) *[]schema.Copy { return &r.Copies }, sameCopy),
	slicePart("exports", func(r *schema.MachineReport) *[]schema.Export { return &r.Exports }, equal),
	slicePart("mounts", func(r *schema.MachineReport) *[]schema.Mount { return &r.Mounts }, equal),
	slicePart("workers", func(r *schema.MachineReport) *[]schema.Worker { return &r.Workers }, equal),
	slicePart("measurements", func(r *schema.MachineReport) *[]schema.Measurement { return &r.Measurements }, sameMeasurement),
	slicePart("mount_series", func(r *schema.MachineReport) *[]schema.MountSeries { return &r.MountSeries }, sameSeries),
	slicePart("failures", func(r *schema.MachineReport) *[]schema.Failure { return &r.Failures }, equal),
	slicePart("checks", func(r *schema.MachineReport) *[]schema.CheckState { return &r.Checks }, equal),
	slicePart("problems", func(r *schema.MachineReport) *[]string { return &r.Problems }, equal),
}

var partByName = func() map[string]part {
	out := make(map[string]part, len(parts))
	for _, p := range parts {
		out[p.name] = p
	}
	return out
}()

// identity is what a machine says of itself and which assignment it works by. The
// sequence is left out: it moves with every report and orders them on the link only.
type identity struct {
	Address     string              `json:"address,omitempty"`
	Addresses   []string            `json:"addresses,omitempty"`
	BootID      string              `json:"boot_id,omitempty"`
	Incarnation string              `json:"incarnation,omitempty"`
	Epoch       int64               `json:"epoch,omitempty"`
	Applied     int64               `json:"applied,omitempty"`
	RDMA        []schema.RDMAPort   `json:"rdma,omitempty"`
	Resources   *schema.Resources   `json:"resources,omitempty"`
	Engine      *schema.EngineState `json:"engine,omitempty"`
	Network     *schema.NetworkPart `json:"network_mounts,omitempty"`
}

func identityOf(r *schema.MachineReport) identity {
	return identity{
		r.Address, r.Addresses, r.BootID, r.Incarnation, r.Epoch, r.Applied, r.RDMA, r.Resources, r.Engine, r.Network,
	}
}

func (i identity) to(r *schema.MachineReport) {
	r.Address, r.Addresses, r.BootID, r.Incarnation = i.Address, i.Addresses, i.BootID, i.Incarnation
	r.Epoch, r.Applied, r.RDMA, r.Resources, r.Engine, r.Network = i.Epoch, i.Applied, i.RDMA, i.Resources, i.Engine, i.Network
}

func identityPart() part {
	return part{
		name:  "machine",
		value: func(r *schema.MachineReport) any { return identityOf(r) },
		read: func(key string, data []byte, r *schema.MachineReport) error {
			var i identity
			if err := decode(key, data, &i); err != nil {
				return err
			}
			i.to(r)
			return nil
		},
		copy:     func(to, from *schema.MachineReport) { identityOf(from).to(to) },
		material: func(old, new *schema.MachineReport) bool { return !equal(identityOf(old), identityOf(new)) },
	}
}

func slicePart[T any](name string, field func(*schema.MachineReport) *[]T, same func(old, new T) bool) part {
	return part{
		name: name,
		value: func(r *schema.MachineReport) any {
			if list := *field(r); list != nil {
				return list
			}
			return nil
		},
		read: func(key string, data []byte, r *schema.MachineReport) error {
			list := []T{}
			err := decode(key, data, &list)
			*field(r) = list
			return err
		},
		copy: func(to, from *schema.MachineReport) { *field(to) = *field(from) },
		material: func(old, new *schema.MachineReport) bool {
			a, b := *field(old), *field(new)
			if len(a) != len(b) {
				return true
			}
			for i := range a {
				if !same(a[i], b[i]) {
					return true
				}
			}
			return false
		},
	}
}

func equal[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

const (
	sizeStep  = 1 << 30   // bytes that make a size's move material (D-70)
	stampStep = time.Hour // time that makes a stamp's move material
)

// near reports whether a size moved by at most 1 GiB, and at most 1 % of total
// when that is known (D-70).
func near(a, b, total int64) bool {
	moved := max(a-b, b-a)
	return moved <= sizeStep && (total <= 0 || moved <= total/100)
}

func nearTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return b.Sub(*a) < stampStep && a.Sub(*b) < stampStep
}

func sameFilesystem(a, b schema.Filesystem) bool {
	if !near(a.FreeBytes, b.FreeBytes, b.TotalBytes) || !near(a.UsedBytes, b.UsedBytes, b.TotalBytes) ||
		(a.FreeInodes == 0) != (b.FreeInodes == 0) {
		return false
	}
	a.FreeBytes, a.UsedBytes, a.FreeInodes = b.FreeBytes, b.UsedBytes, b.FreeInodes
	return a == b
}

func sameLocation(a, b schema.DataLocationState) bool {
	if !near(a.UsedBytes, b.UsedBytes, 0) || !near(a.FreeBytes, b.FreeBytes, 0) ||
		(a.UsedBytes < 0) != (b.UsedBytes < 0) || (a.FreeBytes < 0) != (b.FreeBytes < 0) {
		return false
	}
	a.UsedBytes, a.FreeBytes = b.UsedBytes, b.FreeBytes
	return a == b
}

func sameCopy(a, b schema.Copy) bool {
	if !near(a.Bytes, b.Bytes, 0) || !nearTime(a.LastUsed, b.LastUsed) || !equalTime(a.Created, b.Created) {
		return false
	}
	a.Bytes, a.Files, a.LastUsed, a.Created = b.Bytes, b.Files, b.LastUsed, b.Created
	return a == b
}

func equalTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func sameMeasurement(a, b schema.Measurement) bool {
	if !near(a.Bytes, b.Bytes, 0) || !near(a.FreeBytes, b.FreeBytes, 0) || !nearTime(&a.At, &b.At) {
		return false
	}
	a.Bytes, a.Files, a.FreeBytes, a.FreeInodes, a.At = b.Bytes, b.Files, b.FreeBytes, b.FreeInodes, b.At
	return a == b
}

// seriesStep is how much newer a series must be to be written again (D-83).
const seriesStep = 5 * time.Minute

// sameSeries: samples only ever follow, so the newest says whether there is news.
func sameSeries(a, b schema.MountSeries) bool {
	if a.Drive != b.Drive || a.UID != b.UID || a.Source != b.Source || (len(a.Samples) == 0) != (len(b.Samples) == 0) {
		return false
	}
	return len(b.Samples) == 0 || b.Samples[len(b.Samples)-1].At.Sub(a.Samples[len(a.Samples)-1].At) < seriesStep
}
