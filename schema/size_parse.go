package schema

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var sizeUnits = map[string]float64{
	"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12, "p": 1e15, "pb": 1e15,
	"ki": 1 << 10, "kib": 1 << 10, "mi": 1 << 20, "mib": 1 << 20, "gi": 1 << 30, "gib": 1 << 30, "ti": 1 << 40, "tib": 1 << 40,
	"pi": 1 << 50, "pib": 1 << 50,
}

// ParseSize reads a size as people type it: "500G", "1.5 TB", "512MiB"; units are
// decimal as in Size, those with an i binary (D-33, D-58). Errors: it is no size,
// negative, or more than fits.
func ParseSize(text string) (int64, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(word, "abcdefghijklmnopqrstuvwxyz")
	unit, known := sizeUnits[word[len(digits):]]
	number := strings.TrimSpace(digits)
	if !known || number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no size: write it like 500G, 1.5TB or 512GiB", text)
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size: write it like 500G, 1.5TB or 512GiB", text)
	}
	if value *= unit; value >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is more than any disk holds", text)
	}
	return int64(value), nil
}
