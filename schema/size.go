package schema

import (
	"fmt"
	"strconv"
)

// Size writes bytes in decimal units with three significant digits (D-58):
// 107374182400 is "107 GB", 40000000000 is "40.0 GB".
func Size(bytes int64) string {
	if bytes < 0 {
		return "-" + Size(-bytes)
	}
	if bytes < 1000 {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	units := []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	value := float64(bytes) / 1000
	for i, unit := range units {
		// 999.5 would round to "1000" in three digits: the next unit says it as "1.00".
		if value < 999.5 || i == len(units)-1 {
			return fmt.Sprintf("%.*f %s", sizeDecimals(value), value, unit)
		}
		value /= 1000
	}
	return ""
}

func sizeDecimals(value float64) int {
	switch {
	case value < 9.995:
		return 2
	case value < 99.95:
		return 1
	}
	return 0
}
