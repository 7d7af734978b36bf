package link

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

// Limits of reports on the link.
const (
	// ChunkBytes is about how much of a report, or of content, goes in one message.
	ChunkBytes = 1 << 20
	// MaxPart bounds one part of a report: 10,000 copies are 4 MB.
	MaxPart = 16 << 20
)

// reportPart is one piece of a report that is hashed and sent by itself.
type reportPart struct {
	name string
	// encode gives the part's JSON, nil for one that the machine does not know.
	encode func(*schema.MachineReport) (json.RawMessage, error)
	decode func(json.RawMessage, *schema.MachineReport) error
	copy   func(to, from *schema.MachineReport)
}

var reportParts = []reportPart{
	headPart(),
	listPart("filesystems", func(r *schema.MachineReport) *[]schema.Filesystem { return &r.Filesystems }),
	listPart("data_locations", func(r *schema.MachineReport) *[]schema.DataLocationState { return &r.DataLocations }),
	listPart("paths", func(r *schema.MachineReport) *[]schema.PathState { return &r.Paths }),
	listPart("copies", func(r *schema.MachineReport) *[]schema.Copy { return &r.Copies }),
	listPart("exports", func(r *schema.MachineReport) *[]schema.Export { return &r.Exports }),
	listPart("mounts", func(r *schema.MachineReport) *[]schema.Mount { return &r.Mounts }),
	listPart("workers", func(r *schema.MachineReport) *[]schema.Worker { return &r.Workers }),
	listPart("measurements", func(r *schema.MachineReport) *[]schema.Measurement { return &r.Measurements }),
	listPart("mount_series", func(r *schema.MachineReport) *[]schema.MountSeries { return &r.MountSeries }),
	listPart("checks", func(r *schema.MachineReport) *[]schema.CheckState { return &r.Checks }),
	listPart("failures", func(r *schema.MachineReport) *[]schema.Failure { return &r.Failures }),
	listPart("evicted", func(r *schema.MachineReport) *[]schema.Evicted { return &r.Evicted }),
	listPart("problems", func(r *schema.MachineReport) *[]string { return &r.Problems }),
}

// headPart is what a machine says of itself, without what moves with every report.
func headPart() reportPart {
	head := func(r *schema.MachineReport) *schema.MachineReport {
		return &schema.MachineReport{
			Name: r.Name, Address: r.Address, Addresses: r.Addresses, BootID: r.BootID,
			RDMA: r.RDMA, Resources: r.Resources, Engine: r.Engine, Network: r.Network,
		}
	}
	take := func(to, from *schema.MachineReport) {
		to.Name, to.Address, to.Addresses, to.BootID = from.Name, from.Address, from.Addresses, from.BootID
		to.RDMA, to.Resources, to.Engine, to.Network = from.RDMA, from.Resources, from.Engine, from.Network
	}
	return reportPart{
		name:   "machine",
		encode: func(r *schema.MachineReport) (json.RawMessage, error) { return json.Marshal(head(r)) },
		decode: func(data json.RawMessage, r *schema.MachineReport) error {
			var got schema.MachineReport
			err := json.Unmarshal(data, &got)
			take(r, &got)
			return err
		},
		copy: take,
	}
}

func listPart[T any](name string, field func(*schema.MachineReport) *[]T) reportPart {
	return reportPart{
		name: name,
		encode: func(r *schema.MachineReport) (json.RawMessage, error) {
			if list := *field(r); list != nil {
				return json.Marshal(list)
			}
			return nil, nil
		},
		decode: func(data json.RawMessage, r *schema.MachineReport) error {
			var list []T
			err := json.Unmarshal(data, &list)
			*field(r) = list
			return err
		},
		copy: func(to, from *schema.MachineReport) { *field(to) = *field(from) },
	}
}

// encoded is a report's parts with their hashes.
type encoded struct {
	data map[string]json.RawMessage
	hash map[string]string
}

func encodeReport(r *schema.MachineReport) (encoded, error) {
	e := encoded{map[string]json.RawMessage{}, map[string]string{}}
	for _, p := range reportParts {
		data, err := p.encode(r)
		if err != nil {
			return e, fmt.Errorf("link: report part %s: %w", p.name, err)
		}
		if data != nil {
			e.data[p.name], e.hash[p.name] = data, schema.HashBytes(data)
		}
	}
	return e, nil
}

// Digests are the hashes of a report's parts, by name; nil has none.
// Errors: a value that JSON cannot hold.
func Digests(r *schema.MachineReport) (map[string]string, error) {
	if r == nil {
		return nil, nil
	}
	e, err := encodeReport(r)
	return e.hash, err
}

// Sender turns whole reports into messages for one stream, each part once until it
// changes. One goroutine uses it.
type Sender struct{ sent map[string]string }

// NewSender begins with what the hello announced and the leader has.
func NewSender(announced map[string]string, have []string) *Sender {
	s := &Sender{sent: map[string]string{}}
	for _, name := range have {
		if hash, ok := announced[name]; ok {
			s.sent[name] = hash
		}
	}
	return s
}

