package main

import "encoding/json"

// items is the value of a listing: {"items": […]} with one JSON value a row, so
// that rows can be left out without knowing their type.
type items struct {
	Items []json.RawMessage `json:"items"`
}

func itemsOf[T any](list []T) (items, error) {
	out := items{Items: []json.RawMessage{}}
	for _, v := range list {
		data, err := json.Marshal(v)
		if err != nil {
			return items{}, err
		}
		out.Items = append(out.Items, data)
	}
	return out, nil
}

func (items) none() items { return items{Items: []json.RawMessage{}} }

func (i items) with(from items, index int) items {
	return items{append(i.Items, from.Items[index])}
}
