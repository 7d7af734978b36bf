// Package lab tests the whole product on one computer: the program as a person
// runs it, an ordinary user's namespaces, real bind mounts and real workers, from
// a commit of drive files to an empty plan.
package lab
