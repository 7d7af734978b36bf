//go:build !linux

package main

func platformHooks() {}
