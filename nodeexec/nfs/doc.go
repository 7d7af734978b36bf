// Package nfs says what a machine needs for network mounts: exporting a
// directory to one client machine, and mounting what another machine exports.
//
// It holds the interface [Shares] and the plain values it takes. Package lab
// next to it implements it with bind mounts between machines of one computer;
// kernel NFS fits the same interface. Whoever implements it owns one export
// table, rewritten whole and read back, and touches no export or mount that is
// not its own (failures.md).
//
// The caller is the machine's agent: it decides what is exported and mounted,
// verifies every path and hands over descriptors, and it retries.
package nfs
