// Package runtime says what a worker engine is: the thing on a machine that
// starts, watches and stops the workers of a run.
//
// It holds the plain values that an engine takes and gives ([Spec], [Status],
// [Listing]), the interface [Engine], and the checks of a [Spec] that are the
// same for every engine. It holds no engine: package process next to it runs
// workers as plain Linux processes in namespaces of their own.
//
// The caller is the machine's agent. It resolves and verifies every path a
// worker may see and hands over descriptors, so an engine never decides what a
// worker has access to; and it gives each worker an id that is unique over
// generations and attempts, so an engine never decides what "the same worker"
// means.
package runtime
