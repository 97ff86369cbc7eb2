//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math/bits"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// idx is how kernels find elements: Idx of kernels/locus.cuh.
type idx struct {
	nd, big        int32
	size, mul, shr [op.MaxRank]uint32
	stride         [3][op.MaxRank]int64
}

// clear takes all axes out.
func (x *idx) clear() { x.nd, x.big = 0, 0 }

// axis appends an axis outside those that are there, or merges it into the
// outermost one where every operand's strides allow that.
func (x *idx) axis(size int, strides [3]int) {
	if size == 1 {
		return
	}
	if n := x.nd - 1; n >= 0 {
		merge := true
		for k, s := range strides {
			merge = merge && int64(s) == x.stride[k][n]*int64(x.size[n])
		}
		if merge && int(x.size[n])*size < 1<<31 {
			x.size[n] *= uint32(size)
			return
		}
	}
	x.size[x.nd] = uint32(size)
	for k, s := range strides {
		x.stride[k][x.nd] = int64(s)
	}
	x.nd++
}

// close computes the divisors, for n elements in all.
func (x *idx) close(n int) {
	if n >= 1<<31 {
		x.big = 1
	}
	for i := range x.nd {
		d := max(uint64(x.size[i]), 1)
		s := bits.Len64(d - 1)
		x.mul[i] = uint32((1<<32)*((1<<s)-d)/d + 1)
		x.shr[i] = uint32(s)
	}
}

// beside lays out the axes but one of up to three views of one shape, and returns the
// number of lines along that one.
func (x *idx) beside(axis int, views ...*backend.View) int {
	shape, lines := views[0].Shape, 1
	for i := len(shape) - 1; i >= 0; i-- {
		if i == axis {
			continue
		}
		var strides [3]int
		for k, v := range views {
			strides[k] = v.Strides[i]
		}
		x.axis(shape[i], strides)
		lines *= shape[i]
	}
	x.close(lines)
	return lines
}

// indexAxes lays out some axes of views, outermost first in axes.
func indexAxes(axes []int, views ...*backend.View) (x idx) {
	n := 1
	for i := len(axes) - 1; i >= 0; i-- {
		var s [3]int
		for k, v := range views {
			s[k] = v.Strides[axes[i]]
		}
		x.axis(views[0].Shape[axes[i]], s)
		n *= views[0].Shape[axes[i]]
	}
	x.close(n)
	return x
}

// splitAxes divides the axes of a view: those in the set and the others.
func splitAxes(rank int, set op.AxisSet) (in, others []int) {
	var buf [2 * op.MaxRank]int
	in, others = buf[:0:op.MaxRank], buf[op.MaxRank:op.MaxRank]
	for i := range rank {
		if set.Has(i) {
			in = append(in, i)
		} else {
			others = append(others, i)
		}
	}
	return in, others
}

func sizeOf(shape, axes []int) int {
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	return n
}

// addr is where a view's first element lies.
func addr(v *backend.View) uintptr {
	return v.Block.Addr + uintptr(v.Offset*v.DType.Size())
}

func ceil(a, b int) int { return (a + b - 1) / b }
