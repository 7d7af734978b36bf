// Package structure holds the tests that keep the house in order: which folder
// may import which (the table of docs/design.md), where each big dependency may
// be known, that the planner is pure, that files stay readable, and that every
// requirement id is accounted for.
package structure
