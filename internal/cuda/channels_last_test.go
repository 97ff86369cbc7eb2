//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Calls with images channels last find their kernels, with parameters of the size that
// these expect, and those made for the layout.
func TestChannelsLastFindsKernels(t *testing.T) {
	f, devices := openFake(t, 1)
	x := &rig{t, devices[0], memory.NewPool(devices[0])}
	for _, dt := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.Float16, dtype.BFloat16} {
		for _, n := range [][4]int{{2, 16, 5, 7}, {3, 37, 9, 4}, {16, 64, 24, 24}} {
			depth := sameConv
			depth.Groups = n[1]
			for i, s := range append(append(batchNormCalls(n[0], n[1], n[2], n[3]), poolCalls(n[0], n[1], n[2], n[3])...), convCalls(depth, n, [4]int{n[1], 1, 3, 3})...) {
				_, c := s.calls(x, dt)
				before := len(f.launches)
				x.ok(x.d.Run(c))
				names := ""
				for _, l := range f.launches[before:] {
					names += l.kernel + " "
					if l.grid[0] < 1 || l.grid[1] < 1 || l.grid[1] > 65535 || l.grid[2] < 1 || l.grid[2] > 65535 || l.block > 1024 {
						t.Errorf("%s is launched with grid %v and %d threads", l.kernel, l.grid, l.block)
					}
				}
				suffix := "_wide_" + typeName(dt)
				if n[1]%lanes(dt) != 0 {
					suffix = "_" + typeName(dt)
				}
				want := map[op.ID]string{
					op.BatchNorm:      "pixels_sums" + suffix + " pixels_apply" + suffix + " ",
					op.BatchNormGrad:  "pixels_grad_sums" + suffix + " pixels_grad_apply" + suffix + " ",
					op.Conv2D:         "depth_forward" + suffix + " ",
					op.ConvGradInput:  "depth_grad_input" + suffix + " ",
					op.ConvGradWeight: "depth_grad_weight_rows" + suffix + " ",
					op.MaxPoolGrad:    "max_pool_winners" + suffix + " max_pool_won" + suffix + " ",
					op.MaxPool:        "max_pool" + suffix + " ",
				}[s.id]
				if want == "" {
					want = fmt.Sprintf("%s_%s ", s.id, typeName(dt))
				}
				if names = strings.TrimPrefix(names, "full_u32 "); names != want { // counters are made once
					t.Errorf("call %d, %s of %s %v: launches %q, want %q", i, s.id, dt, n, names, want)
				}
			}
		}
	}
}

// A list of conversions turns filters in one launch, the others in another.
func TestCastAllTurns(t *testing.T) {
	f, devices := openFake(t, 1)
	x := &rig{t, devices[0], memory.NewPool(devices[0])}
	call := &backend.Call{Op: op.CastAll, Attrs: op.Cast{To: dtype.BFloat16}}
	for i, n := range [][]int{{64, 3, 7, 7}, {5, 6, 3, 3}, {7, 4, 1, 1}, {1, 9, 2, 5}} {
		v := x.view(dtype.Float32, n)
		call.In = append(call.In, turned(v))
		if out := x.view(dtype.BFloat16, call.In[i].Shape); i == 0 {
			call.Out = out
		} else {
			call.More = append(call.More, out)
		}
	}
	before := len(f.launches)
	x.ok(x.d.Run(call))
	names := ""
	for _, l := range f.launches[before:] {
		names += l.kernel + " "
	}
	if names != "turn_f32_bf16 map_f32_bf16 " {
		t.Errorf("launches %q", names)
	}
}

// Gradients of filters that lie channels last are put in order in one launch.
func TestCastAllPutsInOrder(t *testing.T) {
	f, devices := openFake(t, 1)
	x := &rig{t, devices[0], memory.NewPool(devices[0])}
	call := &backend.Call{Op: op.CastAll, Attrs: op.Cast{To: dtype.Float32}}
	for i, n := range [][]int{{64, 3, 7, 7}, {128, 64, 3, 3}, {5, 6, 2, 2}} {
		call.In = append(call.In, x.last(dtype.Float32, n, 0))
		if out := x.view(dtype.Float32, n); i == 0 {
			call.Out = out
		} else {
			call.More = append(call.More, out)
		}
	}
	before := len(f.launches)
	x.ok(x.d.Run(call))
	if l := f.launches[before:]; len(l) != 1 || l[0].kernel != "turn_f32_f32" {
		t.Errorf("%d launches, want one of turn_f32_f32", len(l))
	}
}

