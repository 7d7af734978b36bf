// Package view is how the command line's answers look. Each command has one
// interface, with one implementation for people and one or more for programs;
// commands fill in a value and choose by a format's name. A view writes what it
// is given: it asks nothing, decides nothing and keeps nothing.
//
// Text that comes from files or machines is made safe for a terminal before it
// is written. A symbol always carries the meaning; colour, where there is any,
// repeats it.
package view
