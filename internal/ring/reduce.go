package ring

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/engine"
)

// reduce sets dst to a op b, element by element; divide also divides by n, for the mean.
// dst may be a or b. Sums of half-precision types are rounded once per element.
func reduce(op engine.Op, dt dtype.DType, dst, a, b []byte, n int, divide bool) {
	if dt.IsHalf() {
		halves(op, dt, as[uint16](dst), as[uint16](a), as[uint16](b), n, divide)
		return
	}
	switch dt {
	case dtype.Float32:
		d, x, y := as[float32](dst), as[float32](a), as[float32](b)
		float32s(op, d, x, y)
		if divide {
			vec.DivSF32(d, d, float32(n))
		}
	case dtype.Float64:
		d, x, y := as[float64](dst), as[float64](a), as[float64](b)
		switch op {
		case engine.Max:
			vec.MaxF64(d, x, y)
		case engine.Min:
			vec.MinF64(d, x, y)
		case engine.Product:
			vec.MulF64(d, x, y)
		default:
			vec.AddF64(d, x, y)
		}
		if divide {
			vec.DivSF64(d, d, float64(n))
		}
	case dtype.Int32:
		integers(op, as[int32](dst), as[int32](a), as[int32](b))
	case dtype.Int64:
		integers(op, as[int64](dst), as[int64](a), as[int64](b))
	default: // bool and uint8
		integers(op, dst, a, b)
	}
}

func float32s(op engine.Op, d, x, y []float32) {
	switch op {
	case engine.Max:
		vec.MaxF32(d, x, y)
	case engine.Min:
		vec.MinF32(d, x, y)
	case engine.Product:
		vec.MulF32(d, x, y)
	default:
		vec.AddF32(d, x, y)
	}
}

func halves(op engine.Op, dt dtype.DType, d, x, y []uint16, n int, divide bool) {
	var u, v [1024]float32
	for i := 0; i < len(d); i += len(u) {
		m := min(len(u), len(d)-i)
		vec.Widen(dt, u[:m], x[i:i+m])
		vec.Widen(dt, v[:m], y[i:i+m])
		float32s(op, u[:m], u[:m], v[:m])
		if divide {
			vec.DivSF32(u[:m], u[:m], float32(n))
		}
		vec.Narrow(dt, d[i:i+m], u[:m])
	}
}

func integers[T int32 | int64 | uint8](op engine.Op, d, x, y []T) {
	x, y = x[:len(d)], y[:len(d)]
	switch op {
	case engine.Max:
		for i := range d {
			d[i] = max(x[i], y[i])
		}
	case engine.Min:
		for i := range d {
			d[i] = min(x[i], y[i])
		}
	case engine.Product:
		for i := range d {
			d[i] = x[i] * y[i]
		}
	default:
		for i := range d {
			d[i] = x[i] + y[i]
		}
	}
}

// as returns memory as elements. It begins at a multiple of their size.
func as[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(*new(T))))
}
