// Package lab is network mounts between machines of one computer: the lab's
// machines share a mount namespace, each with a host root of its own.
//
// An export is a bind mount of the verified directory in the source machine's
// work root and an entry in that machine's export table; a mount looks the
// source machine up by its address, asks the table whether this client may
// mount and how widely, and bind-mounts the export. So the order of things,
// the refusals and what is left after a crash are those of a real network
// mount; what is missing is the network, and the transport says so ("Lab").
//
// What is on disk, below a machine's work root, each file versioned and
// replaced as a whole:
//
//	exports/table.json                 the exports: what clients ask
//	exports/<uid>-<source>-<client>    bind mount of what is exported
//	datavolumes/mounts.json            what this machine has mounted, and why
//	datavolumes/mounts/<ns>.<name>-<i> bind mount of another machine's export
//
// An entry comes after its bind mount and goes before it, so that a crash
// leaves nothing that a client could mount. A mount is recorded before it is
// made, so that a crash leaves no mount that nobody knows.
package lab