// Messages are what brings a report to the other side: one at least, so that a
// report without news is a heartbeat. Errors: a value that JSON cannot hold.
func (s *Sender) Messages(r *schema.MachineReport) ([]*schema.ReportParts, error) {
	e, err := encodeReport(r)
	if err != nil {
		return nil, err
	}
	blank := schema.ReportParts{Incarnation: r.Incarnation, Sequence: r.Sequence, Epoch: r.Epoch, Applied: r.Applied}
	var list []*schema.ReportParts
	small, size := blank, 0
	flush := func() {
		full := small
		list = append(list, &full)
		small, size = blank, 0
	}
	for _, p := range reportParts {
		data, hash := e.data[p.name], e.hash[p.name]
		if hash == s.sent[p.name] {
			continue
		}
		if data == nil {
			data = json.RawMessage("null")
		}
		if len(data) > ChunkBytes {
			list = append(list, pieces(blank, p.name, data)...)
			continue
		}
		if size > 0 && size+len(data) > ChunkBytes {
			flush()
		}
		if small.Parts == nil {
			small.Parts = map[string]json.RawMessage{}
		}
		small.Parts[p.name], size = data, size+len(data)
	}
	flush()
	for _, m := range list[:len(list)-1] {
		m.More = true
	}
	s.sent = e.hash
	return list, nil
}

// pieces cuts a part. Bytes grow by a third on the way, as JSON has no bytes.
func pieces(blank schema.ReportParts, name string, data []byte) []*schema.ReportParts {
	var list []*schema.ReportParts
	for chunk := range slices.Chunk(data, ChunkBytes*3/4) {
		m := blank
		m.Piece = &schema.PartPiece{Name: name, Data: chunk}
		list = append(list, &m)
	}
	list[len(list)-1].Piece.Last = true
	return list
}

// Receiver puts the reports of one stream together. One goroutine uses it.
type Receiver struct {
	base   *schema.MachineReport // the newest whole report
	next   *schema.MachineReport // being put together, nil between reports
	pieces map[string][]byte
	first  bool // there was no whole report yet
	moved  bool // a part of the next one came
	news   bool
}

// NewReceiver begins with a report of the machine that is known, nil for none, of
// which those parts stand that the machine announces with the same hash: have.
func NewReceiver(known *schema.MachineReport, announced map[string]string) (r *Receiver, have []string, err error) {
	r = &Receiver{base: &schema.MachineReport{}, pieces: map[string][]byte{}, first: true}
	digests, err := Digests(known)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range reportParts {
		if hash, ok := announced[p.name]; ok && hash == digests[p.name] {
			p.copy(r.base, known)
			have = append(have, p.name)
		}
	}
	return r, have, nil
}

// Take takes a message. It gives the report once it is whole, nil before; parts
// that did not change are shared with the report before, and nobody changes them.
// An error means that the machine does not keep to the protocol.
func (r *Receiver) Take(m *schema.ReportParts) (*schema.MachineReport, error) {
	if r.next == nil {
		next := *r.base
		r.next = &next
	}
	for _, name := range slices.Sorted(maps.Keys(m.Parts)) {
		if err := r.part(name, m.Parts[name]); err != nil {
			return nil, err
		}
	}
	if p := m.Piece; p != nil {
		if len(r.pieces[p.Name])+len(p.Data) > MaxPart || len(r.pieces) > len(reportParts) {
			return nil, fmt.Errorf("link: report part %q has more than %d bytes", p.Name, MaxPart)
		}
		r.pieces[p.Name] = append(r.pieces[p.Name], p.Data...)
		if p.Last {
			data := r.pieces[p.Name]
			delete(r.pieces, p.Name)
			if err := r.part(p.Name, data); err != nil {
				return nil, err
			}
		}
	}
	if m.More {
		return nil, nil
	}
	if len(r.pieces) > 0 {
		return nil, fmt.Errorf("link: the report ends in the middle of part %q", slices.Sorted(maps.Keys(r.pieces))[0])
	}
	done, old := r.next, r.base
	done.Incarnation, done.Sequence, done.Epoch, done.Applied = m.Incarnation, m.Sequence, m.Epoch, m.Applied
	r.news = r.first || r.moved || done.Incarnation != old.Incarnation || done.Epoch != old.Epoch || done.Applied != old.Applied
	r.base, r.next, r.first, r.moved = done, nil, false, false
	return done, nil
}

// News reports whether the newest whole report says anything that the one before
// did not; the first one does.
func (r *Receiver) News() bool { return r.news }

// part reads one part into the report that is being put together. Of a newer
// program's part that this one does not know nothing is kept.
func (r *Receiver) part(name string, data json.RawMessage) error {
	r.moved = true
	for _, p := range reportParts {
		if p.name != name {
			continue
		}
		if string(data) == "null" {
			p.copy(r.next, &schema.MachineReport{})
			return nil
		}
		if err := p.decode(data, r.next); err != nil {
			return fmt.Errorf("link: report part %q: %w", name, err)
		}
	}
	return nil
}
