package dnszone

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The variables by which `make bench-dns` asks for the comparison, and the
// comparison asks this binary to be one of the servers.
const (
	askSideBySide = "BENCH_DNS"
	askServe      = "BENCH_DNS_SERVE" // "ours", "plain" or "echo", and the port
	corednsModule = "github.com/coredns/coredns@v1.15.0"
	rounds        = 5
	roundSeconds  = 3
)

// contestant is a server in a process of its own.
type contestant struct {
	name  string
	start func(b *testing.B, dir string, port int) *exec.Cmd
	why   string // it is not here

	cmd  *exec.Cmd
	port int
	cpu  []float64 // microseconds a question, one a round
	qps  []float64
}

// aims are how many times the CPU of a question the others must need (dns.md), or
// for the echo may need at least.
var aims = map[string]float64{"coredns-file": 8, "coredns-hosts": 4, "knot": 1.3, "echo": 1 / 1.5}

// Issue's speed: the same zone of 100,000 names, dnsperf, one server after the
// other in each round; ratios are of the rounds' medians.
func BenchmarkSideBySide(b *testing.B) {
	if os.Getenv(askSideBySide) == "" {
		b.Skip("compares with other name servers: make bench-dns")
	}
	if _, err := exec.LookPath("dnsperf"); err != nil {
		b.Skip("dnsperf is not installed (apt-get install dnsperf)")
	}
	dir := b.TempDir()
	zone := Build(benchInput())
	writeZoneFiles(b, dir, zone)
	list := contestants(b, dir)
	for i, c := range list {
		if c.why != "" {
			b.Logf("%s is left out: %s", c.name, c.why)
			continue
		}
		c.port = 5400 + i
		c.cmd = c.start(b, dir, c.port)
		awaitAnswer(b, c)
	}
	b.ResetTimer()
	for range rounds {
		for _, c := range list {
			if c.why == "" {
				c.measure(b, dir)
			}
		}
	}
	report(b, list)
}

func contestants(b *testing.B, dir string) []*contestant {
	self := func(how string) func(*testing.B, string, int) *exec.Cmd {
		return func(b *testing.B, _ string, port int) *exec.Cmd {
			binary, err := os.Executable()
			require.NoError(b, err)
			return run(b, []string{askServe + "=" + how + " " + strconv.Itoa(port)}, binary, "-test.run", "^$", "-test.bench", "^BenchmarkServe$", "-test.benchtime", "1x")
		}
	}
	list := []*contestant{{name: "ours", start: self("ours")}, {name: "echo", start: self("echo")}, {name: "plain miekg/dns", start: self("plain")}}
	coredns, why := buildCoreDNS(dir)
	for _, plugin := range []string{"file", "hosts"} {
		list = append(list, &contestant{name: "coredns-" + plugin, why: why, start: func(b *testing.B, dir string, port int) *exec.Cmd {
			conf := filepath.Join(dir, "Corefile."+plugin)
			what := map[string]string{"file": "file " + dir + "/zone astraeus.local", "hosts": "hosts " + dir + "/hosts astraeus.local {\n ttl 5\n }"}[plugin]
			write(b, conf, fmt.Sprintf("astraeus.local:%d {\n bind 127.0.0.1\n %s\n}\n", port, what))
			return run(b, nil, coredns, "-quiet", "-conf", conf)
		}})
	}
	return append(list, &contestant{name: "knot", why: missing("knotd"), start: startKnot}, &contestant{name: "nsd", why: missing("nsd"), start: startNSD})
}

func missing(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return program + " is not installed"
	}
	return ""
}

func run(b *testing.B, env []string, name string, args ...string) *exec.Cmd {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd
}

func write(b *testing.B, path, text string) {
	b.Helper()
	require.NoError(b, os.WriteFile(path, []byte(text), 0o644))
}

