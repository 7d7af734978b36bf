package planner

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// fewForOne is how many items are not worth another goroutine. Tests make it small.
var fewForOne = 64

// each calls f for every item, on all cores when there are many. f may write what
// is its item's alone and reads whatever no other call writes, so that the result
// does not depend on which came first. When it returns, no call runs any more.
func each[T any](list []T, f func(T)) {
	workers := min(runtime.GOMAXPROCS(0), len(list)/fewForOne)
	if workers < 2 {
		for _, item := range list {
			f(item)
		}
		return
	}
	piece := min(16, max(1, len(list)/(4*workers)))
	var next atomic.Int64
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for {
				to := int(next.Add(int64(piece)))
				from := to - piece
				if from >= len(list) {
					return
				}
				for _, item := range list[from:min(to, len(list))] {
					f(item)
				}
			}
		})
	}
	done.Wait()
}
