package dnszone

import "encoding/binary"

// lowerTable maps each byte to its lower case, as DNS compares names.
var lowerTable = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

func lower(dst, src []byte) {
	for i, c := range src {
		dst[i] = lowerTable[c]
	}
}

// Parts of a message's third and fourth byte.
const (
	flagRD = 0x01 // third byte
	flagTC = 0x02
	flagAA = 0x04
	flagQR = 0x80
	flagCD = 0x10 // fourth byte
	flagAD = 0x20
	flagRA = 0x80

	rcodeNXDomain = 3

	typeA, typeSOA, typeOPT, typeIXFR, typeAXFR, typeANY = 1, 6, 41, 251, 252, 255
)

// question is an ordinary question of a message, as the fast path reads it.
type question struct {
	key    [256]byte // the lower-cased wire name
	keyLen int
	relLen int // of the key before the domain
	end    int // of the question in the message
	qtype  uint16
	opt    bool
	do     byte
	size   int // of the reply at most
}

// answerFast appends the reply to an ordinary question about a name of the zone to
// out, which must have room for maxUDPReply bytes, and returns it; nil when the
// message is anything else, which is for serveDNS to answer. It allocates nothing.
func answerFast(t *Table, q *question, in, out []byte) []byte {
	if !q.read(in) || !q.within(t.suffix) {
		return nil
	}
	rel := q.key[:q.relLen]
	rcode, tc := byte(0), byte(0)
	var list []byte
	n, fits := 0, 0
	if len(rel) == 0 {
		if q.qtype == typeSOA || q.qtype == typeANY {
			return nil
		}
	} else if e := t.find(rel); e == nil {
		rcode = rcodeNXDomain
	} else if q.qtype == typeA || q.qtype == typeANY {
		list, n = entryAddrs(e), entryCount(e)
		fixed := q.end
		if q.opt {
			fixed += optSize
		}
		if fits = min(n, (q.size-fixed)/recordSize); fits < n {
			tc = flagTC
		}
	}
	out = append(out, in[0], in[1], flagQR|flagAA|tc|in[2]&flagRD, flagRA|in[3]&flagCD|rcode,
		0, 1, byte(fits>>8), byte(fits), 0, 0, 0, 0)
	out = append(out, in[headerSize:q.end]...)
	if n > 0 {
		at := int(binary.BigEndian.Uint16(in)) % n
		for range fits {
			out = append(out, 0xC0, headerSize, 0, typeA, 0, 1, 0, 0, 0, TTL, 0, 4, list[4*at], list[4*at+1], list[4*at+2], list[4*at+3])
			if at++; at == n {
				at = 0
			}
		}
	} else {
		out[9] = 1
		out = appendSOA(out, t.soa, headerSize+q.relLen)
	}
	if q.opt {
		out[11] = 1
		out = append(out, 0, 0, typeOPT, maxUDPReply>>8, maxUDPReply&0xFF, 0, 0, q.do, 0, 0, 0)
	}
	return out
}

// read parses a message; false for all but one question of class IN with at most a
// plain OPT behind it.
func (q *question) read(in []byte) bool {
	if len(in) < headerSize+1+questionTail || in[2]&^flagRD != 0 || in[3]&^(flagAD|flagCD) != 0 ||
		binary.BigEndian.Uint64(in[4:])&^1 != 1<<48 {
		return false
	}
	at := headerSize
	for {
		if at >= len(in) {
			return false
		}
		n := int(in[at])
		if n == 0 {
			break
		}
		// A pointer, a reserved length, a name that leaves the message or is too long.
		next := at + 1 + n
		if n > 63 || next >= len(in) || next-headerSize > 254 {
			return false
		}
		at = next
	}
	at++
	q.keyLen, q.end = at-headerSize, at+questionTail
	if q.end > len(in) || binary.BigEndian.Uint16(in[at+2:]) != 1 {
		return false
	}
	q.qtype = binary.BigEndian.Uint16(in[at:])
	if q.qtype == typeOPT || q.qtype == typeIXFR || q.qtype == typeAXFR {
		return false
	}
	lower(q.key[:q.keyLen], in[headerSize:at])
	q.opt, q.do, q.size = false, 0, minUDPReply
	if in[11] == 0 {
		return len(in) == q.end
	}
	return q.readOPT(in[q.end:])
}

// readOPT parses an OPT without options at the end of a message; another record, a
// version other than 0 or options are for serveDNS.
func (q *question) readOPT(rr []byte) bool {
	if len(rr) != optSize || rr[0] != 0 || rr[1] != 0 || rr[2] != typeOPT || rr[5] != 0 || rr[6] != 0 || rr[9] != 0 || rr[10] != 0 {
		return false
	}
	q.opt, q.do = true, rr[7]&0x80
	q.size = min(max(int(binary.BigEndian.Uint16(rr[3:])), minUDPReply), maxUDPReply)
	return true
}

// within reports whether the name lies in the domain, and notes what is before it.
func (q *question) within(suffix []byte) bool {
	rel := q.keyLen - len(suffix)
	if rel < 0 || string(q.key[rel:q.keyLen]) != string(suffix) {
		return false
	}
	at := 0
	for at < rel {
		at += 1 + int(q.key[at])
	}
	q.relLen = rel
	return at == rel // else the domain's bytes stand inside a label
}
