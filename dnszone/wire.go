package dnszone

import (
	"encoding/binary"
	"fmt"
	"strings"

	"astraeus.io/astraeus/schema"
)

// wireDomain is the lower-cased wire form of a domain, the root included.
func wireDomain(domain string) ([]byte, error) {
	if domain == "" || domain != strings.ToLower(domain) {
		return nil, fmt.Errorf("zone update: the domain %q is not in lower case", domain)
	}
	var wire []byte
	for label := range strings.SplitSeq(domain, ".") {
		if problem := schema.DNSNameProblem(label); problem != "" {
			return nil, fmt.Errorf("zone update: the domain %q cannot be one: %s", domain, problem)
		}
		wire = append(append(wire, byte(len(label))), label...)
	}
	// A worker's name and its namespace must have room before it.
	if wire = append(wire, 0); len(wire)+2*(1+schema.MaxLabel) > 255 {
		return nil, fmt.Errorf("zone update: the domain %q is too long", domain)
	}
	return wire, nil
}

// The SOA's own names: the server answers for itself, so that they need not resolve.
const (
	soaPrimary = "ns"
	soaMailbox = "hostmaster"
	// Nobody transfers the zone; refresh, retry and expire are RFC 1912's.
	soaRefresh, soaRetry, soaExpire = 7200, 1800, 1209600
)

// soaRecord is the wire form of the SOA, TTL and MINIMUM both TTL (coredns#2294),
// with three pointers to the domain's name that soaAt fills in.
func soaRecord(v schema.ZoneVersion) []byte {
	rr := []byte{0, 0, 0, 6, 0, 1} // pointer, SOA, IN
	rr = binary.BigEndian.AppendUint32(rr, TTL)
	rr = append(rr, 0, byte(2+1+len(soaPrimary)+1+len(soaMailbox)+2+20))
	rr = append(append(append(rr, byte(len(soaPrimary))), soaPrimary...), 0, 0)
	rr = append(append(append(rr, byte(len(soaMailbox))), soaMailbox...), 0, 0)
	for _, n := range []uint32{uint32(v.Serial), soaRefresh, soaRetry, soaExpire, TTL} {
		rr = binary.BigEndian.AppendUint32(rr, n)
	}
	return rr
}

// appendSOA appends the record to a message in which the domain's name is at the
// given offset.
func appendSOA(msg, rr []byte, domainAt int) []byte {
	at := len(msg)
	msg = append(msg, rr...)
	const fixed = 12
	for _, p := range [...]int{0, fixed + 1 + len(soaPrimary), fixed + 1 + len(soaPrimary) + 2 + 1 + len(soaMailbox)} {
		binary.BigEndian.PutUint16(msg[at+p:], 0xC000|uint16(domainAt))
	}
	return msg
}
