package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
)

// conversions returns the functions between a half-precision type and float32.
func conversions[H half]() (up func(dst []float32, src []H), down func(dst []H, src []float32)) {
	var h H
	if _, ok := any(h).(dtype.F16); ok {
		return func(dst []float32, src []H) { vec.F16ToF32(dst, convert[uint16](src)) },
			func(dst []H, src []float32) { vec.F32ToF16(convert[uint16](dst), src) }
	}
	return func(dst []float32, src []H) { vec.BF16ToF32(dst, convert[uint16](src)) },
		func(dst []H, src []float32) { vec.F32ToBF16(convert[uint16](dst), src) }
}

func fromF16(dst []float32, src []dtype.F16)   { vec.F16ToF32(dst, convert[uint16](src)) }
func fromBF16(dst []float32, src []dtype.BF16) { vec.BF16ToF32(dst, convert[uint16](src)) }
