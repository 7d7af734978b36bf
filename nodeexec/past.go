package nodeexec

import (
	"cmp"
	"slices"
	"sync"

	"astraeus.io/astraeus/schema"
)

// pastMost bounds what is kept of workers that have ended.
const pastMost = 512

// past is what is kept of workers that were forgotten because the leader had
// written their outcome: should its store be lost, runs that are over do not run
// again. One record a run and worker, the newest.
type past struct {
	saver
	mu      sync.Mutex
	list    []schema.EndedWorker // by their end
	version uint64
}

func loadPast(d *disk) (*past, error) {
	p := &past{saver: saver{disk: d, name: pastFile}}
	_, err := d.read(pastFile, &p.list)
	return p, err
}

// add is durable when it returns without an error.
func (p *past) add(w *localWorker) error {
	ended := schema.EndedWorker{Worker: w.worker, Template: w.label.Template, WorldSize: w.label.WorldSize}
	ended.Worker.Uses = nil
	p.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(p.list), func(old schema.EndedWorker) bool {
		return old.Worker.Run == ended.Worker.Run && old.Worker.Name == ended.Worker.Name && !laterLife(old.Worker, ended.Worker)
	})
	list = append(list, ended)
	slices.SortStableFunc(list, func(x, y schema.EndedWorker) int { return x.Worker.Ended.Compare(y.Worker.Ended) })
	p.list = list[max(0, len(list)-pastMost):] // its elements stay as they are: others read them without the lock
	p.version++
	version, snapshot := p.version, p.list
	p.mu.Unlock()
	return p.save(version, snapshot)
}

// laterLife reports whether x is of a later generation or attempt of the same run.
func laterLife(x, y schema.Worker) bool {
	return x.RunUID == y.RunUID && cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Attempt, y.Attempt)) > 0
}

func (p *past) all() []schema.EndedWorker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list
}
