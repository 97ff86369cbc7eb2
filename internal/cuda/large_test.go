//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// twins are the GPU and the CPU with the same data, for shapes that are too
// large for the suite's samples and its plain loops.
type twins struct {
	t    *testing.T
	devs [2]backend.Device
	pool [2]*memory.Pool
}

func newTwins(t *testing.T) *twins {
	w := &twins{t: t, devs: [2]backend.Device{newDevice(gpu(t).card, 0, "test"), cpu.Open()}}
	for i, d := range w.devs {
		w.pool[i] = memory.NewPool(d)
		t.Cleanup(w.pool[i].Trim)
	}
	return w
}

func (w *twins) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// operand is one tensor on both: a view of some of the elements of a larger one.
type operand [2]backend.View

func (w *twins) empty(t dtype.DType, shape []int) (x operand) {
	for i := range x {
		b, err := w.pool[i].Allocate(op.Elements(shape)*t.Size(), func() memory.Label { return memory.Label{} })
		w.ok(err)
		w.t.Cleanup(func() { b.Free() })
		x[i] = backend.View{Block: b, Shape: shape, Strides: op.Strides(shape), DType: t}
	}
	return x
}

func (w *twins) random(t dtype.DType, key uint64, shape ...int) operand {
	x := w.empty(t, shape)
	call := backend.Call{Op: op.RandNormal, Attrs: op.Random{DType: t, Shape: op.DimsOf(shape), Key: key}}
	if !t.IsFloat() {
		call.Op, call.Attrs = op.RandInt, op.Random{DType: t, Shape: op.DimsOf(shape), Key: key, Low: 0, Span: 200}
	}
	call.Out = x[1]
	w.ok(w.devs[1].Run(&call))
	host := make([]byte, op.Elements(shape)*t.Size())
	w.ok(w.devs[1].CopyOut(host, x[1].Block, 0))
	w.ok(w.devs[0].CopyIn(x[0].Block, host, nil))
	return x
}

// run runs a call on both and returns the results as float64.
func (w *twins) run(id op.ID, attrs op.Attrs, t dtype.DType, shape []int, in ...operand) (got, want []float64) {
	out := w.empty(t, shape)
	var values [2][]float64
	for i, d := range w.devs {
		call := backend.Call{Op: id, Attrs: attrs, Out: out[i]}
		for _, x := range in {
			call.In = append(call.In, x[i])
		}
		w.ok(d.Run(&call))
		raw := make([]uint64, op.Elements(shape)*t.Size()/8+1)
		host := unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), op.Elements(shape)*t.Size())
		w.ok(d.CopyOut(host, out[i].Block, 0))
		values[i] = make([]float64, op.Elements(shape))
		for j := range values[i] {
			values[i][j] = valueOf(t, unsafe.Pointer(&host[j*t.Size()]))
		}
	}
	return values[0], values[1]
}

func valueOf(t dtype.DType, p unsafe.Pointer) float64 {
	switch t {
	case dtype.Float32:
		return float64(*(*float32)(p))
	case dtype.Float64:
		return *(*float64)(p)
	case dtype.BFloat16:
		return float64((*(*dtype.BF16)(p)).Float32())
	case dtype.Float16:
		return float64((*(*dtype.F16)(p)).Float32())
	case dtype.Int32:
		return float64(*(*int32)(p))
	case dtype.Int64:
		return float64(*(*int64)(p))
	}
	return float64(*(*uint8)(p))
}

// vanishing is so small, in the type that products are computed in, that parts of
// one may have lost digits.
var vanishing = map[dtype.DType]float64{dtype.Float32: 0x1p-102, dtype.BFloat16: 0x1p-102, dtype.Float64: 0x1p-970}

