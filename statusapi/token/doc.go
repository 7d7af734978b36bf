// Package token makes and checks the bearer tokens of the status API.
//
// A token is printed once, when it is made. The file that is given to `serve`
// holds its SHA-256 and what it lets its bearer see: a token is 256 random bits,
// so that a fast hash is enough. Tokens are compared in constant time, and the
// file is read again as soon as it changes: removing an entry revokes at once.
package token
