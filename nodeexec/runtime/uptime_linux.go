package runtime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the boot clock: it goes on while the machine sleeps, and is the same for
// every process.
func Uptime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
