// Package dnszone is the names of a cluster: what they are, how they reach a
// machine, and how a machine answers them (N-1 to N-7).
//
// The controller builds the names of an org with Build, a pure function of its
// runs, workers and endpoints, and keeps a Feed an org, which says what to send to
// a machine that holds this or that version. A machine keeps a Table: the names
// compiled for answering, immutable, changed by Apply into another one, and kept on
// disk by a Keeper. A Server answers from the Table that was last given to it and
// forwards every other name to the machine's own resolver.
//
// The package does not know the store, the link or the planner. The reconciler
// calls Build and Feed; nodeexec calls Keeper, Server and ResolvConf.
package dnszone