// What a convolution saves channels last.
func TestArranges(t *testing.T) {
	_, devices := openFake(t, 1)
	d := devices[0]
	depth := sameConv
	depth.Groups = 64
	if can, saves := d.Arranges(convCall(op.Conv2D, dtype.Float32, depth, [4]int{8, 64, 24, 24}, [4]int{64, 1, 3, 3})); !can || saves != 0 {
		t.Errorf("a filter for each channel: %t, %d", can, saves)
	}
	depth.Groups = 2
	if can, _ := d.Arranges(convCall(op.Conv2D, dtype.BFloat16, depth, [4]int{8, 64, 24, 24}, [4]int{64, 32, 3, 3})); can {
		t.Error("two groups lie channels last")
	}
	if can, _ := d.Arranges(convCall(op.Conv2D, dtype.Float32, sameConv, [4]int{8, 64, 24, 24}, [4]int{64, 64, 3, 3})); can {
		t.Error("float32 without TF32 lies channels last")
	}
}

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int
		known          bool
	}{
		{[]int{2, 3, 4, 5}, []int{60, 20, 5, 1}, true},
		{[]int{2, 3, 4, 5}, []int{60, 1, 15, 3}, true},
		{[]int{2, 3, 4, 5}, []int{140, 1, 35, 7}, true},    // some of the channels
		{[]int{2, 3, 4, 5}, []int{200, 50, 10, 1}, true},   // some of the rows
		{[]int{2, 3, 4, 5}, []int{60, 1, 3, 12}, false},    // columns of pixels
		{[]int{1, 2, 3, 4}, []int{1, 1, 2, 6}, false},      // reversed
		{[]int{2, 1, 4, 5}, []int{20, 20, 1, 4}, false},    // columns
		{[]int{2, 3, 4, 5}, []int{60, 20, 5, -1}, false},   // flipped
		{[]int{2, 3, 4, 5}, []int{0, 20, 5, 1}, false},     // one image, repeated
		{[]int{2, 3, 4, 5}, []int{120, 40, 10, 2}, false},  // every other element
		{[]int{1, 3, 1, 1}, []int{7, 1, 9, 9}, true},       // one pixel
		{[]int{4, 3, 1, 1}, []int{1, 4, 1, 1}, false},      // the batch innermost
		{[]int{64, 64, 1, 1}, []int{64, 1, 1, 1}, true},    // a filter of one tap
		{[]int{1, 1, 1, 1}, []int{5, -3, 0, 2}, true},      // one element
		{[]int{2, 3, 4, 5}, []int{1, 40, 10, 2}, false},    // the batch innermost
		{[]int{3, 2, 5, 4}, []int{20, 60, 4, 1}, false},    // channels outermost
		{[]int{2, 3, 4, 1}, []int{12, 4, 1, 1}, true},      // one column
		{[]int{2, 3, 1, 5}, []int{15, 1, 15, 3}, true},     // one row, channels last
		{[]int{2, 3, 4, 5}, []int{60, 20, 1, 4}, false},    // planes of columns
		{[]int{2, 3, 4, 5}, []int{60, 20, 4, 1}, false},    // rows that overlap
		{[]int{2, 3, 4, 5}, []int{59, 20, 5, 1}, false},    // images that overlap
		{[]int{2, 3, 4, 5}, []int{600, 200, 50, 1}, true},  // gaps between rows
		{[]int{2, 3, 4, 5}, []int{600, 1, 150, 30}, true},  // gaps between pixels
		{[]int{2, 3, 4, 5}, []int{600, 2, 150, 30}, false}, // gaps between channels
	} {
		if v := (backend.View{Shape: c.shape, Strides: c.strides}); known(&v) != c.known {
			t.Errorf("shape %v with strides %v: known is %v", c.shape, c.strides, !c.known)
		}
	}
}
