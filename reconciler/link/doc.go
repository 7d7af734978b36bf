// Package link serves the link of schema/link: one stream a machine, reports
// going up, assignments coming down.
//
// It knows who is connected and hands out the newest report of each machine; it
// decides nothing and keeps nothing. A machine is named by its certificate and
// can speak for itself alone; on a unix socket or an in-memory listener, which
// carry no certificate, the machine names itself in the metadata.
//
// Each stream has one goroutine that sends. It sends the newest assignment there
// is when it is ready, so a slow machine skips assignments and delays nobody.
// Reports are kept one a machine until taken, so a slow reconciler skips reports
// and blocks no machine.
//
// Only a leader serves machines. Before Lead and after Follow they are turned
// away with "not leader, try <address>", and Follow closes every stream.
//
// Operators are served on the same listeners: the few calls that are not reading,
// with an operator's certificate or on the controller's own socket.
//
// Its caller is the reconciler; the command wires the listener.
package link
