package dnszone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/miekg/dns"
)

// resolvedStub are the addresses of systemd-resolved's stubs.
var resolvedStub = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 53}), netip.AddrFrom4([4]byte{127, 0, 0, 54})}

// maxUpstreams is how many upstreams one question is sent to (aardvark-dns#482).
const maxUpstreams = 3

// readUpstreams is the machine's own resolvers: those of resolv.conf, or of the
// file that systemd-resolved keeps where that names its stub, without our own
// addresses (coredns#1712). Without the real file the stub itself serves.
func readUpstreams(cfg *Config, own []netip.Addr) ([]netip.AddrPort, error) {
	list, err := nameservers(cfg.ResolvConf)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(a netip.Addr) bool { return slices.Contains(resolvedStub, a) }) {
		if real, err := nameservers(cfg.ResolvedConf); err == nil && len(real) > 0 {
			list = real
		}
	}
	list = slices.DeleteFunc(list, func(a netip.Addr) bool { return slices.Contains(own, a) })
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no resolver but this one", cfg.ResolvConf)
	}
	var out []netip.AddrPort
	for _, a := range list[:min(len(list), maxUpstreams)] {
		ap, err := netip.ParseAddrPort(net.JoinHostPort(a.String(), cfg.upstreamPort))
		if err != nil {
			return nil, err
		}
		out = append(out, ap)
	}
	return out, nil
}

func nameservers(file string) ([]netip.Addr, error) {
	conf, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, server := range conf.Servers {
		if a, err := netip.ParseAddr(server); err == nil && !slices.Contains(list, a.Unmap()) {
			list = append(list, a.Unmap())
		}
	}
	return list, nil
}

// rereadEvery is for changes that no event tells of: another file mounted over it.
const rereadEvery = 30 * time.Second

// follow reads the upstreams, and again whenever the directory of a file changes:
// it is replaced by a rename as often as it is written (coredns#3928).
func (f *forwarder) follow(ctx context.Context) error {
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watch.Close()
	ticker := time.NewTicker(rereadEvery)
	defer ticker.Stop()
	suspect := false
	for {
		// A directory that is not there, or can not be watched, is looked at by the clock.
		for _, dir := range f.directories() {
			if !slices.Contains(watch.WatchList(), dir) {
				_ = watch.Add(dir)
			}
		}
		// Probes leave the machine, so that none is made without a reason.
		if f.reload() || suspect {
			f.probe(ctx)
		}
		suspect = false
		select {
		case <-ctx.Done():
			f.wait.Wait()
			return nil
		case <-watch.Events:
			drain(watch.Events)
		case err := <-watch.Errors:
			f.server.log.Warn("watching resolv.conf", "error", err)
		case <-ticker.C:
			suspect = f.looping()
		case <-f.suspect:
			suspect = true
		}
	}
}

func drain(events <-chan fsnotify.Event) {
	for {
		select {
		case <-events:
		default:
			return
		}
	}
}

// directories hold the files and what they link to.
func (f *forwarder) directories() []string {
	var dirs []string
	for _, file := range []string{f.server.cfg.ResolvConf, f.server.cfg.ResolvedConf} {
		dirs = append(dirs, filepath.Dir(file))
		if target, err := filepath.EvalSymlinks(file); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// reload reads the upstreams. While the file cannot be read the last ones stay: it
// may be in the middle of being replaced. It reports whether they are others now.
func (f *forwarder) reload() (changed bool) {
	list, err := readUpstreams(&f.server.cfg, f.own)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unreadable = ""
	if err != nil {
		f.unreadable = err.Error()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return false
		}
	}
	if slices.Equal(list, f.upstreams) {
		return false
	}
	f.upstreams, f.loop = list, netip.AddrPort{}
	f.server.log.Info("names are forwarded to", "upstreams", list, "problem", f.unreadable)
	return true
}
