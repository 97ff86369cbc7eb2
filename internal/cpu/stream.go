package cpu

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// Results that do not fit the caches are written past them, which saves
// reading the memory that is about to be overwritten.

// streams has the float32 kernels that always write past the caches, for parts of
// large results.
var streams [op.NumOps]kernel

func registerBinaryStream(id op.ID, grain int, f32, stream loop2[float32, float32], f64 loop2[float64, float64]) {
	registerBinary(id, grain, f32, f64)
	streams[id] = binary(grain, stream)
	directs[id][dtype.Float32].stream = direct2(stream)
	table[id][dtype.Float32] = bySize(binary(grain, f32), streams[id])
}

func registerUnaryStream(id op.ID, grain int, f32, stream loop1[float32, float32], f64 loop1[float64, float64]) {
	registerUnary(id, grain, f32, f64)
	streams[id] = unary(grain, stream)
	directs[id][dtype.Float32].stream = direct1(stream)
	table[id][dtype.Float32] = bySize(unary(grain, f32), streams[id])
}

func bySize(small, large kernel) kernel {
	return func(c *backend.Call) error {
		if c.Out.Elements() < vec.StreamBytes/4 {
			return small(c)
		}
		return large(c)
	}
}

// byLines is bySize for ops along axes: large is for lines that are written where
// they belong, not gathered first.
func byLines(axes func(*backend.Call) op.AxisSet, small, large kernel) kernel {
	return func(c *backend.Call) error {
		if c.Out.Elements() < vec.StreamBytes/4 || !c.In[0].Contiguous() || !trailing(c.Out.Shape, axes(c)) {
			return small(c)
		}
		return large(c)
	}
}
