package statusapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"astraeus.io/astraeus/schema"
)

// maxDifferences keeps an answer about two very different specs short.
const maxDifferences = 50

// differences names the fields in which two versions of an object differ, as files
// write them: "spec.sources[0].path".
func differences(a, b *schema.Object) []string {
	type part struct {
		Metadata schema.Metadata `json:"metadata"`
		Spec     schema.Spec     `json:"spec"`
	}
	var list []string
	walk("", plain(part{a.Metadata, a.Spec}), plain(part{b.Metadata, b.Spec}), &list)
	if over := len(list) - maxDifferences; over > 0 {
		list = append(list[:maxDifferences], fmt.Sprintf("and %d more", over))
	}
	return list
}

// plain is a value as maps, lists and words. What cannot be one has no differences.
func plain(v any) (out any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil
	}
	return out
}

func walk(path string, a, b any, list *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	one, isMap := a.(map[string]any)
	two, alsoMap := b.(map[string]any)
	if isMap && alsoMap {
		keys := maps.Clone(one)
		maps.Copy(keys, two)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			at := key
			if path != "" {
				at = path + "." + key
			}
			walk(at, one[key], two[key], list)
		}
		return
	}
	left, isList := a.([]any)
	right, alsoList := b.([]any)
	if isList && alsoList && len(left) == len(right) {
		for i := range left {
			walk(fmt.Sprintf("%s[%d]", path, i), left[i], right[i], list)
		}
		return
	}
	*list = append(*list, path)
}
