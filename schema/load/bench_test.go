package load

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"astraeus.io/astraeus/schema"
)

// bigRepo is n objects in 20 workspaces: drives, runs and endpoints in the
// three formats.
func bigRepo(n int) fstest.MapFS {
	fsys := fstest.MapFS{}
	put := func(name, text string, args ...any) {
		fsys[name] = &fstest.MapFile{Data: fmt.Appendf(nil, text, args...)}
	}
	put("cluster.cue", "kind: \"Cluster\"\nmetadata: name: \"big\"\n")
	put("orgs/acme/org.cue", "kind: \"Org\"\nmetadata: name: \"acme\"\n")
	for i := range n {
		ws := fmt.Sprintf("orgs/acme/workspaces/ws%02d", i%20)
		if i < 20 {
			put(ws+"/workspace.cue", "kind: \"Workspace\"\nmetadata: name: \"ws%02d\"\n", i)
		}
		switch i % 4 {
		case 0:
			put(fmt.Sprintf("%s/drives/d%05d.cue", ws, i), `// A cache.
kind: "Drive"
metadata: {name: "d%05d", labels: team: "ml"}
spec: {
	sources: [{node_scope: "placed", path: "", mount_path: "/root/.cache/huggingface", mode: "ReadWrite"}]
	evictable:       true
	size_hint_bytes: 107374182400
}
`, i)
		case 1:
			put(fmt.Sprintf("%s/runs/r%05d.cue", ws, i), `kind: "Run"
metadata: name: "r%05d"
spec: {
	task_template: {
		image:   "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"
		command: "python"
		args: ["train.py", "--data", "/data", "--out", "/checkpoints/finetune"]
		env: {NCCL_DEBUG: "INFO", EPOCHS: "3"}
		requested_resources: {cpu_cores: 16, memory_bytes: 137438953472, gpu_requests: count: 8}
		datavolume_refs: [
			{name: "imagenet", mount_path: "/data", mode: "ReadOnly"},
			{name: "lustre-ckpt"},
			{name: "hf-cache"},
		]
	}
	restart_policy: "OnFailure"
}
`, i)
		case 2:
			put(fmt.Sprintf("%s/endpoints/e%05d.json", ws, i), `{"kind": "Endpoint", "metadata": {"name": "e%05d"},
 "spec": {"run": "r1", "port": 6379, "health_check": {"tcp": true}}}
`, i)
		case 3:
			put(fmt.Sprintf("%s/drives/y%05d.yaml", ws, i), `kind: Drive
metadata:
  name: y%05d
spec:
  sources:
    - {node: gpu-01, path: /mnt/nvme0/datasets/imagenet, mount_path: /data, mode: ReadOnly}
  transport: Auto
`, i)
		}
	}
	return fsys
}

// cachedFS lists a MapFS once and knows hashes, as a snapshot of git does.
type cachedFS struct {
	fstest.MapFS
	mu     *sync.Mutex
	lists  map[string][]fs.DirEntry
	hashes map[string]string
}

func newCachedFS(m fstest.MapFS) cachedFS {
	c := cachedFS{m, &sync.Mutex{}, map[string][]fs.DirEntry{}, map[string]string{}}
	for name, f := range m {
		c.hashes[name] = schema.HashBytes(f.Data)
	}
	_ = fs.WalkDir(m, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			c.lists[name], err = m.ReadDir(name)
		}
		return err
	})
	return c
}

func (c cachedFS) ReadDir(name string) ([]fs.DirEntry, error) { return c.lists[name], nil }
func (c cachedFS) Hash(name string) (string, bool)            { h, ok := c.hashes[name]; return h, ok }

func (c cachedFS) change(name, text string) {
	c.MapFS[name] = &fstest.MapFile{Data: []byte(text)}
	c.hashes[name] = schema.HashBytes([]byte(text))
}

// peakHeap is the most that the heap took while f ran.
func peakHeap(f func()) (peak uint64) {
	runtime.GC()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak
}

func BenchmarkLoadCold10k(b *testing.B) {
	fsys := newCachedFS(bigRepo(10_000))
	for b.Loop() {
		l := New(Options{})
		var d *schema.Desired
		peak := peakHeap(func() { d, _ = l.Load(context.Background(), fsys, Commit{}) })
		if len(d.Diagnostics) > 0 || len(d.Objects) < 10_000 {
			b.Fatal(len(d.Objects), d.Diagnostics)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(peak)/1e6, "MB-peak")
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-kept")
		runtime.KeepAlive(d)
		l.Close()
	}
}

func BenchmarkLoadOneChanged10k(b *testing.B) {
	fsys := newCachedFS(bigRepo(10_000))
	l := New(Options{})
	defer l.Close()
	_, _ = l.Load(context.Background(), fsys, Commit{})
	for i := 0; b.Loop(); i++ {
		fsys.change("orgs/acme/workspaces/ws00/drives/d00000.cue",
			fmt.Sprintf("kind: \"Drive\"\nmetadata: name: \"d00000\"\nspec: sources: [{node_scope: \"placed\", path: \"p%d\"}]\n", i))
		d, err := l.Load(context.Background(), fsys, Commit{})
		if err != nil || len(d.Diagnostics) > 0 {
			b.Fatal(err, d.Diagnostics)
		}
	}
}

// BenchmarkLoadComputed1k is files that must be evaluated, one by one.
func BenchmarkLoadComputed1k(b *testing.B) {
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("drives/d%d.cue", i)] = fmt.Sprintf(
			"let n = %d\nkind: \"Drive\"\nmetadata: name: \"d\\(n)\"\nspec: sources: [{node_scope: \"placed\", path: \"\"}]\n", i)
	}
	fsys := withFrame(files)
	for b.Loop() {
		l := New(Options{})
		d, _ := l.Load(context.Background(), fsys, Commit{})
		if len(d.Objects) != 1004 {
			b.Fatal(d.Diagnostics[:1])
		}
		l.Close()
	}
}
