package store

import (
	"context"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		start := time.Now()
		s, err := Open(context.Background(), Options{Cluster: "c", Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(start), s.Meta())
		start = time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(start))
	}
}
