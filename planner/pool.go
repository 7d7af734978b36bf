package planner

import "math/bits"

// pool is a set of machines of one fleet in name order, searchable by what they
// have left. It is a segment tree: each node knows the most CPU and memory below
// it, which counts of free GPUs occur and which classes.
type pool struct {
	machines []*machine
	at       map[*machine]int
	size     int // leaves: a power of two
	nodes    []poolNode
}

type poolNode struct {
	cpu, memory int64
	gpus        uint64 // bit n: a machine below has n free GPUs (maxBucket: that many or more)
	classes     uint64
}

// poolKey names the pools of a fleet: all machines, those of one fabric, those
// with RDMA.
type poolKey struct{ kind, name string }

const maxBucket = 63

func newPool(machines []*machine) *pool {
	q := &pool{machines: machines, at: make(map[*machine]int, len(machines)), size: 1}
	for q.size < len(machines) {
		q.size *= 2
	}
	q.nodes = make([]poolNode, 2*q.size)
	for i, m := range machines {
		q.at[m] = i
		q.nodes[q.size+i] = leafOf(m)
	}
	for i := q.size - 1; i > 0; i-- {
		q.nodes[i] = joined(q.nodes[2*i], q.nodes[2*i+1])
	}
	return q
}

func leafOf(m *machine) poolNode {
	if m.busy || !m.up() {
		return poolNode{cpu: -1, memory: -1}
	}
	n := poolNode{cpu: max(0, m.load.cpu), memory: max(0, m.load.memory), gpus: 1 << bucket(m), classes: m.class.bit}
	if !m.load.known {
		n.cpu, n.memory = 0, 0
	}
	return n
}

func bucket(m *machine) int { return min(max(0, m.load.gpus), maxBucket) }

func joined(a, b poolNode) poolNode {
	return poolNode{cpu: max(a.cpu, b.cpu), memory: max(a.memory, b.memory), gpus: a.gpus | b.gpus, classes: a.classes | b.classes}
}

func (q *pool) update(m *machine) {
	i, there := q.at[m]
	if !there {
		return
	}
	i += q.size
	q.nodes[i] = leafOf(m)
	for i /= 2; i > 0; i /= 2 {
		next := joined(q.nodes[2*i], q.nodes[2*i+1])
		if next == q.nodes[i] {
			return
		}
		q.nodes[i] = next
	}
}

// want is a search: a machine of one of the classes with that much left.
type want struct {
	cpu, memory int64
	gpus        int
	classes     uint64
}

// best is the best fit that accept takes: the fewest free GPUs that suffice,
// then the name, so that whole machines stay free for those that need them
// (D-59). nil when there is none.
func (q *pool) best(w want, accept func(*machine) bool) *machine {
	for have := q.nodes[1].gpus >> min(w.gpus, maxBucket) << min(w.gpus, maxBucket); have != 0; have &= have - 1 {
		bit := uint64(1) << bits.TrailingZeros64(have)
		for from := 0; ; {
			i := q.find(1, 0, q.size, from, w, bit)
			if i < 0 {
				break
			}
			if m := q.machines[i]; accept(m) {
				return m
			}
			from = i + 1
		}
	}
	return nil
}

// find is the first leaf from `from` on below a node that may do.
func (q *pool) find(node, low, high, from int, w want, gpus uint64) int {
	n := &q.nodes[node]
	if high <= from || n.gpus&gpus == 0 || n.classes&w.classes == 0 || n.cpu < w.cpu || n.memory < w.memory {
		return -1
	}
	if high-low == 1 {
		return low
	}
	middle := (low + high) / 2
	if i := q.find(2*node, low, middle, from, w, gpus); i >= 0 {
		return i
	}
	return q.find(2*node+1, middle, high, from, w, gpus)
}

// pool is the fleet's pool of a key, made when it is first asked for.
func (f *fleet) pool(key poolKey) *pool {
	if q := f.pools[key]; q != nil {
		return q
	}
	var list []*machine
	for _, m := range f.list {
		for _, k := range m.keys {
			if k == key {
				list = append(list, m)
			}
		}
	}
	q := newPool(list)
	f.pools[key] = q
	return q
}

var (
	poolAll  = poolKey{kind: "all"}
	poolRDMA = poolKey{kind: "rdma"}
)

func poolFabric(fabric string) poolKey { return poolKey{"fabric", fabric} }

func keysFor(m *machine) []poolKey {
	keys := []poolKey{poolAll}
	if m.fabric != "" {
		keys = append(keys, poolFabric(m.fabric))
	}
	if len(m.rdma) > 0 {
		keys = append(keys, poolRDMA)
	}
	return keys
}
