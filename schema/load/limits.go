package load

import (
	"bytes"
	"time"
	"unicode/utf8"

	"astraeus.io/astraeus/schema"
)

// Limits of what is read (X-35, and "one hostile file cannot stop the rest").
const (
	defaultMaxFileBytes = 1 << 20
	defaultEvalTimeout  = 2 * time.Second
	maxObjectBytes      = 512 << 10 // an object as JSON
	maxConfigFileBytes  = 256 << 10 // config_files of one template, paths and contents
	maxPlacementBytes   = 800_000   // a run's placement: spec and workers, and addresses it had; the store takes 1 MB a value
	placedWorkerBytes   = 384       // one worker in it, with how it ended
	maxDepth            = 64        // nesting of structs and lists
	maxFields           = 5000      // of one struct of plain CUE, which are compared one with another
	maxContexts         = 500       // evaluations in one CUE context; a context never frees
	maxChildHeap        = 512 << 20
	maxNesting          = 2000 // raw brackets, before any recursive parser sees the text
)

var bom = []byte("\xef\xbb\xbf")

// sanitize removes a byte order mark and refuses text that no format allows.
func sanitize(file string, src []byte) ([]byte, *fault) {
	src = bytes.TrimPrefix(src, bom)
	at := bytes.IndexByte(src, 0)
	text := sayNUL
	if at < 0 && !utf8.Valid(src) {
		text = sayNotUTF8
		for at = 0; at < len(src); {
			r, size := utf8.DecodeRune(src[at:])
			if r == utf8.RuneError && size <= 1 {
				break
			}
			at += size
		}
	}
	if at >= 0 {
		return nil, &fault{Pos: indexLines(src).pos(file, at), Code: schema.CodeSyntax, Text: text}
	}
	if at := tooNested(src); at >= 0 {
		return nil, &fault{Pos: indexLines(src).pos(file, at), Code: schema.CodeUnreadable, Text: sayDepth}
	}
	return src, nil
}

// tooNested finds where raw brackets nest deeper than any parser is given, or -1.
// Brackets in strings count too; no honest text comes near.
func tooNested(src []byte) int {
	depth := 0
	for i, c := range src {
		switch c {
		case '{', '[', '(':
			if depth++; depth > maxNesting {
				return i
			}
		case '}', ']', ')':
			if depth > 0 {
				depth--
			}
		}
	}
	return -1
}
