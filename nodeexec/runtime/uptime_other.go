//go:build !linux

package runtime

import "time"

var began = time.Now()

// Uptime is a clock of this process alone: no engine runs here.
func Uptime() time.Duration { return time.Since(began) }
