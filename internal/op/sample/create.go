package sample

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
)

func (b *builder) creations() {
	shapes := [][]int{{}, {1}, {0}, {3}, {2, 3}, {2, 0, 3}, {5, 7, 3}, {2, 1, 3, 1, 2}, {1027}, {1 << 16}}
	for i, shape := range shapes {
		dims := op.DimsOf(shape)
		switch b.def.ID {
		case op.Full:
			for _, x := range []float64{0, 1, 2.5, -3} {
				c := op.Create{DType: b.d, Shape: dims}
				switch {
				case b.d.IsFloat():
					c.Value = x
				case b.d == dtype.Bool:
					c.IValue = int64(x) & 1
				default:
					c.IValue = elem.Wrap(b.d, int64(x))
				}
				b.add(c, shape)
			}
			if b.d.IsFloat() {
				b.add(op.Create{DType: b.d, Shape: dims, Value: math.Inf(-1)}, shape)
			}
		case op.Arange:
			if op.Elements(shape) > 2000 && b.d.Size() < 4 {
				continue // the numbers would leave the type's range
			}
			for _, r := range [][2]float64{{0, 1}, {2, 3}, {-1.5, 0.1}, {5, -2}} {
				if b.d.IsFloat() {
					b.add(op.Create{DType: b.d, Shape: dims, Value: r[0], Step: r[1]}, shape)
				} else {
					b.add(op.Create{DType: b.d, Shape: dims, IValue: int64(r[0]), IStep: int64(r[1])}, shape)
				}
			}
		default:
			for _, key := range []uint64{0, 42, 0x9E3779B97F4A7C15 * uint64(i+1)} {
				r := op.Random{DType: b.d, Shape: dims, Key: key}
				if key != 0 { // at every place of a counter block, and behind 32 bits
					r.First = []uint64{4, 1, 2, 3, 1<<34 + 6, 4095}[i%6]
				}
				if b.def.ID == op.RandInt {
					r.Low, r.Span = 3, 10
					if b.d != dtype.Uint8 && key != 0 {
						r.Low, r.Span = -1<<30, 1<<31-1
					}
					if b.d == dtype.Int64 && key > 42 {
						r.Low, r.Span = math.MinInt64, math.MaxInt64
					}
				}
				b.add(r, shape)
			}
		}
	}
}
