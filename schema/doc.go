// Package schema is the vocabulary that every other package speaks: desired
// objects, what machines report, what a plan says, what a machine is assigned,
// and the sentences in which reasons are given.
//
// It holds values and pure functions on them. It reads no file, opens no
// connection and knows neither CUE, git, gRPC nor etcd: schema/load turns files
// into these types, schema/link names the service that carries them, and
// reconciler/store keeps them. Everything that is written to disk, to the store
// or to the wire is the JSON of a type in this package.
//
// Three words are kept apart everywhere: *desired* is what a commit declares,
// *accepted* is the last spec of an object that was let through, *observed* is
// what machines report. A nil slice or pointer in an observed value means
// unknown, never none.
package schema
