package planner

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

// EvictPin is how long a new copy that nothing has used yet is left alone, so
// that it is not the first to go because it was "never used" (X-18,
// kubernetes#123631). A worker that is to use it pins it for longer: see
// EvictCopy.Used.
const EvictPin = 10 * time.Minute

// EvictInput is what Evict judges one machine by. Nothing of it is changed.
type EvictInput struct {
	Policy schema.EvictionPolicy
	// MaxBytes is the limit of the present data location, 0 for none.
	MaxBytes int64
	// Filesystems carry the numbers of now; -1 is unknown. Evicting says that
	// eviction has begun there and has not reached the stop mark yet.
	Filesystems []schema.Filesystem
	Copies      []EvictCopy
	Now         time.Time
}

// EvictCopy is one copy on the machine, or former copy: State Trash is one whose
// bytes are on their way out, Bytes -1 is unknown.
type EvictCopy struct {
	schema.Copy
	Present   bool // it lies in the present data location, to which the limit applies
	Evictable bool // its drive is declared so
	// Used: a worker here uses it or is to use it, a fill runs in it, or nobody knows.
	Used bool
	// Leaving: a step deletes it anyway.
	Leaving bool
	// Failed: removing it failed and is tried again; others do not wait for it.
	Failed bool
}

// Eviction is one copy that is to go, and why.
type Eviction struct {
	UID string
	Why schema.WhyCode
}

// Evict says which copies a machine must drop, in the order in which they go:
// never used ones first, then the least recently used, then by name (D-71). The
// planner plans by it, and the machine acts only where it agrees on fresh numbers
//
//
// The percentage rule holds for each filesystem with copies: from below the
// start mark until the stop mark is reached. The limit rule holds for the present
// data location. What is chosen, leaves anyway, or is in the trash counts as free.
//
// A size that is not known is never guessed. A copy of unknown size may be chosen
// in its turn, and ends the choice: what else must go is seen when it is gone.
// Trash of unknown size makes its filesystem wait. The limit counts known sizes
// alone, so that nothing goes because of one that is not.
func Evict(in EvictInput) []Eviction {
	order := in.order()
	if len(order) == 0 {
		return nil
	}
	chosen := map[int]schema.WhyCode{}
	for i := range in.Filesystems {
		in.relieve(i, order, chosen)
	}
	in.shrink(order, chosen)
	var list []Eviction
	for _, i := range order {
		if why := chosen[i]; why != "" {
			list = append(list, Eviction{in.Copies[i].UID, why})
		}
	}
	return list
}

// order lists the copies that may go, first the one that goes first.
func (in *EvictInput) order() []int {
	times := map[string]int{}
	for i := range in.Copies {
		if in.Copies[i].here() {
			times[in.Copies[i].UID]++
		}
	}
	var order []int
	for i := range in.Copies {
		c := &in.Copies[i]
		// Of a uid that is there twice nobody could say which of the two would go.
		if c.here() && c.UID != "" && times[c.UID] == 1 && c.Evictable && !c.Used && !c.Leaving && !c.pinned(in.Now) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return in.Copies[a].before(&in.Copies[b]) })
	return order
}

func (c *EvictCopy) here() bool { return c.State == schema.CopyPresent || c.State == "" }

// pinned: made a moment ago and not used yet. A copy from the future was made
// before the clock was set back: it is not pinned for all that time.
func (c *EvictCopy) pinned(now time.Time) bool {
	return c.LastUsed == nil && c.Created != nil && now.Sub(*c.Created).Abs() < EvictPin
}

func (c *EvictCopy) before(o *EvictCopy) int {
	used := func(c *EvictCopy) (never int, at time.Time) {
		if c.LastUsed == nil {
			return 0, time.Time{}
		}
		return 1, *c.LastUsed
	}
	n, at := used(c)
	m, other := used(o)
	return cmp.Or(cmp.Compare(n, m), at.Compare(other), cmp.Compare(c.Drive, o.Drive), cmp.Compare(c.UID, o.UID))
}

// frees is how many bytes the copy's removal gives back as far as anybody knows.
func (c *EvictCopy) frees() int64 {
	if c.Failed {
		return 0
	}
	return c.Bytes
}

