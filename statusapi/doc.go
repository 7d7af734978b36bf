// Package statusapi answers what a cluster is doing, over HTTP, and changes
// nothing (G-10). GET, HEAD and OPTIONS are all it knows; writes go through git.
//
// It gets one View of the state from a Source for each request and presents
// that; it knows no store, no git and no machine. A Source that returns the same
// *View while nothing changed spares it the work of looking again.
//
// Histories and the statuses of commits are read when asked for (Log), because
// they do not fit in a View; explanations are worked out from the View and the
// planner, with every reason and machine.
//
// Bodies carry the field names of the documents. Errors are RFC 9457 problems
// with a code. Every answer has a strong ETag over its bytes. The same routes
// exist at /v1/… for the whole cluster, with objects named <namespace>.<name>,
// and below the documents' long path for one workspace, with local names.
//
// There is no authentication yet, so Listen takes loopback addresses only, and
// the handler refuses requests made under a foreign host name: a web page must
// not reach it through a name that resolves to this machine.
package statusapi