// buildCoreDNS makes a CoreDNS of the two plugins that are compared, in the
// benchmark's own folder.
func buildCoreDNS(dir string) (binary, why string) {
	if binary := os.Getenv("COREDNS"); binary != "" {
		return binary, ""
	}
	dir = filepath.Join(dir, "coredns")
	source := "package main\n\nimport (\n\t\"github.com/coredns/coredns/coremain\"\n\t_ \"github.com/coredns/coredns/plugin/bind\"\n\t_ \"github.com/coredns/coredns/plugin/file\"\n" +
		"\t_ \"github.com/coredns/coredns/plugin/hosts\"\n)\n\nfunc main() { coremain.Run() }\n"
	for _, step := range []func() error{
		func() error { return os.MkdirAll(dir, 0o755) },
		func() error { return os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644) },
		func() error {
			return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module coredns\n\ngo 1.26\n"), 0o644)
		},
		func() error { return goIn(dir, "get", corednsModule) },
		func() error { return goIn(dir, "build", "-mod=mod", "-o", "coredns", ".") },
	} {
		if err := step(); err != nil {
			return "", "it cannot be built: " + err.Error()
		}
	}
	return filepath.Join(dir, "coredns"), ""
}

func goIn(dir string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("go %s: %s", args[0], lines[len(lines)-1])
	}
	return nil
}

func startKnot(b *testing.B, dir string, port int) *exec.Cmd {
	conf := filepath.Join(dir, "knot.conf")
	write(b, conf, fmt.Sprintf("server:\n    rundir: %s\n    listen: 127.0.0.1@%d\ndatabase:\n    storage: %s\nlog:\n  - target: stderr\n    any: error\n"+
		"zone:\n  - domain: astraeus.local\n    file: %s/zone\n    zonefile-sync: -1\n    journal-content: none\n", dir, port, dir, dir))
	return run(b, nil, "knotd", "-c", conf)
}

func startNSD(b *testing.B, dir string, port int) *exec.Cmd {
	conf := filepath.Join(dir, "nsd.conf")
	write(b, conf, fmt.Sprintf("server:\n ip-address: 127.0.0.1@%d\n server-count: 1\n username: \"\"\n chroot: \"\"\n zonesdir: %q\n database: \"\"\n pidfile: \"%s/nsd.pid\"\n xfrdfile: \"%s/xfrd\"\n"+
		" xfrdir: %q\n zonelistfile: \"%s/zone.list\"\n rrl-ratelimit: 0\n logfile: \"%s/nsd.log\"\nremote-control:\n control-enable: no\nzone:\n name: astraeus.local\n zonefile: zone\n",
		port, dir, dir, dir, dir, dir, dir))
	return run(b, nil, "nsd", "-d", "-c", conf)
}

// writeZoneFiles gives the others the zone, and dnsperf its questions.
func writeZoneFiles(b *testing.B, dir string, zone *Zone) {
	var master, hosts, questions strings.Builder
	master.WriteString("$ORIGIN astraeus.local.\n$TTL 5\n@ IN SOA ns hostmaster 1 7200 1800 1209600 5\n@ IN NS ns\nns IN A 127.0.0.1\n")
	var all []string
	for _, s := range zone.Shards {
		for _, n := range s.Names {
			fmt.Fprintf(&master, "%s.%s IN A %s\n", n.Name, s.Namespace, n.Addresses[0])
			fmt.Fprintf(&hosts, "%s %s.%s.astraeus.local\n", n.Addresses[0], n.Name, s.Namespace)
			all = append(all, n.Name+"."+s.Namespace+".astraeus.local")
		}
	}
	slices.Sort(all)
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		questions.WriteString(benchName(r, all) + " A\n")
	}
	write(b, filepath.Join(dir, "zone"), master.String())
	write(b, filepath.Join(dir, "hosts"), hosts.String())
	write(b, filepath.Join(dir, "questions"), questions.String())
}

