package statusapi

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const benchDrives = 10_000

// large is a cluster whose workspace has 10,000 drives.
func large() *View {
	view := cluster()
	objects := make([]*schema.Object, benchDrives)
	for i := range objects {
		objects[i] = object(schema.KindDrive, nsResearch, fmt.Sprintf("d-%05d", i), placedDrive())
	}
	return with(view, objects...)
}

func get(b *testing.B, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	b.Helper()
	w := serveTo(h, newRequest(http.MethodGet, path, header...))
	require.Less(b, w.Code, 400)
	return w
}

// The first page of 500 of a workspace with 10,000 drives: the aim is 5 ms.
func BenchmarkFirstPage(b *testing.B) {
	h := serve(b, fixed{view: large()})
	get(b, h, long+"/drives")
	b.ReportAllocs()
	for b.Loop() {
		get(b, h, long+"/drives")
	}
}

// The same when something changed since: what a request pays that is the first.
func BenchmarkFirstPageAfterChange(b *testing.B) {
	view := large()
	source := newStage(view)
	h := serve(b, source)
	get(b, h, long+"/drives")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		next := placedDrive()
		next.SizeHintBytes = int64(i)
		source.set(with(view, object(schema.KindDrive, nsResearch, "d-00000", next)))
		b.StartTimer()
		get(b, h, long+"/drives")
	}
}

// One drive that the caller has, over connections that are kept: the aim is 2,000 a second.
func BenchmarkOneDriveWithETag(b *testing.B) {
	h := serve(b, fixed{view: large()})
	server := httptest.NewServer(h)
	defer server.Close()
	tag := get(b, h, long+"/drives/d-00007").Header().Get("ETag")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for pb.Next() {
			r, err := http.NewRequest(http.MethodGet, server.URL+long+"/drives/d-00007", nil)
			if err != nil {
				b.Error(err)
				return
			}
			r.Header.Set("If-None-Match", tag)
			resp, err := client.Do(r)
			if err != nil || resp.StatusCode != http.StatusNotModified {
				b.Errorf("%v %v", resp, err)
				return
			}
			_ = resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// One change told to 1,000 watchers of a workspace with 10,000 drives, over
// loopback connections: the aim is 100 ms to the last of them.
func BenchmarkThousandWatchers(b *testing.B) {
	const watchers = 1000
	view := large()
	source := newStage(view)
	h := serve(b, source)
	server := httptest.NewServer(h)
	defer server.Close()
	defer h.Close()
	told := make(chan time.Time, watchers)
	var ready sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: watchers}}
	for range watchers {
		ready.Add(1)
		go func() {
			resp, err := client.Get(server.URL + long + "/drives?watch=1&label=watched")
			if err != nil {
				b.Error(err)
				ready.Done()
				return
			}
			defer func() { _ = resp.Body.Close() }()
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				switch line := lines.Text(); {
				case line == "event: synced":
					ready.Done()
				case strings.HasPrefix(line, "event: added"), strings.HasPrefix(line, "event: changed"):
					told <- time.Now()
				}
			}
		}()
	}
	ready.Wait()
	var worst, sum time.Duration
	i := 0
	for b.Loop() {
		i++
		spec := placedDrive()
		spec.SizeHintBytes = int64(i)
		o := object(schema.KindDrive, nsResearch, "d-00000", spec)
		o.Metadata.Labels = map[string]string{"watched": "yes"}
		next := with(view, o)
		began := time.Now()
		source.set(next)
		for range watchers {
			if took := (<-told).Sub(began); took > worst {
				worst = took
			}
		}
		sum += time.Since(began)
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
	b.ReportMetric(float64(sum.Milliseconds())/float64(i), "last-ms/change")
}
