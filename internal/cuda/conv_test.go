//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Every algorithm and plan of cuDNN that we would let run, and our own kernels, are as
// good as float32: each is compared with our own convolution in float64. Winograd's
// algorithm for 3×3 kernels adds and subtracts before it multiplies, which costs it a
// digit; the other frameworks use it for float32 too. Of half-precision types the result is rounded
// once more. And each repeats its bits.
func TestConvolutionAlgorithms(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	pool := memory.NewPool(d)
	defer pool.Trim()
	n := dnnOf(t, d)
	if n == nil {
		t.Log("cuDNN is not here: only our own kernels are tried")
	}
	pad := func(p int) op.Conv {
		return op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{p, p}, Dilation: [2]int{1, 1}, Groups: 1}
	}
	grouped, strided := pad(1), pad(1)
	grouped.Groups, strided.Stride = 3, [2]int{2, 2}
	stem, sparse := pad(3), pad(0)
	stem.Stride, sparse.Stride = [2]int{2, 2}, [2]int{3, 4}
	down := pad(0)
	down.Stride = [2]int{2, 2}
	for turn, s := range []struct {
		a    op.Conv
		x, w [4]int
	}{
		{pad(1), [4]int{8, 16, 24, 24}, [4]int{32, 16, 3, 3}},
		{pad(1), [4]int{32, 64, 24, 24}, [4]int{64, 64, 3, 3}},
		{grouped, [4]int{1, 3, 4, 4}, [4]int{3, 1, 3, 3}},
		{grouped, [4]int{4, 24, 17, 13}, [4]int{12, 8, 3, 3}},
		{strided, [4]int{8, 16, 23, 24}, [4]int{32, 16, 3, 3}},
		{pad(2), [4]int{16, 6, 14, 14}, [4]int{16, 6, 5, 5}},
		{pad(3), [4]int{4, 3, 48, 48}, [4]int{64, 3, 7, 7}},
		{op.Conv{Stride: [2]int{2, 3}, Pad: [2]int{3, 1}, Dilation: [2]int{1, 2}, Groups: 2}, [4]int{4, 8, 31, 45}, [4]int{20, 4, 7, 3}},
		{pad(0), [4]int{8, 64, 14, 14}, [4]int{128, 64, 1, 1}},
		{stem, [4]int{4, 3, 47, 50}, [4]int{64, 3, 7, 7}},
		{pad(1), [4]int{16, 3, 32, 33}, [4]int{16, 3, 3, 3}},
		{sparse, [4]int{4, 8, 31, 45}, [4]int{16, 8, 2, 3}}, // some pixels are reached by no tap
		{sparse, [4]int{4, 2, 31, 45}, [4]int{16, 2, 2, 3}},
		{down, [4]int{8, 64, 28, 28}, [4]int{128, 64, 1, 1}},
	} {
		y := []int{s.x[0], s.w[0], 0, 0}
		for i := range 2 {
			y[2+i] = op.ConvOut(s.x[2+i], s.w[2+i], s.a.Stride[i], s.a.Pad[i], s.a.Dilation[i])
		}
		type kind struct {
			dtype dtype.DType
			eps   float64 // of a rounding, or 0 if that counts as an error
		}
		halves := []kind{{dtype.BFloat16, 0x1p-8}, {dtype.Float16, 0x1p-11}} // by turns: cuDNN loads many kernels for them
		for _, kind := range []kind{{dtype.Float32, 0}, halves[turn%2]} {
			for _, id := range convOps {
				t.Run(fmt.Sprintf("%s/%s/%v/%v", id, kind.dtype, s.x, s.w), func(t *testing.T) {
					k := &rig{t, d, pool}
					shapes := map[op.ID][3][]int{op.Conv2D: {s.x[:], s.w[:], y}, op.ConvGradInput: {y, s.w[:], s.x[:]}, op.ConvGradWeight: {y, s.x[:], s.w[:]}}[id]
					call := func(dt dtype.DType) *backend.Call {
						c := &backend.Call{Op: id, Attrs: s.a, Out: k.view(dt, shapes[2])}
						for i := range 2 {
							c.In = append(c.In, k.view(dt, shapes[i]))
						}
						return c
					}
					exact, c := call(dtype.Float64), call(kind.dtype)
					for i := range 2 {
						k.fill(c.In[i], uint64(i+1))
						k.ok(d.Run(&backend.Call{Op: op.CastTo, Attrs: op.Cast{To: dtype.Float64}, In: c.In[i : i+1], Out: exact.In[i]}))
					}
					run := func(f func() error) error { return d.with(pool, id, f) } // as Run does
					k.ok(run(func() error { return d.ownConv(exact) }))
					want := k.values(exact.Out)
					size := 0.0
					for _, v := range want {
						size += v * v
					}
					size = math.Sqrt(size / float64(len(want)))
					check := func(name string, got []float64, bound float64) {
						worst := 0.0
						for i, v := range got {
							if e := (math.Abs(v-want[i]) - kind.eps*math.Abs(want[i])) / size; !(e <= worst) {
								worst = e
							}
						}
						t.Logf("%s: %.1e of the results' size", name, worst)
						if !(worst < bound) {
							t.Errorf("%s is off by %.1e of the results' size", name, worst)
						}
					}
					k.fill(c.Out, 9) // what must be overwritten
					k.ok(run(func() error { return d.ownConv(c) }))
					check("our own", k.values(c.Out), 2e-5)
					if n == nil {
						return
					}
					p := &convPlan{}
					k.ok(run(func() error {
						n.addAlgorithms(d, c, p)
						n.addPlans(d, c, p, tf32.Load())
						return nil
					}))
					for _, by := range p.choices {
						var last []float64
						for range 2 {
							k.fill(c.Out, 9)
							if err := run(func() error { return n.queue(d, c, p, by) }); err != nil {
								t.Errorf("cuDNN's %s was refused: %v", by, err)
							}
							now := k.values(c.Out)
							if last != nil && !slices.Equal(last, now) {
								t.Errorf("cuDNN's %s does not repeat its bits", by)
							}
							last = now
						}
						bound := 2e-5
						if by.plan == 0 && by.algorithm == winograd[id] {
							bound = 1e-4
						}
						check("cuDNN's "+by.String(), last, bound)
					}
					k.ok(run(func() error {
						p.choices = nil
						p.keepFirst()
						return nil
					}))
				})
			}
		}
	}
}

// dnnOf returns the device's cuDNN, or nil without one.
func dnnOf(t *testing.T, d *Device) (n *dnn) {
	t.Helper()
	err := d.with(memory.NewPool(d), op.Conv2D, func() (err error) {
		n, err = d.cudnn()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