// Reductions by one warp, one block, many blocks that find each other, and tiles
// of columns; along axes that lie together and apart, aligned and not.
func TestLargeReductions(t *testing.T) {
	w := newTwins(t)
	view := func(x operand, offset int, shape, strides []int) operand {
		for i := range x {
			x[i].Offset, x[i].Shape, x[i].Strides = offset, shape, strides
		}
		return x
	}
	const n = 1 << 21
	for _, typ := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.BFloat16, dtype.Uint8} {
		x := w.random(typ, 5, n)
		for name, c := range map[string]struct {
			x    operand
			axes []int
		}{
			"warp":              {view(x, 0, []int{700, 1024}, []int{1024, 1}), []int{1}},
			"block 1025":        {view(x, 0, []int{1025}, []int{1}), []int{0}},
			"block 10000":       {view(x, 0, []int{100, 100}, []int{100, 1}), []int{0, 1}},
			"block, unaligned":  {view(x, 3, []int{7, 9001}, []int{9001, 1}), []int{1}},
			"all":               {view(x, 0, []int{n}, []int{1}), []int{0}},
			"all, ragged":       {view(x, 1, []int{n - 6}, []int{1}), []int{0}},
			"all, strided":      {view(x, 0, []int{n / 3}, []int{3}), []int{0}},
			"all, two axes":     {view(x, 0, []int{1000, 1024}, []int{2048, 1}), []int{0, 1}},
			"few long rows":     {view(x, 0, []int{5, 400000}, []int{400000, 1}), []int{1}},
			"columns":           {view(x, 0, []int{2000, 1024}, []int{1024, 1}), []int{0}},
			"columns, ragged":   {view(x, 0, []int{1999, 1021}, []int{1021, 1}), []int{0}},
			"columns, shifted":  {view(x, 1, []int{999, 1024}, []int{1024, 1}), []int{0}},
			"columns, few":      {view(x, 0, []int{50000, 40}, []int{40, 1}), []int{0}},
			"columns, many":     {view(x, 0, []int{70, 29000}, []int{29000, 1}), []int{0}},
			"columns, backward": {view(x, n-1024, []int{2000, 1024}, []int{-1024, 1}), []int{0}},
			"outer and inner":   {view(x, 0, []int{30, 64, 1000}, []int{64000, 1000, 1}), []int{0, 2}},
			"outer two":         {view(x, 0, []int{30, 50, 1000}, []int{64000, 1000, 1}), []int{0, 1}},
			"middle":            {view(x, 0, []int{30, 64, 1000}, []int{64000, 1000, 1}), []int{1}},
			"short":             {view(x, 0, []int{60, 30000}, []int{30000, 1}), []int{0}},
		} {
			for _, id := range []op.ID{op.Sum, op.Norm, op.Max, op.Min, op.Prod, op.LogSumExp, op.ArgMax, op.ArgMin} {
				if !w.devs[0].Supports(id, typ) || (id == op.ArgMax || id == op.ArgMin) && len(c.axes) > 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", typ, name, id), func(t *testing.T) {
					w.t = t
					shape, length := append([]int(nil), c.x[0].Shape...), 1
					for _, a := range c.axes {
						length *= shape[a]
						shape[a] = 1
					}
					var attrs op.Attrs = op.Reduce{Axes: op.AxesOf(c.axes...)}
					out := typ
					if id == op.ArgMax || id == op.ArgMin {
						attrs, out = op.Axis{Axis: c.axes[0]}, dtype.Int64
					}
					got, want := w.run(id, attrs, out, shape, c.x)
					again, _ := w.run(id, attrs, out, shape, c.x)
					eps := map[dtype.DType]float64{dtype.Float32: 0x1p-22, dtype.Float64: 0x1p-50, dtype.Float16: 0x1p-9, dtype.BFloat16: 0x1p-6}[out]
					if id == op.Max || id == op.Min {
						eps = 0
					}
					for i := range want {
						bound := eps * (math.Abs(want[i]) + 4*math.Sqrt(float64(length)))
						if id == op.Prod { // where parts of a product are subnormal, its digits depend on the order
							bound = eps*math.Abs(want[i])*math.Sqrt(float64(length)) + vanishing[out]
						}
						same := got[i] == want[i] || got[i] != got[i] && want[i] != want[i]
						if !same && !(math.Abs(got[i]-want[i]) <= bound) {
							t.Fatalf("result %d of %d is %v, want %v ± %v", i, len(want), got[i], want[i], bound)
						}
						if again[i] != got[i] && got[i] == got[i] {
							t.Fatalf("result %d is %v and then %v", i, got[i], again[i])
						}
					}
				})
			}
		}
	}
}

// Joining many pieces and uneven ones, and gathering rows of every width.
func TestJoinsAndRows(t *testing.T) {
	w := newTwins(t)
	same := func(name string, got, want []float64) {
		t.Helper()
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: element %d of %d is %v, want %v", name, i, len(want), got[i], want[i])
			}
		}
	}
	for _, c := range []struct {
		pieces int
		shape  []int
		axis   int
		grow   int // what each piece is longer by along the axis
	}{{1000, []int{1}, 0, 0}, {2, []int{64, 64}, 0, 0}, {3, []int{64, 64}, 1, 0}, {5, []int{7, 3}, 1, 1}, {81, []int{3, 2, 5}, 1, 1}, {4, []int{1000, 100}, 0, 1}, {80, []int{0, 4}, 0, 1}} {
		for _, typ := range []dtype.DType{dtype.Float32, dtype.Uint8, dtype.Float64, dtype.BFloat16} {
			var in []operand
			shape := append([]int(nil), c.shape...)
			shape[c.axis] = 0
			for i := range c.pieces {
				s := append([]int(nil), c.shape...)
				s[c.axis] += i * c.grow
				shape[c.axis] += s[c.axis]
				x := w.random(typ, uint64(i), append(append([]int(nil), s...), 2)...)
				for k := range x { // every third is not contiguous
					x[k].Shape, x[k].Strides = s, op.Strides(s)
					if i%3 == 2 {
						for a := range x[k].Strides {
							x[k].Strides[a] *= 2
						}
					}
				}
				in = append(in, x)
			}
			got, want := w.run(op.Concat, op.Axis{Axis: c.axis}, typ, shape, in...)
			same(fmt.Sprintf("%d pieces of %s %v", c.pieces, typ, c.shape), got, want)
		}
	}
	for _, width := range []int{1, 4, 32, 63, 64, 65, 100, 128, 512, 516, 4096} {
		for _, typ := range []dtype.DType{dtype.Float32, dtype.Uint8, dtype.Float64, dtype.Float16} {
			for _, index := range []dtype.DType{dtype.Int32, dtype.Int64} {
				x, i := w.random(typ, 1, 200, width), w.random(index, 2, 30, 11)
				got, want := w.run(op.Take, op.Axis{Axis: 0}, typ, []int{30, 11, width}, x, i)
				same(fmt.Sprintf("rows of %d %s", width, typ), got, want)
			}
		}
	}
}
