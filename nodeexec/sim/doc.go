// Package sim is a simulated machine: filesystems that fill up, directories and
// links, copies with their sidecars and trash, exports, network mounts and
// workers with the ports they listen on, all in memory. It stands in for packages host, nfs and runtime under
// an agent, and keeps their contracts: package conform holds both to the same
// tests.
//
// A [Machine] is the host and the engine's and the network mounts' side of one
// machine; machines of one [Net] reach each other's exports. What an agent does
// to a machine goes through [Options.Effect], where a test delays it, lets it
// fail, or looks at it; what it asks goes through [Options.Look]. What happens to
// a machine besides (a disk that fills up or goes, a worker that ends, a reboot)
// are methods of Machine that no agent calls.
//
// It has no clock of its own, starts no goroutine and decides nothing. Its
// callers are tests.
package sim
