package backendtest

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
	"github.com/locusml/locus/internal/random"
)

// create evaluates creation ops. What package random says holds to the bit;
// only float64 normal numbers may differ in the last places.
func create(s sample.Sample, e *expected) {
	a, ok := s.Attrs.(op.Random)
	if !ok {
		createPlain(s.Attrs.(op.Create), s.Op, e)
		return
	}
	for i := range e.len() {
		n := a.First + uint64(i)
		w32, w64 := random.Word32(a.Key, n), random.Word64(a.Key, n)
		switch {
		case s.Op == op.RandBits:
			e.ints[i] = random.Bits63(w64)
		case s.Op == op.RandInt:
			e.ints[i] = a.Low + int64(random.Bounded(w64, uint64(a.Span)))
		case s.Op == op.RandUniform && a.DType == dtype.Float64:
			e.floats[i] = random.Uniform64(w64)
		case s.Op == op.RandUniform:
			e.floats[i] = belowOne(a.DType, random.Uniform32(w32))
		case a.DType == dtype.Float64:
			e.floats[i] = random.Normal64(w64)
		default:
			e.floats[i] = float64(random.Normal32(w32))
		}
	}
	e.exact, e.signs = true, true
	if s.Op == op.RandNormal && a.DType == dtype.Float64 {
		e.exact, e.signs, e.units = false, false, 64
		return
	}
	e.bits = make([]byte, e.len()*e.dtype.Size())
	for i := range e.len() {
		if e.floats != nil {
			sample.PutFloat(e.dtype, e.bits, i, e.floats[i])
		} else {
			sample.PutInt(e.dtype, e.bits, i, e.ints[i])
		}
	}
}

// belowOne rounds u to d; what would become 1 becomes the largest value below.
func belowOne(d dtype.DType, u float32) float64 {
	if !d.IsHalf() {
		return float64(u)
	}
	return min(elem.Round(d, float64(u)), 1-elem.OfFloat(d).Step(0.5))
}
