package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// declaration is an object's file for the repository, as `astraeus fmt` would
// write it. Strings are written as JSON, which CUE reads alike: a path with
// quotes or "\(" in it stays a path.
func declaration(kind schema.Kind, name string, spec any) ([]byte, error) {
	return declarationOf(kind, schema.Metadata{Name: name}, spec)
}

// declarationOf is declaration with more metadata than a name.
func declarationOf(kind schema.Kind, meta schema.Metadata, spec any) ([]byte, error) {
	data, err := plainJSON(spec)
	if err != nil {
		return nil, err
	}
	about, err := plainJSON(meta)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kind: %q\n", string(kind))
	if name, err := plainJSON(meta.Name); err == nil && string(about) == `{"name":`+string(name)+`}` {
		fmt.Fprintf(&b, "metadata: name: %s\n", name)
	} else {
		b.WriteString("metadata: ")
		dec := json.NewDecoder(bytes.NewReader(about))
		if err := writeCUE(&b, dec, 0); err != nil {
			return nil, err
		}
		b.WriteString("\n")
	}
	if string(data) != "{}" {
		b.WriteString("spec: ")
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := writeCUE(&b, dec, 0); err != nil {
			return nil, err
		}
		b.WriteString("\n")
	}
	return load.Format("new.cue", []byte(b.String()))
}

// plainJSON leaves "<" and ">" as they are: people read it.
func plainJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// writeCUE writes the decoder's next value, its fields in their order. Field
// names are those of our own types, which need no quotes.
func writeCUE(b *strings.Builder, dec *json.Decoder, depth int) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	opening, isDelim := token.(json.Delim)
	if !isDelim {
		text, err := plainJSON(token)
		b.Write(text)
		return err
	}
	indent := strings.Repeat("\t", depth+1)
	b.WriteString(opening.String())
	for first := true; dec.More(); first = false {
		if opening == '[' {
			if !first {
				b.WriteString(", ")
			}
		} else {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "\n%s%s: ", indent, name)
		}
		if err := writeCUE(b, dec, depth+1); err != nil {
			return err
		}
	}
	closing, err := dec.Token()
	if err != nil {
		return err
	}
	if opening == '{' {
		b.WriteString("\n" + indent[1:])
	}
	fmt.Fprint(b, closing)
	return nil
}
