package main

import "astraeus.io/astraeus/schema/load"

// runHooks gives each package that re-executes this program the chance to take
// over. It returns in an ordinary process.
func runHooks() {
	load.MaybeChild()
	platformHooks()
	labHook()
}
