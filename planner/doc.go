// Package planner turns desired, accepted, placed and observed values into a
// plan: what is let through, where workers go, what each machine must hold and
// the ordered steps that lead there.
//
// It is pure: no clock, disk, network or randomness. Time comes in as Input.Now
// and randomness as Input.Seed, results share nothing mutable with the inputs, and
// the order of maps, files and reports never shows. What is made for each machine
// by itself is made on all cores (each); no goroutine outlives a call. It does not
// write decisions, publish targets or carry out steps: the controller calls Plan
// at each pass and writes its decisions before it publishes any target, and the
// status API reads the views (NewView, Document, Explain).
//
// One pass runs through five stages, each in files of its own:
//
//	accept, judge, names, expand   which changes are let through, which are held (G-9, X-10)
//	lives, place, choose, check    what became of workers, and where new ones go (D-50..D-59, X-12, X-15)
//	remove, budget, deletion       what may go, by the live workers that are left (D-60, X-27, X-28)
//	target, steps                  what machines must hold, and its difference to what they report
//	waits                          why a worker is not running
//
// A drive's removal is judged after placement, because a worker that is placed in
// this pass counts as its user.
//
// Placement prefers, in this order: the machine a worker was on; one that holds
// the bytes of most of its drives; nearness to the machine of its first
// one-machine drive (NVLink domain, fabric, rack, RDMA at both ends); the fewest
// free GPUs that suffice, so that whole machines stay free for those that need
// them; the name.
package planner
