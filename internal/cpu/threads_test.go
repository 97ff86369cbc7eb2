package cpu

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// sampleCall puts a sample's operands into blocks.
func sampleCall(t testing.TB, s sample.Sample) *backend.Call {
	t.Helper()
	c := &backend.Call{Op: s.Op, Attrs: s.Attrs, Out: backend.View{
		Block: block(t, op.Elements(s.Out.Shape)*s.Out.DType.Size()),
		Shape: s.Out.Shape, Strides: op.Strides(s.Out.Shape), DType: s.Out.DType,
	}}
	if def := op.Get(s.Op); def.More != nil {
		for _, m := range def.More(s.Attrs, s.Specs()) {
			c.More = append(c.More, backend.View{Block: block(t, op.Elements(m.Shape)*m.DType.Size()), Shape: m.Shape, Strides: op.Strides(m.Shape), DType: m.DType})
		}
	}
	for i, x := range s.Tensors() {
		for k := range x.Floats { // any numbers will do, but zeros might hide what is made of them
			if s.In[i].Domain == sample.Saved {
				sample.PutFloat(x.DType, x.Bytes, k, 0.5+float64(k%5)/8)
			}
		}
		v := backend.View{Bits: x.Bits, Offset: x.Offset, Shape: x.Shape, Strides: x.Strides, DType: x.DType}
		if x.Bytes != nil {
			v.Block = block(t, len(x.Bytes))
			copy(bytesOf(v.Block, 0, len(x.Bytes)), x.Bytes)
		}
		c.In = append(c.In, v)
	}
	if def := op.Get(s.Op); def.More != nil && !def.Saves {
		for _, m := range def.More(s.Attrs, s.Specs()) {
			c.More = append(c.More, backend.View{Block: block(t, op.Elements(m.Shape)*m.DType.Size()), Shape: m.Shape, Strides: op.Strides(m.Shape), DType: m.DType})
		}
	}
	return c
}

// resultBytes is what the call has written, all results one after the other.
func resultBytes(c *backend.Call) (b []byte) {
	for i := range 1 + len(c.More) {
		v := result(c, i)
		b = append(b, bytesOf(v.Block, 0, v.Elements()*v.DType.Size())...)
	}
	return b
}

