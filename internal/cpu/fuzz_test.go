package cpu

import (
	"math"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// layout reads a shape and the strides of views of it from bytes: any order of axes,
// steps, broadcast and backward axes, constants.
type layout struct{ data []byte }

func (l *layout) below(n int) int {
	if len(l.data) == 0 {
		return 0
	}
	b := l.data[0]
	l.data = l.data[1:]
	return int(b) % n
}

// sizes has ones for every path: scalars, short rows, tiles, rows and more than a chunk.
var sizes = []int{1, 2, 3, 5, 17, 33, 50, 64, 130, 1100}

func (l *layout) shape() []int {
	shape := make([]int, l.below(5))
	total := 1
	for i := range shape {
		shape[i] = sizes[l.below(len(sizes))]
		if total*shape[i] > 200000 {
			shape[i] = 2
		}
		total *= shape[i]
	}
	if len(shape) > 0 && l.below(16) == 15 {
		shape[0] = 0
	}
	return shape
}

// view makes a view of the shape with float32 elements.
func (l *layout) view(t testing.TB, shape []int) backend.View {
	if l.below(8) == 7 {
		return backend.View{Bits: 0x40490fdb, Shape: shape, Strides: make([]int, len(shape)), DType: dtype.Float32}
	}
	strides := make([]int, len(shape))
	order := make([]int, len(shape))
	for i := range order {
		j := l.below(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	size, offset := 1, l.below(3)
	for _, ax := range order {
		step := []int{1, 1, 1, 1, 0, -1, 2, -3}[l.below(8)]
		strides[ax] = step * size
		reach := max(step, -step)
		if step < 0 {
			offset += (max(shape[ax], 1) - 1) * reach * size
		}
		if reach > 0 {
			size *= reach * max(shape[ax], 1)
		}
		if size > 1<<21 {
			size = 1 << 21
		}
	}
	lowest, highest := offset, offset
	for i, n := range shape {
		if n > 1 && strides[i] > 0 {
			highest += (n - 1) * strides[i]
		} else if n > 1 {
			lowest += (n - 1) * strides[i]
		}
	}
	if lowest < 0 {
		offset -= lowest
		highest -= lowest
	}
	v := backend.View{Block: block(t, 4*(highest+1)), Offset: offset, Shape: shape, Strides: strides, DType: dtype.Float32}
	for i := range whole[float32](&v) {
		whole[float32](&v)[i] = float32(i%1013) + 0.5
	}
	return v
}

// at reads element number n of a view.
func at(v *backend.View, n int) float32 {
	if v.Const() {
		return math.Float32frombits(uint32(v.Bits))
	}
	p := v.Offset
	for i := len(v.Shape) - 1; i >= 0; i-- {
		p += n % v.Shape[i] * v.Strides[i]
		n /= v.Shape[i]
	}
	return whole[float32](v)[p]
}

// Copying, negating, subtracting and choosing on views of any strides give what
// reading them element by element does.
func FuzzStrided(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 40)
		for j := range seed {
			seed[j] = byte((i*131 + j*j*29 + i*j*7) >> 1)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &layout{data}
		shape := l.shape()
		n := op.Elements(shape)
		x, y := l.view(t, shape), l.view(t, shape)
		out := backend.View{Block: block(t, 4*n), Shape: shape, Strides: op.Strides(shape), DType: dtype.Float32}
		cond := backend.View{Block: block(t, n+1), Shape: shape, Strides: op.Strides(shape), DType: dtype.Bool}
		for i := range whole[uint8](&cond) {
			whole[uint8](&cond)[i] = uint8(i % 3 & 1)
		}
		run := func(id op.ID, want func(i int) float32, in ...backend.View) {
			t.Helper()
			if err := Open().Run(&backend.Call{Op: id, In: in, Out: out}); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return
			}
			for i, got := range elements[float32](&out, n) {
				if want := want(i); got != want {
					t.Fatalf("%s of %v with strides %v and %v: element %d is %v, want %v", id, shape, x.Strides, y.Strides, i, got, want)
				}
			}
		}
		run(op.Sub, func(i int) float32 { return at(&x, i) - at(&y, i) }, x, y)
		run(op.Where, func(i int) float32 {
			if i%3&1 == 1 {
				return at(&x, i)
			}
			return at(&y, i)
		}, cond, x, y)
		if !x.Const() {
			run(op.Copy, func(i int) float32 { return at(&x, i) }, x)
			run(op.Neg, func(i int) float32 { return -at(&x, i) }, x)
		}
	})
}
