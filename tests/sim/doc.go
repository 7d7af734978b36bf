// Package sim is the deterministic simulation of a whole cluster: the real
// planner, the real logic of the reconciler and of every machine's agent, over
// simulated machines, a store and a repository in memory, and a clock of its own.
//
// A seed decides everything: which commit comes next, who looks, which message
// arrives, which operation goes on, fails or is where a process dies. Invariants
// are checked at every change of a machine and after every move; once the faults
// stop the cluster must come to rest, with an empty plan.
//
//	make sim SEED=n
//
// replays one seed and writes down every move.
package sim
