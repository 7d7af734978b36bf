package main

import "astraeus.io/astraeus/nodeexec/runtime/process"

func platformHooks() { process.MaybeShim() }
