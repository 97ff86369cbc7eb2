package board

import (
	"math"
	"strconv"
)

// axis maps values to a share of its length and knows where ticks go. web/board.js has the same rules.
type axis struct {
	scale  Scale
	lo, hi float64
}

type tick struct {
	value float64
	label string
}

// fitAxis makes an axis for values from lo to hi (none if lo > hi), with a margin of that share at both ends.
// Limits that are set win.
func fitAxis(scale Scale, limits [2]float64, lo, hi, margin float64) axis {
	if limits != [2]float64{} {
		return axis{scale, limits[0], limits[1]}
	}
	if scale == Log {
		if lo > hi {
			lo, hi = 0.1, 1
		}
		if lo == hi {
			lo, hi = lo/1.5, hi*1.5
		}
		factor := math.Exp(margin * (math.Log(hi) - math.Log(lo))) // hi/lo may be too large a number
		return axis{scale, max(lo/factor, math.SmallestNonzeroFloat64), min(hi*factor, math.MaxFloat64)}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	if lo == hi {
		half := max(math.Abs(lo)*0.1, 1e-300)
		if lo == 0 {
			half = 1
		}
		return axis{scale, lo - half, hi + half}
	}
	pad := (hi - lo) * margin
	if lo >= 0 && lo < (hi-lo)*0.06 {
		lo = 0 // an axis that begins near zero begins at zero
	} else {
		lo -= pad
	}
	return axis{scale, max(lo, -math.MaxFloat64/4), min(hi+pad, math.MaxFloat64/4)}
}

// at is where v lies: 0 at the low end, 1 at the high end. It is NaN for values that the axis cannot show.
func (a axis) at(v float64) float64 {
	if a.scale == Log {
		if v <= 0 {
			return math.NaN()
		}
		return (math.Log(v) - math.Log(a.lo)) / (math.Log(a.hi) - math.Log(a.lo))
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// ticks returns about n round values between the ends.
func (a axis) ticks(n int) []tick {
	if a.scale == Log {
		if ticks := a.logTicks(n); len(ticks) > 1 {
			return ticks
		}
	}
	step := niceStep(0.7 * (a.hi - a.lo) / float64(max(n, 1))) // 0.7: rather some more than too few
	if !(step > 0) || math.IsInf(step, 0) {
		return nil
	}
	var ticks []tick
	for k := math.Ceil(a.lo/step - 1e-9); k*step <= a.hi+step*1e-9 && len(ticks) <= 2*n+2; k++ {
		v := k*step + 0 // + 0 makes -0 a plain 0
		ticks = append(ticks, tick{v, formatTick(v, step, max(math.Abs(a.lo), math.Abs(a.hi)))})
	}
	return ticks
}

// niceStep is the least of 1, 2, 5 times a power of ten that is not below raw.
func niceStep(raw float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks are powers of ten, with 2 and 5 times those between them if there are few, or only some of them if many.
func (a axis) logTicks(n int) []tick {
	first, last := int(math.Floor(math.Log10(a.lo))), int(math.Ceil(math.Log10(a.hi)))
	decades := math.Log10(a.hi) - math.Log10(a.lo)
	every := max(1, int(math.Ceil(decades/float64(max(n, 1)))))
	multiples := []float64{1}
	if decades < 2.5 {
		multiples = []float64{1, 2, 5}
	}
	var ticks []tick
	for d := first; d <= last; d++ {
		if d%every != 0 {
			continue
		}
		for _, m := range multiples {
			v := m * math.Pow10(d)
			if v >= a.lo*(1-1e-9) && v <= a.hi*(1+1e-9) && !math.IsInf(v, 0) {
				ticks = append(ticks, tick{v, formatPlain(v)})
			}
		}
	}
	return ticks
}

// formatTick writes v with the digits that a step of that size needs, on an axis whose values go up to biggest.
func formatTick(v, step, biggest float64) string {
	if v == 0 {
		return "0"
	}
	suffix := ""
	switch {
	case biggest >= 1e15 || biggest < 1e-3:
		digits := max(0, int(math.Floor(math.Log10(math.Abs(v))+1e-9)-math.Floor(math.Log10(step)+1e-9)))
		return shortExponent(strconv.FormatFloat(v, 'e', min(digits, 15), 64))
	case biggest >= 1e12:
		v, step, suffix = v/1e12, step/1e12, "T"
	case biggest >= 1e9:
		v, step, suffix = v/1e9, step/1e9, "G"
	case biggest >= 1e6:
		v, step, suffix = v/1e6, step/1e6, "M"
	case biggest >= 1e4:
		v, step, suffix = v/1e3, step/1e3, "k"
	}
	return strconv.FormatFloat(v, 'f', max(0, -int(math.Floor(math.Log10(step)+1e-9))), 64) + suffix
}

// formatPlain writes a round value that stands alone.
func formatPlain(v float64) string {
	if v >= 0.9e-3 && v < 0.9e4 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return shortExponent(strconv.FormatFloat(v, 'e', 0, 64))
}

// shortExponent turns 2e-04 into 2e-4 and 1e+06 into 1e6.
func shortExponent(s string) string {
	mantissa, exponent := s, ""
	for i := range s {
		if s[i] == 'e' {
			mantissa, exponent = s[:i], s[i+1:]
		}
	}
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return s
	}
	return mantissa + "e" + strconv.Itoa(n)
}
