package main

// runHooks gives each package that re-executes this program the chance to take
// over. It returns in an ordinary process.
func runHooks() {
	platformHooks()
	labHook()
}
