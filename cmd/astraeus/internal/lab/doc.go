// Package lab runs a whole cluster on one computer without root.
//
// The controller, its store and the status API run in the caller's process. A
// child made by re-execution lives in one user, mount, pid and network
// namespace; inside it every machine of the repository is an agent process with
// a network namespace of its own, joined to the others by a bridge, and a host
// root of its own below the lab's directory, in which its host paths resolve.
// Bind mounts, addresses and worker processes are therefore real, and all of
// them are gone when the child is: what stays is the directory.
//
//	astraeus lab                      controller, store, status API
//	 └─ init (pid 1 of the namespaces) only reaps
//	     └─ room                       bridge, host roots, agents; told by a pipe which machines there are
//	         └─ machine ×N             nodeexec.Agent over the link's unix socket
//	             └─ workers
//
// The package is wiring: what a machine does is nodeexec, what a controller does
// is reconciler.
package lab
