// Package units writes sizes of memory as people read them.
package units

import (
	"strconv"
	"strings"
)

// Bytes returns n with its unit: "512 B", "1.5 KiB", "64 MiB", "139.8 GiB".
func Bytes[T ~int | ~int64](n T) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := int64(1) << (40 - 10*i); int64(n) >= size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(size), 'f', 1, 64), ".0") + " " + unit
		}
	}
	return strconv.FormatInt(int64(n), 10) + " B"
}
