// Package host is the machine under the agent: its filesystems and disks, the
// directories that workers may see, the copies of placed drives, bind mounts
// and measuring.
//
// It decides nothing. The agent says which path, which grant and which copy;
// this package finds out whether the machine agrees, and holds on to what it
// found: a checked directory is a descriptor ([Dir]), and what is mounted later
// is that descriptor, so nothing can be swapped in between (D-21). It deletes
// nothing but copies of placed drives whose sidecar carries the wanted uid
// (D-9, X-2).
//
// Every path that goes in or comes out is a host path: absolute, as the
// machine's configuration writes it. With [Options.Root] set, host paths live
// beneath that directory, which is how a lab's machines share one computer.
//
// A filesystem that does not answer must not take the agent with it: network
// mounts are asked in goroutines with a deadline, and never by more than one at
// a time for each mount.
//
// Everything is safe for concurrent use. It works on Linux 5.12 or newer; on
// other systems the package compiles and [New] fails.
package host
