// Package elem says of each element type what the packages that handle elements as bytes need
// to know: its names, how numbers are read and written, and what numbers it has.
package elem

import (
	"math"
	"unsafe"

	"github.com/locusml/locus/dtype"
)

// Float describes a floating-point type.
type Float struct {
	Digits int     // bits of the significand behind the point
	Tiny   float64 // the smallest positive number
	Normal float64 // the smallest positive number with all digits
	Max    float64 // the largest finite number
	bits   func(float64) uint64
	value  func(uint64) float64
}

var floats = [...]*Float{
	dtype.Float16: {10, 0x1p-24, 0x1p-14, 65504,
		func(x float64) uint64 { return uint64(dtype.ToF16(float32(x))) },
		func(b uint64) float64 { return float64(dtype.F16(b).Float32()) }},
	dtype.BFloat16: {7, 0x1p-133, 0x1p-126, 0x1.fep127,
		func(x float64) uint64 { return uint64(dtype.ToBF16(float32(x))) },
		func(b uint64) float64 { return float64(dtype.BF16(b).Float32()) }},
	dtype.Float32: {23, 0x1p-149, 0x1p-126, math.MaxFloat32,
		func(x float64) uint64 { return uint64(math.Float32bits(float32(x))) },
		func(b uint64) float64 { return float64(math.Float32frombits(uint32(b))) }},
	dtype.Float64: {52, 0x1p-1074, 0x1p-1022, math.MaxFloat64, math.Float64bits, math.Float64frombits},
}

// OfFloat returns the description of a floating-point type, nil for others.
func OfFloat(d dtype.DType) *Float {
	if int(d) >= len(floats) {
		return nil
	}
	return floats[d]
}

// Step is the distance between neighboring numbers at x.
func (f *Float) Step(x float64) float64 {
	if x = math.Abs(x); x < f.Normal {
		return f.Tiny
	}
	_, exp := math.Frexp(min(x, f.Max))
	return math.Ldexp(1, exp-1-f.Digits)
}

// Bits returns the bits of x, rounded to d, a floating-point type. Half precision is rounded
// from float32.
func Bits(d dtype.DType, x float64) uint64 { return floats[d].bits(x) }

// Round rounds x to d, a floating-point type, as Bits does.
func Round(d dtype.DType, x float64) float64 { return floats[d].value(floats[d].bits(x)) }

// Get reads the element at the beginning of b, which is aligned. An int64 may be rounded.
func Get(d dtype.DType, b []byte) float64 {
	p := unsafe.Pointer(&b[0])
	switch d {
	case dtype.Bool, dtype.Uint8:
		return float64(b[0])
	case dtype.Int32:
		return float64(*(*int32)(p))
	case dtype.Int64:
		return float64(*(*int64)(p))
	}
	var bits uint64
	switch d.Size() {
	case 2:
		bits = uint64(*(*uint16)(p))
	case 4:
		bits = uint64(*(*uint32)(p))
	default:
		bits = *(*uint64)(p)
	}
	return floats[d].value(bits)
}

// PutBits writes the bits of an element of d to the beginning of b, which is aligned.
func PutBits(d dtype.DType, b []byte, bits uint64) {
	p := unsafe.Pointer(&b[0])
	switch d.Size() {
	case 1:
		b[0] = uint8(bits)
	case 2:
		*(*uint16)(p) = uint16(bits)
	case 4:
		*(*uint32)(p) = uint32(bits)
	default:
		*(*uint64)(p) = bits
	}
}

// Slice returns b, which is aligned, as a slice of the Go type of d.
func Slice(d dtype.DType, b []byte) any {
	switch d {
	case dtype.Bool:
		return as[bool](b)
	case dtype.Uint8:
		return b
	case dtype.Int32:
		return as[int32](b)
	case dtype.Int64:
		return as[int64](b)
	case dtype.Float16:
		return as[dtype.F16](b)
	case dtype.BFloat16:
		return as[dtype.BF16](b)
	case dtype.Float32:
		return as[float32](b)
	}
	return as[float64](b)
}

func as[T any](b []byte) []T {
	var zero T
	if len(b) == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}

// Short is the type's name in kernels: f32, bf16, b8 for bool.
func Short(d dtype.DType) string { return shorts[d] }

var shorts = [...]string{dtype.Invalid: "", dtype.Bool: "b8", dtype.Uint8: "u8", dtype.Int32: "i32", dtype.Int64: "i64",
	dtype.Float16: "f16", dtype.BFloat16: "bf16", dtype.Float32: "f32", dtype.Float64: "f64"}

// GoName is the name of the Go constant: "Float32".
func GoName(d dtype.DType) string {
	s := d.String()
	if s[0] == 'b' && d.IsFloat() {
		return "BF" + s[2:] // BFloat16
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// Wrap returns an integer as d holds it: its low bits.
func Wrap(d dtype.DType, x int64) int64 {
	switch d {
	case dtype.Uint8:
		return int64(uint8(x))
	case dtype.Int32:
		return int64(int32(x))
	}
	return x
}
