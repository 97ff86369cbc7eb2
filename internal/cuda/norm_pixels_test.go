//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Batch normalization of images channels last has the same bits in one launch and in two.
func TestPixelsTogetherOnCard(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	if d.card.together == 0 {
		t.Skip("the card does not run all blocks of a launch at once")
	}
	checkPixels(t, d, [][]int{{128, 64, 24, 24}, {128, 128, 12, 12}, {128, 256, 6, 6}, {128, 512, 3, 3}, {128, 64, 48, 48}, {16, 3, 65, 33}, {128, 960, 3, 3}, {64, 1280, 3, 3}, {4, 40, 100, 100}})
}

func TestEmulatedPixels(t *testing.T) {
	run := emulation(t, "normalize_pixels", "index", "create", "unary")
	f, devices := openFake(t, 1)
	f.emulate = run
	checkPixels(t, devices[0], nil)
	both := 0
	for _, l := range f.launches {
		if l.together && l.grid[1] > 1 {
			both++
		}
	}
	if both == 0 {
		t.Error("no blocks have waited for each other")
	}
}

// checkPixels compares both ways on d, for small shapes and others.
func checkPixels(t *testing.T, d *Device, shapes [][]int) {
	pool := memory.NewPool(d)
	defer pool.Trim()
	for _, dt := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float16} {
		for _, shape := range append(shapes, []int{8, 16, 16, 16}, []int{3, 37, 9, 4}, []int{2, 8, 3, 3}, []int{6, 6, 20, 30}) {
			t.Run(fmt.Sprint(dt, shape), func(t *testing.T) {
				x := &rig{t, d, pool}
				c := shape[1]
				image := func(key uint64) backend.View { return x.toLast(x.numbers(dt, key, shape...)) }
				list := func(key uint64, dt dtype.DType) backend.View { return x.numbers(dt, key, c) }
				positive := func(key uint64) backend.View {
					v := x.view(dtype.Float32, []int{c})
					x.ok(d.Run(&backend.Call{Op: op.Abs, In: []backend.View{list(key, dtype.Float32)}, Out: v}))
					return v
				}
				// run returns all results of a call, several times in one launch each if together.
				run := func(call backend.Call, more int, together bool) (results [][]float64) {
					defer setUntried(together)()
					call.Out = x.last(dt, shape, 0)
					call.More = nil
					for range more {
						of := dtype.Float32
						if call.Op == op.BatchNormGrad {
							of = dt
						}
						call.More = append(call.More, x.view(of, []int{c}))
					}
					before := d.Launches().Kernels
					for range 1 + 2*op.Count(together) {
						x.ok(d.Run(&call))
					}
					if n := d.Launches().Kernels - before; together && n != 3 {
						t.Errorf("%s three times took %d launches", call.Op, n)
					}
					results = append(results, x.values(call.Out))
					for _, v := range call.More {
						results = append(results, x.values(v))
					}
					return results
				}
				norm := op.Normalize{Eps: 1e-5, Weight: true, Bias: true}
				running := norm
				running.Running, running.Momentum = true, 0.1
				grad := norm
				grad.GradWeight, grad.GradBias = true, true
				in, g, res := image(1), image(2), image(3)
				w, b := list(4, dt), list(5, dt)
				mean, rstd := list(6, dtype.Float32), positive(7)
				oldMean, oldVar := list(8, dtype.Float32), positive(9)
				for name, call := range map[string]struct {
					backend.Call
					more int
				}{
					"forward": {backend.Call{Op: op.BatchNorm, Attrs: norm, In: []backend.View{in, w, b}}, 4},
					"plain":   {backend.Call{Op: op.BatchNorm, Attrs: op.Normalize{Eps: 1e-5}, In: []backend.View{in}}, 4},
					"running": {backend.Call{Op: op.BatchNorm, Attrs: running, In: []backend.View{in, w, b, oldMean, oldVar}}, 4},
					"sum and relu": {backend.Call{Op: op.BatchNorm, Attrs: op.NormEpilogue{Normalize: running, Act: op.Relu, Add: true},
						In: []backend.View{in, w, b, oldMean, oldVar, res}}, 4},
					"gradient": {backend.Call{Op: op.BatchNormGrad, Attrs: grad, In: []backend.View{g, in, w, mean, rstd}}, 2},
					"relu6's slope": {backend.Call{Op: op.BatchNormGrad, Attrs: op.NormEpilogue{Normalize: grad, Act: op.Relu6},
						In: []backend.View{g, in, w, b, mean, rstd}}, 2},
				} {
					want, got := run(call.Call, call.more, false), run(call.Call, call.more, true)
					for i := range want {
						if !slices.Equal(got[i], want[i]) {
							t.Errorf("%s: result %d differs", name, i)
						}
					}
				}
			})
		}
	}
}

// Where blocks cannot run at once there are two launches, and it is tried once.
func TestPixelsApart(t *testing.T) {
	defer setUntried(true)()
	f, x := fakeRig(t)
	x.hold(64 << 20).Free() // working memory, so that nothing starts over
	x.ok(x.d.with(x.pool, op.Sum, func() error { _, err := x.d.counters(new(reduceParams), 1); return err }))
	run := func() []string {
		c := batchNormCalls(16, 64, 24, 24)[0]
		_, last := c.calls(x, dtype.Float32)
		seen(f)
		x.ok(x.d.Run(last))
		return names(f)
	}
	if got := run(); !slices.Equal(got, []string{"pixels_both_wide_f32"}) {
		t.Errorf("launched %v", got)
	}
	for range 2 {
		f.results["cuLaunchCooperativeKernel"] = resultTooLarge
		if got := run(); !slices.Equal(got, []string{"pixels_sums_wide_f32", "pixels_apply_wide_f32"}) {
			t.Errorf("launched %v", got)
		}
		delete(f.results, "cuLaunchCooperativeKernel") // it would be done now, but is not tried
	}
}
