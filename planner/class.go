package planner

import (
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// class is machines of one org that every template sees alike, but for the
// drives that name a machine and the copies it has. Templates are judged once a
// class, so that no loop goes over machines times workers.
type class struct {
	index   int
	bit     uint64
	members []*machine // by name
	full    map[fullKey][]fullGroup
}

func (c *class) stand() *machine { return c.members[0] }

// buildClasses groups the machines of each org.
func (p *pass) buildClasses() {
	for _, f := range p.orgs {
		byKey := map[string]*class{}
		for _, m := range f.list {
			key := classKey(m)
			c := byKey[key]
			if c == nil {
				c = &class{index: len(f.classes), bit: 1 << (len(f.classes) % 64), full: map[fullKey][]fullGroup{}}
				byKey[key] = c
				f.classes = append(f.classes, c)
			}
			m.class = c
			c.members = append(c.members, m)
		}
	}
}

// classKey holds every fact of a machine that whyNever looks at.
func classKey(m *machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%t|%t|%t|%s|%t|%s", m.state, m.leaving, m.spec.IsSchedulable(), m.load.known, m.where, m.pending, m.spec.Engine)
	if m.location != nil {
		fmt.Fprintf(&b, "|%t", m.location.mounted)
		if !m.location.mounted {
			b.WriteString(m.location.path)
		}
	}
	fmt.Fprintf(&b, "|%t%s|", m.address != "", m.addressProblem)
	for _, port := range m.rdma {
		fmt.Fprintf(&b, "%s,%s,%t;", port.Kind, port.Fabric, port.Address != "")
	}
	if m.seen != nil {
		r := m.seen.report
		if r.Engine != nil {
			fmt.Fprintf(&b, "|e%+v", *r.Engine)
		}
		if r.Network != nil {
			fmt.Fprintf(&b, "|n%+v", *r.Network)
		}
	}
	if m.shared == nil {
		b.WriteString("|disks unknown")
	}
	for _, mount := range sharedTree(m) {
		b.WriteString("|")
		b.WriteString(mount)
	}
	return b.String()
}

// sharedTree is what decides whether a path lies on a shared filesystem: the
// shared mount points and the others below one of them.
func sharedTree(m *machine) []string {
	if len(m.shared) == 0 {
		return nil
	}
	var list []string
	for _, fs := range m.seen.report.Filesystems {
		below := slices.ContainsFunc(m.shared, func(s schema.Filesystem) bool { return schema.Covers(s.MountPoint, fs.MountPoint) })
		if fs.Shared || below {
			list = append(list, fmt.Sprintf("%s %t", fs.MountPoint, fs.Shared))
		}
	}
	slices.Sort(list)
	return list
}

// fits is the bits of the classes whose machines could take a template were they
// empty. Several classes may share a bit: the machine itself decides.
func (p *pass) fits(t *template, f *fleet) uint64 {
	if !t.judged {
		t.judged = true
		for _, c := range f.classes {
			if _, ok := p.whyNever(t, c.stand(), false); ok {
				t.classes |= c.bit
			}
		}
	}
	return t.classes
}

// fullKey is a request for resources; fullGroup the machines of a class that
// refuse it with one reason.
type fullKey struct {
	cpu, memory int64
	gpus        int
	network     schema.NetworkMode
}

type fullGroup struct {
	reason   schema.Reason // Code "" : they can take it
	machines []*machine
}

// fullGroups groups a class by what is left of its machines. It is asked when
// nothing is placed any more, so that its answers stay right.
func (c *class) fullGroups(t *template) []fullGroup {
	key := fullKey{t.cpu, t.memory, t.gpus, t.network}
	if got, ok := c.full[key]; ok {
		return got
	}
	index := map[reasonKey]int{}
	var groups []fullGroup
	for _, m := range c.members {
		r, _ := whyNoResources(t, m)
		k := reasonKey{r.Code, r.Args}
		i, seen := index[k]
		if !seen {
			i = len(groups)
			index[k] = i
			groups = append(groups, fullGroup{reason: r})
		}
		groups[i].machines = append(groups[i].machines, m)
	}
	c.full[key] = groups
	return groups
}

type reasonKey struct {
	code schema.ReasonCode
	args schema.ReasonArgs
}
