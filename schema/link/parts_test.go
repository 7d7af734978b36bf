package link_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

// fill gives every field below v a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Kind().String())
	}
}

func fullReport() *schema.MachineReport {
	r := &schema.MachineReport{}
	fill(reflect.ValueOf(r).Elem())
	for i := range r.Failures {
		r.Failures[i].Object = schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "d"}
	}
	r.State = "" // the leader's, not the machine's
	return r
}

// bring sends a report as it goes over the wire and gives what arrives.
func bring(t *testing.T, s *link.Sender, to *link.Receiver, r *schema.MachineReport) (got *schema.MachineReport, bytes []int) {
	t.Helper()
	messages, err := s.Messages(r)
	require.NoError(t, err)
	for i, m := range messages {
		data, err := json.Marshal(m)
		require.NoError(t, err)
		bytes = append(bytes, len(data))
		again := new(schema.ReportParts)
		require.NoError(t, json.Unmarshal(data, again))
		got, err = to.Take(again)
		require.NoError(t, err)
		require.Equal(t, i == len(messages)-1, got != nil, "a report counts once it is whole")
	}
	return got, bytes
}

func connected(t *testing.T, known, last *schema.MachineReport) (*link.Sender, *link.Receiver, []string) {
	t.Helper()
	digests, err := link.Digests(last)
	require.NoError(t, err)
	r, have, err := link.NewReceiver(known, digests)
	require.NoError(t, err)
	return link.NewSender(digests, have), r, have
}

// Every field of a report reaches the other side, X-9: unknown stays unknown, none stays none.
func TestReportsArriveWhole(t *testing.T) {
	s, to, _ := connected(t, nil, nil)
	full := fullReport()
	got, _ := bring(t, s, to, full)
	require.Equal(t, full, got)
	unknown := &schema.MachineReport{Name: "m1", Sequence: 8, Workers: []schema.Worker{}}
	got, _ = bring(t, s, to, unknown)
	require.Equal(t, unknown, got)
	require.True(t, to.News())
	unknown.Sequence++
	got, _ = bring(t, s, to, unknown)
	require.Equal(t, unknown, got)
	require.False(t, to.News(), "a heartbeat")
}

// at connect a digest a part; only what differs follows, then and later.
func TestOnlyDifferingPartsFollow(t *testing.T) {
	last, known := fullReport(), fullReport()
	last.Copies = append(last.Copies, schema.Copy{Drive: strings.Repeat("x", 10_000)})
	known.Workers[0].Name = strings.Repeat("y", 10_000) // an older one
	s, to, have := connected(t, known, last)
	require.NotContains(t, have, "copies")
	require.NotContains(t, have, "workers")
	require.Len(t, have, 12)
	got, bytes := bring(t, s, to, last)
	require.Equal(t, last, got)
	require.Len(t, bytes, 1)
	require.Less(t, bytes[0], 12_000)
	require.True(t, to.News(), "the first report of a stream")

	got, bytes = bring(t, s, to, last)
	require.Equal(t, last, got)
	require.Less(t, bytes[0], 100, "nothing changed")
	next := *last
	next.Measurements = nil
	got, bytes = bring(t, s, to, &next)
	require.Equal(t, &next, got)
	require.Less(t, bytes[0], 150)
	require.NotNil(t, last.Measurements, "the report before is not touched")

	// What is known and the machine does not know any more is not taken over.
	s, to, have = connected(t, known, &schema.MachineReport{Name: "m1"})
	require.Empty(t, have)
	got, _ = bring(t, s, to, &schema.MachineReport{Name: "m1"})
	require.Equal(t, &schema.MachineReport{Name: "m1"}, got)
}

// chunks of 1 MB, also of one part.
func TestLargeReportsGoInChunks(t *testing.T) {
	s, to, _ := connected(t, nil, nil)
	r := &schema.MachineReport{Name: "m1"}
	for i := range 20_000 {
		r.Copies = append(r.Copies, schema.Copy{UID: fmt.Sprint(i), Folder: strings.Repeat("f", 200)})
		r.Problems = append(r.Problems, fmt.Sprint(i))
	}
	got, bytes := bring(t, s, to, r)
	require.Equal(t, r, got)
	require.Greater(t, len(bytes), 4)
	for _, n := range bytes {
		require.Less(t, n, link.ChunkBytes*11/10)
	}
}

func TestBrokenReportsAreRefused(t *testing.T) {
	part := func(m schema.ReportParts) error {
		r, _, err := link.NewReceiver(nil, nil)
		require.NoError(t, err)
		_, err = r.Take(&m)
		return err
	}
	require.ErrorContains(t, part(schema.ReportParts{Parts: map[string]json.RawMessage{"copies": []byte(`{}`)}}), `part "copies"`)
	require.ErrorContains(t, part(schema.ReportParts{Piece: &schema.PartPiece{Name: "copies", Data: []byte(`[`)}}), `in the middle of part "copies"`)
	require.NoError(t, part(schema.ReportParts{Parts: map[string]json.RawMessage{"newer": []byte(`[1]`)}}), "of a newer program")
	r, _, err := link.NewReceiver(nil, nil)
	require.NoError(t, err)
	for err == nil {
		_, err = r.Take(&schema.ReportParts{More: true, Piece: &schema.PartPiece{Name: "copies", Data: make([]byte, 1<<20)}})
	}
	require.ErrorContains(t, err, "more than")
}
