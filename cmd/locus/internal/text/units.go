package text

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Count returns an integer with its thousands set off: "60,000".
func Count[T ~int | ~int64](n T) string {
	if n < 0 {
		return "-" + Count(-n)
	}
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}

// Many returns "1 epoch", "2 epochs".
func Many[T ~int | ~int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + what + "s"
}

// Duration returns a time with three digits: "1.23 ms".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return three(float64(d)/1e3) + " µs"
	case d < time.Second:
		return three(float64(d)/1e6) + " ms"
	case d < 100*time.Second:
		return three(float64(d)/1e9) + " s"
	}
	return d.Round(time.Second).String()
}

// Number returns a number with three digits.
func Number(v float64) string { return three(v) }

func three(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
