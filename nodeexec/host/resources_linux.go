package host

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// Resources are what the agent may give to workers: processors (affinity and
// cgroup quotas taken off), memory in bytes (the machine's, or the tightest
// cgroup limit above the agent), and NVIDIA GPUs.
func (h *Host) Resources(ctx context.Context) (schema.Resources, error) {
	if err := ctx.Err(); err != nil {
		return schema.Resources{}, err
	}
	memory, err := memTotal(path.Join(h.sys.proc, "meminfo"))
	if err != nil {
		return schema.Resources{}, err
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return schema.Resources{}, fmt.Errorf("processor affinity: %w", err)
	}
	limits := h.cgroupLimits()
	return schema.Resources{
		CPUCores:    math.Min(float64(set.Count()), limits.cores),
		MemoryBytes: min(memory, limits.memory),
		GPUs:        h.gpus(),
	}, nil
}

func memTotal(file string) (int64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil && kb <= math.MaxInt64>>10 {
				return kb << 10, nil
			}
		}
	}
	return 0, fmt.Errorf("memory: no MemTotal in %s", file)
}

type limits struct {
	cores  float64
	memory int64
}

// cgroupLimits are the tightest along the agent's own cgroups, version 1 and 2:
// hybrid machines have both.
func (h *Host) cgroupLimits() limits {
	l := limits{math.Inf(1), math.MaxInt64}
	f, err := os.Open(path.Join(h.sys.proc, "self/cgroup"))
	if err != nil {
		return l
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		parts := strings.SplitN(s.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, mount := range cgroupMounts(parts[1]) {
			l.tighten(path.Join(h.sys.sys, "fs/cgroup", mount), parts[2])
		}
	}
	return l
}

func cgroupMounts(controllers string) []string {
	if controllers == "" {
		return []string{"", "unified"}
	}
	list := strings.Split(controllers, ",")
	if slices.Contains(list, "cpu") || slices.Contains(list, "memory") {
		return append(list, controllers)
	}
	return nil
}

func (l *limits) tighten(base, group string) {
	for p := path.Clean("/" + group); ; p = path.Dir(p) {
		dir := path.Join(base, p)
		if quota, period, ok := strings.Cut(readWord(path.Join(dir, "cpu.max")), " "); ok {
			l.quota(quota, period)
		}
		l.quota(readWord(path.Join(dir, "cpu.cfs_quota_us")), readWord(path.Join(dir, "cpu.cfs_period_us")))
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
			if n, err := strconv.ParseInt(readWord(path.Join(dir, file)), 10, 64); err == nil && n > 0 {
				l.memory = min(l.memory, n)
			}
		}
		if p == "/" {
			return
		}
	}
}

func (l *limits) quota(quota, period string) {
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 == nil && err2 == nil && q > 0 && p > 0 {
		l.cores = math.Min(l.cores, q/p)
	}
}

var nvidiaDevice = regexp.MustCompile(`^nvidia[0-9]+$`)

// gpus counts NVIDIA's device nodes, or without a driver its graphics
// controllers on the PCI bus.
func (h *Host) gpus() int {
	count := 0
	nodes, _ := os.ReadDir(h.sys.dev)
	for _, n := range nodes {
		if nvidiaDevice.MatchString(n.Name()) {
			count++
		}
	}
	if count > 0 {
		return count
	}
	devices, _ := filepath.Glob(path.Join(h.sys.sys, "bus/pci/devices/*"))
	for _, d := range devices {
		class := readWord(path.Join(d, "class"))
		display := strings.HasPrefix(class, "0x0300") || strings.HasPrefix(class, "0x0302")
		if display && readWord(path.Join(d, "vendor")) == "0x10de" {
			count++
		}
	}
	return count
}

// Addresses are the machine's own IP addresses on interfaces that are up,
// sorted, without loopback, link-local and multicast ones.
func (h *Host) Addresses(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ifs, addrsOf, err := h.sys.addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	var found []netip.Addr
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := addrsOf(&i)
		if err != nil {
			continue // the interface went while we looked
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if ip := p.Addr().Unmap().WithZone(""); err == nil && usable(ip) {
				found = append(found, ip)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	list := []string{}
	for _, ip := range slices.Compact(found) {
		list = append(list, ip.String())
	}
	return list, nil
}

func usable(ip netip.Addr) bool { return ip.IsGlobalUnicast() }