// The same bits come out whatever the number of threads: samples that are
// large enough to be divided, and reductions of every shape.
func TestResultsDoNotDependOnThreads(t *testing.T) {
	defer pool.SetThreads(pool.SetThreads(0))
	check := func(name string, c *backend.Call) {
		results := append([]backend.View{c.Out}, c.More...)
		var first []byte
		for _, threads := range []int{1, 2, 3, 7} {
			pool.SetThreads(threads)
			for _, v := range results {
				clear(bytesOf(v.Block, 0, v.Elements()*v.DType.Size()))
			}
			if err := Open().Run(c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := resultBytes(c)
			if first == nil {
				first = got
			} else if !bytes.Equal(first, got) {
				t.Errorf("%s: %d threads give other bits than 1", name, threads)
			}
		}
	}
	for _, def := range op.All() {
		if def.Family == op.ViewFamily || !slices.Contains(sample.DTypes(def.ID), dtype.Float32) {
			continue
		}
		for _, s := range sample.Of(def.ID, dtype.Float32) {
			if s.Big {
				check(s.String(), sampleCall(t, s))
			}
		}
	}
	value := func(i int) float32 { return float32(i*7919%1000)/999 - 0.3 }
	for _, shape := range [][]int{{300000}, {3, 200000}, {200000, 3}, {2, 150, 1000}, {5000, 70}} {
		x := view32(t, shape, value)
		for axes := op.AxisSet(1); axes < 1<<len(shape); axes++ {
			out := append([]int(nil), shape...)
			for i := range out {
				if axes.Has(i) {
					out[i] = 1
				}
			}
			for _, id := range []op.ID{op.Sum, op.LogSumExp, op.Prod} {
				c := &backend.Call{Op: id, Attrs: op.Reduce{Axes: axes}, In: []backend.View{x}, Out: view32(t, out, value)}
				check(id.String()+" of "+op.ShapeString(shape), c)
			}
		}
	}
	line := view32(t, []int{300001}, value)
	for id, attrs := range longOps {
		in := []backend.View{line, line}[:op.Get(id).Arity]
		check(id.String()+" of a long line", &backend.Call{Op: id, Attrs: attrs, In: in, Out: view32(t, line.Shape, value)})
	}
	for _, size := range [][3]int{{300, 310, 290}, {7, 1000, 900}, {1000, 5, 800}, {1, 2000, 700}, {64, 64, 64}, {400, 400, 3}} {
		m, n, k := size[0], size[1], size[2]
		check(fmt.Sprint("matmul ", size), &backend.Call{Op: op.MatMul,
			In: []backend.View{view32(t, []int{m, k}, value), view32(t, []int{k, n}, value)}, Out: view32(t, []int{m, n}, value)})
	}
	for _, size := range [][4]int{{9, 4, 12, 8}, {16, 1, 28, 6}, {5, 32, 14, 40}} { // batch, channels, side, results
		n, c, side, out := size[0], size[1], size[2], size[3]
		conv := op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}
		x, w := view32(t, []int{n, c, side, side}, value), view32(t, []int{out, c, 3, 3}, value)
		g := view32(t, []int{n, out, side, side}, value)
		check(fmt.Sprint("conv2d ", size), &backend.Call{Op: op.Conv2D, Attrs: conv, In: []backend.View{x, w}, Out: view32(t, g.Shape, value)})
		conv.Size = [2]int{side, side}
		check(fmt.Sprint("conv2d_grad_input ", size), &backend.Call{Op: op.ConvGradInput, Attrs: conv, In: []backend.View{g, w}, Out: view32(t, x.Shape, value)})
		conv.Size = [2]int{3, 3}
		check(fmt.Sprint("conv2d_grad_weight ", size), &backend.Call{Op: op.ConvGradWeight, Attrs: conv, In: []backend.View{g, x}, Out: view32(t, w.Shape, value)})
	}
	check("attention", &backend.Call{Op: op.Attend, Attrs: op.Attention{Scale: 0.3, Causal: true},
		In:  []backend.View{view32(t, []int{2, 300, 8}, value), view32(t, []int{2, 300, 8}, value), view32(t, []int{2, 300, 5}, value)},
		Out: view32(t, []int{2, 300, 5}, value)})
	check("attention_grad", &backend.Call{Op: op.AttendGrad, Attrs: op.Attention{Scale: 0.3, Causal: true},
		In: []backend.View{view32(t, []int{2, 300, 5}, value), view32(t, []int{2, 300, 8}, value), view32(t, []int{2, 300, 8}, value),
			view32(t, []int{2, 300, 5}, value), view32(t, []int{2, 300, 5}, value), view32(t, []int{2, 300}, func(int) float32 { return 3 })},
		Out: view32(t, []int{2 * 300 * (8 + 8 + 5)}, value)})
}

// longOps are those that divide a single long line.
var longOps = map[op.ID]op.Attrs{
	op.Softmax: op.Axis{}, op.LogSoftmax: op.Axis{}, op.SoftmaxGrad: op.Axis{}, op.LogSoftmaxGrad: op.Axis{}, op.CumSum: op.Axis{Reverse: true},
}

// A long sum of float32 numbers is as exact as its result can be.
func TestSumsAreExact(t *testing.T) {
	const n = 1 << 20
	for name, shape := range map[string][]int{"row": {1, n}, "column": {n, 1}, "columns": {n / 4, 4}, "wide": {n / 1024, 1024}} {
		x := view32(t, shape, func(i int) float32 { return 0.1 })
		for axes := op.AxisSet(1); axes < 4; axes++ {
			out := []int{shape[0], shape[1]}
			each := 1
			for i := range out {
				if axes.Has(i) {
					each *= out[i]
					out[i] = 1
				}
			}
			c := &backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: axes}, In: []backend.View{x}, Out: view32(t, out, func(int) float32 { return 0 })}
			if err := Open().Run(c); err != nil {
				t.Fatal(err)
			}
			want := float64(each) * float64(float32(0.1))
			for i, got := range elements[float32](&c.Out, op.Elements(out)) {
				if e := (float64(got) - want) / want; e > 4e-7 || e < -4e-7 {
					t.Fatalf("%s, axes %b: sum %d of %d times 0.1 is %v, off by %g", name, axes, i, each, got, e)
				}
			}
		}
	}
}
