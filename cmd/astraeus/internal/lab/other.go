//go:build !linux

package lab

// MaybeStage does nothing where there is no lab.
func MaybeStage() {}
