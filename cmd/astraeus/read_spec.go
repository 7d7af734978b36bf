package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
)

// longestField is how much of one field's value a table shows.
const longestField = 120

// specTable shows the fields of a spec, down to those that hold no others.
func specTable(spec schema.Spec) view.Table {
	table := view.Table{Title: "Spec", Header: []string{"FIELD", "VALUE"}}
	data, err := json.Marshal(spec)
	if err != nil {
		return table
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // sizes in bytes are not floats
	if dec.Decode(&value) == nil {
		specRows(&table, "", value)
	}
	return table
}

func specRows(t *view.Table, at string, value any) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			field := strings.TrimPrefix(at+"."+name, ".")
			// What may be secret is not shown.
			if name == "env" {
				specRows(t, field, namesOnly(v[name]))
			} else if name == "content" && strings.Contains(at, "config_files") {
				t.Rows = append(t.Rows, []string{field, "not shown"})
			} else {
				specRows(t, field, v[name])
			}
		}
	case []any:
		if words, ok := plainWords(v); ok {
			t.Rows = append(t.Rows, []string{at, shortened(strings.Join(words, ", "))})
			return
		}
		for i, element := range v {
			specRows(t, fmt.Sprintf("%s[%d]", at, i), element)
		}
	default:
		t.Rows = append(t.Rows, []string{at, shortened(fmt.Sprint(v))})
	}
}

// namesOnly are the names of variables, whose values may be secret.
func namesOnly(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	var names []any
	for name := range fields {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return names
}

func plainWords(list []any) (words []string, ok bool) {
	for _, v := range list {
		switch v.(type) {
		case map[string]any, []any:
			return nil, false
		}
		words = append(words, fmt.Sprint(v))
	}
	return words, true
}

func shortened(text string) string {
	if utf8.RuneCountInString(text) <= longestField {
		return text
	}
	return string([]rune(text)[:longestField-1]) + "…"
}
