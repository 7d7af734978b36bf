// Package conform holds what every machine under an agent must do, as tests that
// the real host, lab mounts and process engine pass and the simulated machine
// too: what a simulation finds safe is safe on Linux only as far as these agree.
//
// [Run] runs everything. Its callers are the tests of the machines; they say by a
// [Machine] how to put things on one and how to see what is there.
package conform