// relieve chooses by the percentage rule on one filesystem.
func (in *EvictInput) relieve(at int, order []int, chosen map[int]schema.WhyCode) {
	fs := &in.Filesystems[at]
	if !Evicting(*fs, in.Policy) {
		return
	}
	free, total := uint64(fs.FreeBytes), sizeOf(fs)
	for i := range in.Copies {
		c := &in.Copies[i]
		if c.State != schema.CopyTrash && !(c.here() && c.Leaving && !c.Failed) || in.filesystem(c) != at {
			continue
		}
		if c.Bytes < 0 {
			return // what it gives back shows when it is gone
		}
		free += uint64(c.Bytes)
	}
	_, stop := marks(in.Policy)
	for _, i := range order {
		c := &in.Copies[i]
		if in.filesystem(c) != at {
			continue
		}
		if !below(free, total, stop) {
			return
		}
		chosen[i] = schema.WhyDiskNearlyFull
		if c.frees() < 0 {
			return
		}
		free += uint64(c.frees())
	}
}

// shrink chooses by the limit of the present data location.
func (in *EvictInput) shrink(order []int, chosen map[int]schema.WhyCode) {
	if in.MaxBytes <= 0 {
		return
	}
	var held int64
	for i := range in.Copies {
		c := &in.Copies[i]
		goes := (chosen[i] != "" || c.Leaving) && !c.Failed
		if c.here() && c.Present && !goes {
			held += max(0, c.Bytes)
		}
	}
	for _, i := range order {
		c := &in.Copies[i]
		if held <= in.MaxBytes {
			return
		}
		if !c.Present || chosen[i] != "" {
			continue
		}
		chosen[i] = schema.WhyOverLimit
		if c.frees() < 0 {
			return
		}
		held -= c.frees()
	}
}

func (in *EvictInput) filesystem(c *EvictCopy) int { return CopyFilesystem(in.Filesystems, &c.Copy) }

// CopyFilesystem is the index of the filesystem that a copy lies on, -1 when it
// is not among those that answered.
func CopyFilesystem(list []schema.Filesystem, c *schema.Copy) int {
	if c.FSID != "" {
		return slices.IndexFunc(list, func(fs schema.Filesystem) bool { return fs.ID == c.FSID })
	}
	best := filesystemOf(list, c.Folder)
	return slices.IndexFunc(list, func(fs schema.Filesystem) bool { return best != nil && fs.MountPoint == best.MountPoint })
}

// Evicting reports whether copies must go from a filesystem: it is below the
// start mark, or was (fs.Evicting) and has not reached the stop mark since.
// Free % = Bavail / (used + Bavail). Unknown numbers evict nothing.
func Evicting(fs schema.Filesystem, policy schema.EvictionPolicy) bool {
	if fs.FreeBytes < 0 || fs.UsedBytes < 0 {
		return false
	}
	start, stop := marks(policy)
	free, total := uint64(fs.FreeBytes), sizeOf(&fs)
	return below(free, total, start) || fs.Evicting && below(free, total, stop)
}

// NearlyFull reports whether a filesystem is below the stop mark: sizes are
// worth measuring more often then.
func NearlyFull(fs schema.Filesystem, policy schema.EvictionPolicy) bool {
	fs.Evicting = true
	return Evicting(fs, policy)
}

// marks are start and stop in percent, with D-71's defaults.
func marks(p schema.EvictionPolicy) (start, stop uint64) {
	c := schema.ClusterSpec{Eviction: p}
	c.Normalize()
	start = uint64(max(0, c.Eviction.StartPercent))
	return start, max(start, uint64(max(0, c.Eviction.StopPercent)))
}

func sizeOf(fs *schema.Filesystem) uint64 { return uint64(fs.FreeBytes) + uint64(fs.UsedBytes) }

// below reports whether free is less than percent of total, exactly.
func below(free, total, percent uint64) bool {
	aHigh, aLow := bits.Mul64(free, 100)
	bHigh, bLow := bits.Mul64(total, percent)
	return aHigh < bHigh || aHigh == bHigh && aLow < bLow
}
