// Package store keeps what must outlive the controller, in etcd. It is the only
// package that knows etcd: an embedded one when no endpoints are given, an
// external cluster otherwise, with the same client code for both.
//
// Keys under /astraeus/<cluster>/ (X-6):
//
//	meta                     cluster uid, epoch, format
//	head                     the newest commit that was written completely
//	notwhole                 its scopes with files that could not be used (G-5)
//	accepted/<kind>/<name>   an object in force
//	refused/<kind>/<name>    its newest refused candidate, or that of a new object
//	tombstones/<uid>         a removed drive that may still have copies
//	placed/<ns>.<run>        where a run's workers are, one value a run
//	assigned/<machine>       what was last given to a machine, by reference
//	blobs/<hash>             what assignments refer to
//	observed/<machine>/<part> the last report, each part its own key
//	alive                    the leader's summary of machines
//	events/<object>/<time>   with leases by the hour and a cap an object
//	history/<object>/<time>  the audit log, one record a key, a cap an object (G-11)
//	commits/<id>             what became of a commit, object by object (G-11)
//	approved                 the newest commit that an operator let through
//	plans/<digest>           a saved plan that was applied (G-7)
//	leader/                  the election
//
// Values are an envelope with a format version around the JSON of a schema type
// and are decoded strictly; an error names the key.
//
// Only a Leader writes, and each of its transactions compares the leader's key,
// so that the write of a deposed leader fails with ErrNotLeader. Writes go in
// batches whose order makes a crash between any two of them harmless: what was
// written is true, and the next pass decides the rest.
//
// Its callers are the reconciler, which leads, and the status API, which reads.
package store
