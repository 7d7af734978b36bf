// Package process is the worker engine without a container engine: every
// worker is a tree of plain Linux processes in namespaces of its own, with the
// machine's system directories read-only and its own mounts, and nothing else
// of the machine. It needs Linux 5.12 or newer; elsewhere [New] says so.
//
// # How a worker comes to be
//
// The program that uses the engine is also the shim: its main calls
// [MaybeShim] first, and the engine runs it again as pid 1 of the worker's
// namespaces. There it builds a root on a tmpfs, switches to it, gives up its
// privileges, runs the command as its child, copies its output to the log,
// passes signals on, reaps, and writes how the command ended. It has a session
// of its own and no tie to the agent: when the agent dies, workers go on, and
// the next engine on the same state directory finds them again.
//
// Mount sources are descriptors that the agent verified. With CAP_SYS_ADMIN
// the engine clones them to detached mounts on its own side, because the
// kernel refuses to clone a mount of another mount namespace. Without, the
// shim opens the same path in its namespace without following any link and
// compares device and inode with the descriptor before it mounts the result.
//
// # What is on disk
//
//	<StateDir>/lock                      held by the one engine of this directory
//	<StateDir>/root/                     always empty here: where shims put their root
//	<StateDir>/workers/<id>/spec.json    written first: the id is taken
//	<StateDir>/workers/<id>/process.json pid, start ticks, boot id: the go-ahead
//	<StateDir>/workers/<id>/stop.json    a stop was asked for, and until when
//	<StateDir>/workers/<id>/exit.json    written by the shim when the command ended
//
// The disk alone decides whether a worker runs: a shim whose agent is silent
// or dead runs the command only when process.json is there. A record without
// process.json has therefore never run anything and is dropped when an engine
// opens the directory. No environment, argument or file content is on disk.
//
// # What a worker can do
//
// It has no capabilities, cannot gain any (bounding set empty, no_new_privs,
// nosuid), and a system call filter keeps it from making namespaces and
// mounts. Where the agent is root, the worker keeps uid 0 without
// capabilities, so that data owned by root stays readable; /proc is read-only
// because files of /proc/sys ask for the uid only (kernel.core_pattern would
// be a way out). Pid 1 is not dumpable, so its descriptors and its program are
// out of reach (CVE-2019-5736). An agent without CAP_SYS_ADMIN makes a user
// namespace that maps its own id to 0.
//
// What this engine does not separate: the network, unless the caller gives a
// network namespace (abstract Unix sockets of services that trust uid 0 are
// reachable then, as in CVE-2020-15257), and CPU and memory, unless the caller
// gives a cgroup v2 directory with these controllers. /sys is empty.
//
// Who calls it: the agent, through runtime.Engine. The service manager must
// not kill the agent's whole cgroup (systemd: KillMode=process).
package process
