package view

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Out is where a view writes, and whether in colour.
type Out struct {
	io.Writer
	Color bool
}

type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	cyan   color = "36"
	bold   color = "1"
)

func (o Out) paint(c color, text string) string {
	if !o.Color || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// printf writes one formatted line.
func (o Out) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(o, format+"\n", args...)
	return err
}

// Plain makes foreign text safe to print on one line: control characters (which
// could rewrite what a terminal shows) and marks that turn the reading direction
// become "�".
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029:
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Count is "1 error", "2 errors".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FormatError is a format that a command does not have.
type FormatError struct {
	Format string
	Known  []string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("unknown output format %q (one of %s)", e.Format, strings.Join(e.Known, ", "))
}