func awaitAnswer(b *testing.B, c *contestant) {
	b.Helper()
	client := dns.Client{Timeout: time.Second}
	for range 600 {
		m, _, err := client.Exchange(query("train-0007-0.ws-000000000003.astraeus.local", dns.TypeA), fmt.Sprintf("127.0.0.1:%d", c.port))
		if err == nil && (c.name == "echo" || len(m.Answer) == 1) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatalf("%s does not answer", c.name)
}

var completed = regexp.MustCompile(`Queries completed:\s+(\d+)`)
var perSecond = regexp.MustCompile(`Queries per second:\s+([\d.]+)`)

// measure runs dnsperf against one server and reads what CPU the server took.
func (c *contestant) measure(b *testing.B, dir string) {
	before := cpuOf(b, c.cmd.Process.Pid)
	out, err := exec.Command("dnsperf", "-s", "127.0.0.1", "-p", strconv.Itoa(c.port), "-d", filepath.Join(dir, "questions"),
		"-l", strconv.Itoa(roundSeconds), "-c", "16", "-q", "400").CombinedOutput()
	require.NoError(b, err, string(out))
	spent := cpuOf(b, c.cmd.Process.Pid) - before
	number := func(re *regexp.Regexp) float64 {
		m := re.FindSubmatch(out)
		require.NotNil(b, m, string(out))
		n, err := strconv.ParseFloat(string(m[1]), 64)
		require.NoError(b, err)
		return n
	}
	c.cpu = append(c.cpu, spent.Seconds()*1e6/number(completed))
	c.qps = append(c.qps, number(perSecond))
}

// cpuOf is the CPU time of a process and its children, from /proc.
func cpuOf(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(b, err)
	parents := map[int]int{}
	ticks := map[int]int64{}
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+2:]))
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parents[id], _ = strconv.Atoi(f[1])
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		ticks[id] = user + system
	}
	for id, n := range ticks {
		for p := id; p > 1; p = parents[p] {
			if p == pid {
				sum += time.Duration(n) * 10 * time.Millisecond
				break
			}
		}
	}
	return sum
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

func report(b *testing.B, list []*contestant) {
	ours := median(list[0].cpu)
	text := fmt.Sprintf("\n%-18s %12s %10s %8s %8s\n", "server", "CPU us/query", "queries/s", "ratio", "aim")
	missed := []string{}
	for _, c := range list {
		if c.why != "" {
			continue
		}
		ratio := median(c.cpu) / ours
		aim := "-"
		if want := aims[c.name]; want > 0 {
			aim = fmt.Sprintf("%.2f", want)
			if ratio < want {
				missed = append(missed, c.name)
			}
		}
		text += fmt.Sprintf("%-18s %12.2f %10.0f %8.2f %8s\n", c.name, median(c.cpu), median(c.qps), ratio, aim)
	}
	b.Log(text)
	b.ReportMetric(ours, "us/query")
	if len(missed) > 0 {
		b.Errorf("the aim is missed against %v", missed)
	}
}

// BenchmarkServe is one of the servers of BenchmarkSideBySide, in its own process.
func BenchmarkServe(b *testing.B) {
	how, port, ok := strings.Cut(os.Getenv(askServe), " ")
	if !ok {
		b.Skip("a part of BenchmarkSideBySide")
	}
	at := netip.MustParseAddrPort("127.0.0.1:" + port)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conf := filepath.Join(b.TempDir(), "resolv.conf")
	write(b, conf, "")
	s, err := Listen(Config{Addresses: []netip.AddrPort{at}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, ResolvConf: conf,
		ClientRate: 10_000_000, plain: how == "plain"})
	require.NoError(b, err)
	s.SetZone(compiled(b, Build(benchInput()), 1))
	s.SetClients(nil)
	if how == "echo" {
		for i, pc := range s.udp {
			s.udp[i] = &echoConn{pc.(*fastConn)}
		}
	}
	require.NoError(b, s.Serve(ctx))
}

// echoConn sends each datagram back as an answer: what the same reading and writing
// costs without any answering.
type echoConn struct{ *fastConn }

func (c *echoConn) ReadFrom([]byte) (int, net.Addr, error) {
	for {
		c.got = 0
		if err := c.raw.Read(c.receiving); err != nil {
			return 0, nil, err
		}
		c.toSend = c.got
		for i := range c.got {
			msg := c.read[i][:c.in[i].len]
			msg[2] |= flagQR
			c.outVec[i] = unix.Iovec{Base: &msg[0]}
			c.outVec[i].SetLen(len(msg))
			c.out[i].hdr.Name = c.in[i].hdr.Name
		}
		c.flush()
	}
}
