// Package nodeexec is the agent: on one machine it observes the machine,
// carries out the steps the machine is assigned, measures, and holds the link
// to the leading controller (design.md).
//
// It is level-triggered. Each pass lists what is on the machine, compares the
// assignment's steps with it and starts those that are due: a step is done when
// the listing shows it, never because it was carried out once. Nothing is
// remembered but the last assignment, the failures with their backoff, which
// worker uses what, on which filesystem a path was first seen, and what was
// evicted lately; each of these files is versioned, strictly read and atomically
// replaced.
//
// A machine trusts nothing (D-21, X-7, X-16): a step that contradicts the
// machine's target or what the machine sees is refused and reported, paths are
// checked and used through one descriptor, and data is removed only with a
// complete listing of workers and mounts and the complete list of the workspace's
// drives: deleted with the controller connected, evicted when planner.Evict says
// so by numbers taken right then.
//
// Away from the controller a machine keeps what it has, starts nothing new,
// restores the exports and mounts of its last target, and evicts by itself.
//
// The package decides no placement and reads no git. Side effects sit behind
// [Host], nfs.Shares and runtime.Engine; the program that runs an agent (and
// the lab) makes these and calls [New] and [Agent.Run].
package nodeexec
