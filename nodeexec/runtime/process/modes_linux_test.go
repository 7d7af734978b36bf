package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The tests named TestWorker… run in every mode that an agent can be in. The
// test binary runs itself again for the modes that need another user.
const (
	modeEnv = "ASTRAEUS_PROCESS_TEST_MODE"

	modeDirect   = ""         // as whoever runs the tests
	modeLab      = "lab"      // uid 0 of a user and mount namespace of an ordinary user
	modeLabInner = "lab2"     // the same, inside
	modeRootless = "rootless" // an ordinary user; the engine makes user namespaces
	ordinaryUser = 65534
)

func TestMain(m *testing.M) {
	MaybeShim()
	maybeAgent()
	if os.Getenv(modeEnv) == modeLab {
		os.Exit(enterLab())
	}
	goleak.VerifyTestMain(m)
}

func mode() string { return os.Getenv(modeEnv) }

// enterLab runs the same tests inside a user and mount namespace with one id.
func enterLab() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), modeEnv+"="+modeLabInner)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "entering the lab namespace:", err)
		return 1
	}
	return 0
}

// TestModes repeats the TestWorker tests for the agents of an ordinary user:
// in a namespace with all capabilities (the lab), and with none.
func TestModes(t *testing.T) {
	if os.Geteuid() != 0 {
		lacking(t, "becoming another user needs root")
	}
	if why := userNamespacesForbidden(); why != "" {
		lacking(t, why)
	}
	for _, m := range []string{modeLab, modeRootless} {
		t.Run(m, func(t *testing.T) {
			args := []string{"-test.run=^TestWorker", "-test.count=1", "-test.timeout=240s"}
			if testing.Verbose() {
				args = append(args, "-test.v")
			}
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.Dir = "/"
			cmd.Env = append(os.Environ(), modeEnv+"="+m, "HOME=/", "TMPDIR=/tmp")
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser},
				Pdeathsig:  unix.SIGKILL,
			}
			err := cmd.Run()
			t.Log(strings.TrimSpace(out.String()))
			require.NoError(t, err)
		})
	}
}

// userNamespacesForbidden names the setting that keeps ordinary users from
// making user namespaces, "" when there is none.
func userNamespacesForbidden() string {
	for name, forbids := range map[string]string{
		"user/max_user_namespaces": "0", "kernel/unprivileged_userns_clone": "0",
		"kernel/apparmor_restrict_unprivileged_userns": "1",
	} {
		b, err := os.ReadFile("/proc/sys/" + name)
		if err == nil && strings.TrimSpace(string(b)) == forbids {
			return name + " is " + forbids
		}
	}
	return ""
}

// lacking skips a test for which the machine is not equipped; in CI, where
// everything has to be there, it fails.
func lacking(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("CI must be able to run this: " + reason)
	}
	t.Skip(reason)
}
