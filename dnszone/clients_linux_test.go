package dnszone

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// need is a program that CI insists on (tests/setup.sh installs it) and that may be
// missing elsewhere.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing; tests/setup.sh installs it", program)
		}
		t.Skipf("%s is not installed; see tests/setup.sh", program)
	}
}

// asWorker runs a command with a worker's own resolv.conf, in a mount namespace.
func asWorker(t *testing.T, conf string, command ...string) (string, error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("another /etc/resolv.conf needs root")
	}
	script := `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", append([]string{"-m", "--propagation", "private", "sh", "-c", script, "sh", conf}, command...)...).CombinedOutput()
	return string(out), err
}

// workerRig serves on port 53 of a loopback address, with the resolv.conf of a worker.
func workerRig(t *testing.T) (r *rig, conf string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("port 53 needs root")
	}
	at := netip.MustParseAddr("127.240.3.1")
	r = start(t, func(c *Config) { c.Addresses = []netip.AddrPort{netip.AddrPortFrom(at, 53)} })
	conf = filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(conf, []byte(ResolvConf(at, testNS, DefaultDomain)), 0o644))
	return r, conf
}

// N-4, N-7: glibc, by short names through the search list.
func TestGlibc(t *testing.T) {
	need(t, "getent")
	_, conf := workerRig(t)
	for name, want := range map[string]string{
		"train-1": "10.240.4.2", "TRAIN": "10.240.3.7", "api." + otherNS: "10.240.5.5", "api." + otherNS + ".astraeus.local": "10.240.5.5",
	} {
		out, err := asWorker(t, conf, "getent", "ahosts", name)
		require.NoError(t, err, out)
		require.Contains(t, out, want)
		require.NotContains(t, out, ":", "no IPv6 address")
	}
	out, err := asWorker(t, conf, "getent", "hosts", "10.240.4.2")
	require.NoError(t, err, out)
	require.Contains(t, out, "train-1."+testNS+".astraeus.local")
	_, err = asWorker(t, conf, "getent", "hosts", "train-7."+testNS+".astraeus.local")
	require.Error(t, err)
}

// N-4: musl asks for A and AAAA at once, and takes NXDOMAIN of either for both
// (docker/for-mac#5088).
func TestMusl(t *testing.T) {
	need(t, "musl-gcc")
	_, conf := workerRig(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "resolve.c")
	require.NoError(t, os.WriteFile(source, []byte(`#include <stdio.h>
#include <netdb.h>
#include <arpa/inet.h>
int main(int argc, char **argv) {
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
	int err = getaddrinfo(argv[1], "80", &hints, &list);
	if (err) { puts(gai_strerror(err)); return 1; }
	for (; list; list = list->ai_next) {
		char text[64];
		if (list->ai_family == AF_INET) puts(inet_ntop(AF_INET, &((struct sockaddr_in *)list->ai_addr)->sin_addr, text, sizeof text));
		else puts("not IPv4");
	}
	return 0;
}
`), 0o600))
	binary := filepath.Join(dir, "resolve")
	out, err := exec.Command("musl-gcc", "-static", "-o", binary, source).CombinedOutput()
	require.NoError(t, err, string(out))
	for name, want := range map[string]string{"train-1": "10.240.4.2\n", "llm." + testNS + ".astraeus.local": "10.240.", "api." + otherNS: "10.240.5.5\n"} {
		out, err := asWorker(t, conf, binary, name)
		require.NoError(t, err, out)
		require.Contains(t, out, want)
	}
	_, err = asWorker(t, conf, binary, "train-7."+testNS+".astraeus.local")
	require.Error(t, err)
}

// N-4: dig, with its EDNS cookie, by UDP, by TCP and after a truncated answer.
func TestDig(t *testing.T) {
	need(t, "dig")
	r := start(t)
	dig := func(args ...string) string {
		args = append([]string{"@" + r.Addr().Addr().String(), "-p", portOf(r)}, args...)
		out, err := exec.Command("dig", args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	name := "train-0." + testNS + ".astraeus.local"
	require.Equal(t, "10.240.3.7\n", dig("+short", name))
	require.Equal(t, "10.240.3.7\n", dig("+short", "+tcp", name))
	require.Contains(t, dig(name, "AAAA"), "status: NOERROR")
	require.Contains(t, dig("gone."+testNS+".astraeus.local"), "status: NXDOMAIN")
	require.Contains(t, dig("+edns=1", "+noednsnegotiation", name), "status: BADVERS")
	require.Contains(t, dig("big."+testNS+".astraeus.local"), "ANSWER: 100", "by TCP after a cut answer")
	require.Equal(t, "train-0."+testNS+".astraeus.local.\n", dig("+short", "-x", "10.240.3.7"))
}

func portOf(r *rig) string {
	_, port, _ := net.SplitHostPort(r.at)
	return port
}

// N-4: Go's own resolver.
func TestGoResolver(t *testing.T) {
	r := start(t)
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, r.at)
	}}
	list, err := resolver.LookupHost(t.Context(), "big."+testNS+".astraeus.local.")
	require.NoError(t, err)
	require.Len(t, list, 100)
	_, err = resolver.LookupHost(t.Context(), "gone."+testNS+".astraeus.local.")
	var dnsError *net.DNSError
	require.ErrorAs(t, err, &dnsError)
	require.True(t, dnsError.IsNotFound)
	names, err := resolver.LookupAddr(t.Context(), "10.240.3.8")
	require.NoError(t, err)
	require.Equal(t, []string{"eval_a-0." + testNS + ".astraeus.local."}, names)
}
