// Package control puts a controller together: a source of commits, the store, the
// reconciler, the link's listeners, and the status API's view of it all.
//
// serve, apply and the lab use it; each brings its own source and listeners. It is
// wiring: what a controller does is the reconciler's business.
package control
