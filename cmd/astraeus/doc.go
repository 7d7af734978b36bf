// Command astraeus is the command line: it wires the packages of this module
// together and presents what they answer. It decides nothing itself.
//
// The verbs fall into three families. validate, plan and fmt read files or
// commits and need no cluster. apply and serve run the control plane and are
// built on Linux only. status, get and describe read the status API of a
// running controller over HTTP, and work wherever the program builds.
//
// What a command found goes to standard output, everything said on the way
// (diagnostics, progress, errors) to standard error. How either looks is the
// business of the view package; exit codes are in exit.go.
package main
