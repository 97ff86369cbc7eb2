package dtype

import (
	"math"
	"strconv"
)

// F16 is an IEEE 754 half-precision number: 5 bits of exponent, 10 of mantissa.
type F16 uint16

// BF16 is a bfloat16 number: the upper half of a float32.
type BF16 uint16

// ToBF16 rounds f to the nearest bfloat16, ties to even. NaN stays NaN.
func ToBF16(f float32) BF16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return BF16(u>>16 | 0x40) // keep it a NaN when the low bits held all of its payload
	}
	return BF16((u + 0x7fff + u>>16&1) >> 16)
}

// Float32 returns b's value, exactly.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// String formats the value.
func (b BF16) String() string { return strconv.FormatFloat(float64(b.Float32()), 'g', 4, 32) }

// ToF16 rounds f to the nearest half-precision number, ties to even; numbers that are
// too large become infinite, NaN stays NaN.
func ToF16(f float32) F16 {
	u := math.Float32bits(f)
	sign := F16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00
	case u >= 0x47800000: // 65536 and up, infinity included
		return sign | 0x7c00
	case u < 0x38800000: // subnormal in half precision: let float32 addition do the rounding
		const magic = 0.5
		r := math.Float32bits(math.Float32frombits(u) + magic)
		return sign | F16(r-math.Float32bits(magic))
	}
	// Rebias the exponent and round; a carry out of the mantissa is just what is wanted.
	u += (15-127)<<23&0xffffffff + 0xfff + u>>13&1
	return sign | F16(u>>13)
}

// Float32 returns h's value, exactly.
func (h F16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	v := float32(frac) * (1.0 / (1 << 24))
	if sign != 0 {
		v = -v
	}
	return v
}

// String formats the value.
func (h F16) String() string { return strconv.FormatFloat(float64(h.Float32()), 'g', 5, 32) }
