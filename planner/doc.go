// Package planner turns desired, accepted, placed and observed values into a
// plan: what is let through, where workers go, what each machine must hold and
// the ordered steps that lead there.
//
// It is pure: no clock, disk, network, goroutine or randomness. Time comes in
// as Input.Now and randomness as Input.Seed, results share nothing mutable with
// the inputs, and the order of maps and files never shows. The controller calls
// Plan at each pass and writes its decisions before it publishes any target; the
// status API calls the views; agents call the eviction function, so that both
// sides decide alike.
//
// One pass runs through four stages, each in files of its own:
//
//	accept…  which changes are let through, which are held (G-9, X-10)
//	place…   on which machines the workers of accepted runs go (D-50..D-59, X-15)
//	target…  what each machine must hold for that (X-7, D-80)
//	step…    the difference between that and what machines report
package planner
