// Package reconciler is the controller's loop: the newest commit and the newest
// reports go to the planner, its decisions to the store, its targets to machines.
//
// It is level-triggered. Each pass looks at everything; nothing depends on having
// seen a change happen. A pass is
//
//	reports taken -> Plan -> decisions committed -> assignments written -> published
//
// in this order, so that machines are told only what is kept. Fetching and
// loading a commit, and writing reports down, go on beside it and never delay it.
//
// One controller leads at a time. Only the leader serves machines, and only as
// long as the store takes its writes: while a write fails nothing is
// published and no machine is declared Down; after ten seconds the leader closes
// its streams and stands for election again.
//
// An error is never emptiness: when a commit cannot be fetched or read, the last
// one stays, and until there is one the pass works by what is accepted.
//
// With each decision it writes what a person may ask later: the history of the
// objects concerned and what became of the commit (G-11). Operators' approvals come
// in between two passes and are written by the loop like everything else.
//
// What it does not do: it touches no machine, decides nothing that the planner
// decides, and knows neither git's nor etcd's ways. Its caller is the command.
package reconciler
