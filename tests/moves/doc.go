// Package moves tests what becomes of accepted objects when their files are
// moved about in the repository: the loader and the planner together.
package moves
