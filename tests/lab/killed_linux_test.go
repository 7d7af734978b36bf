package lab

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// pid is the lab's process with a word in its command line.
func (r *running) pid(word string) int {
	r.t.Helper()
	for pid, args := range processes(r.t, r.dir) {
		if strings.Contains(args, word) {
			return pid
		}
	}
	return 0
}

// end waits until the lab has ended by itself.
func (r *running) end() error {
	err := <-r.done
	r.done <- err
	return err
}

// A lab without its room says so and ends; it does not serve a cluster that is gone.
// G-8, X-38
func TestKilledRoomEndsTheLab(t *testing.T) {
	needsNamespaces(t)
	for _, stage := range []string{"__lab-init", "__lab-room"} {
		t.Run(stage, func(t *testing.T) {
			at := home(t)
			r := start(t, at, example(t, at))
			r.until("machines are there", func() bool { return r.agent("gpu-01") != 0 })
			require.NoError(t, syscall.Kill(r.pid(stage), syscall.SIGKILL))
			require.Error(t, r.end())
			require.Contains(t, r.text(), "the machines' room ended")
		})
	}
}
