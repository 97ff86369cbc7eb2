//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// The kernels of lists.cu for float32, block by block as a card runs them, on the fake
// driver's memory: what is tested is what the host tells them.

func floats(a uintptr) func(i uint64) *float32 {
	return func(i uint64) *float32 { return (*float32)(pointer(a + uintptr(4*i))) }
}

// part is part of kernels/lists.cu.
func (l *list) part(block, v int) (words []uint64, from, to uint64) {
	low, high := 0, int(l.count)-1
	for low < high {
		if middle := (low + high + 1) / 2; int(l.words[middle*int(l.each)]>>40) <= block {
			low = middle
		} else {
			high = middle - 1
		}
	}
	words = l.words[low*int(l.each):][:l.each]
	n, size := words[0]&(1<<40-1), uint64(256*4*v)
	from = (uint64(block) - words[0]>>40) * size
	return words[1:], from, min(from+size, n)
}

// play is what a launch does.
func play(t *testing.T, d *Device, kernel string, blocks int) {
	switch {
	case strings.HasPrefix(kernel, "update_"):
		p := (*updateParams)(unsafe.Pointer(&d.params))
		for b := range blocks {
			p.play(b)
		}
	case kernel == "squares_f32":
		p := (*listParams)(unsafe.Pointer(&d.params))
		for b := range blocks {
			w, from, to := p.l.part(b, 4)
			sum := 0.0
			for i := from; i < to; i++ {
				x := float64(*floats(uintptr(w[0]))(i))
				sum += x * x
			}
			*(*float64)(pointer(p.address + uintptr(8*b))) = sum
		}
	case kernel == "root_f32":
		p := (*rootParams)(unsafe.Pointer(&d.params))
		sum := 0.0
		for i := range p.n {
			sum += *(*float64)(pointer(p.partial + uintptr(8*i)))
		}
		*floats(p.out)(0) = float32(math.Sqrt(sum))
	case kernel == "map_f32_f32", kernel == "map_f32_bf16":
		p := (*listParams)(unsafe.Pointer(&d.params))
		for b := range blocks {
			w, from, to := p.l.part(b, 4)
			for i := from; i < to; i++ {
				x := *floats(uintptr(w[0]))(i)
				if p.address != 0 {
					x *= *floats(p.address)(0)
				}
				if kernel == "map_f32_f32" {
					*floats(uintptr(w[1]))(i) = x
				} else {
					*(*dtype.BF16)(pointer(uintptr(w[1]) + uintptr(2*i))) = dtype.ToBF16(x)
				}
			}
		}
	default:
		t.Errorf("%s is launched", kernel)
	}
}

func (p *updateParams) play(block int) {
	still := p.ok != 0 && *(*byte)(pointer(p.ok)) == 0
	if still && p.inPlace != 0 {
		return
	}
	w, from, to := p.l.part(block, 4)
	results := 2 + int(p.slots)
	if p.first != 0 {
		results = 2
	}
	out := w[0]
	if p.inPlace == 0 {
		out = w[results]
	}
	for i := from; i < to; i++ {
		x, g := *floats(uintptr(w[0]))(i), *floats(uintptr(w[1]))(i)
		var s [3]float32
		var now [3]uintptr
		for k, at := range p.at {
			if at < 0 {
				continue
			}
			if p.first == 0 {
				s[k] = *floats(uintptr(w[2+at]))(i)
			}
			if now[k] = uintptr(w[2+at]); p.inPlace == 0 {
				now[k] = uintptr(w[results+1+int(at)])
			}
		}
		if !still { // gradient descent with momentum is enough to tell operands apart
			if p.factor != 0 {
				g *= *floats(p.factor)(0)
			}
			s[0] = float32(p.momentum)*s[0] + float32(p.fresh)*g
			if p.first != 0 {
				s[0] = g
			}
			x = float32(p.keep)*x - float32(p.rate)*s[0]
		}
		*floats(uintptr(out))(i) = x
		for k, at := range p.at {
			if at >= 0 {
				*floats(now[k])(i) = s[k]
			}
		}
	}
}

// listRig is a device whose launches are played.
func listRig(t *testing.T) (*fake, *rig) {
	f, x := fakeRig(t)
	f.onLaunch = func() func() {
		l := f.launches[len(f.launches)-1]
		play(t, x.d, l.kernel, int(l.grid[0]))
		return func() {}
	}
	return f, x
}

// tensor makes a tensor of n elements, `offset` elements into its block, on the fake card.
func (x *rig) tensor(n, offset, seed int) backend.View {
	b, err := x.pool.Allocate(4*(n+offset+1), func() memory.Label { return memory.Label{} })
	x.ok(err)
	for i := range n + offset {
		*floats(b.Addr)(uint64(i)) = float32((i*7919+seed*104729)%1000)/500 - 1
	}
	return backend.View{Block: b, Offset: offset, Shape: []int{n}, Strides: []int{1}, DType: dtype.Float32}
}

// onHost is the same memory as the CPU sees it; copied, so that both can write.
func onHost(v backend.View) backend.View {
	all := bytes.Clone(view(v.Block.Addr, uintptr(v.Block.Size)))
	v.Block = &memory.Block{Region: memory.Region{Ptr: unsafe.Pointer(&all[0]), Size: len(all)}}
	return v
}

// compare runs the call on the CPU, then on the fake card, and compares all results.
func (x *rig) compare(name string, c *backend.Call) {
	x.t.Helper()
	host := &backend.Call{Op: c.Op, Attrs: c.Attrs, Out: onHost(c.Out)}
	for _, v := range c.In {
		host.In = append(host.In, onHost(v))
	}
	for _, v := range c.More {
		host.More = append(host.More, onHost(v))
	}
	x.ok(cpu.Open().Run(host))
	x.ok(x.d.Run(c))
	for i := range 1 + len(c.More) {
		got, want := resultOf(c, i), resultOf(host, i)
		for k := range got.Elements() {
			var a, b float64
			if got.DType == dtype.BFloat16 {
				a, b = float64((*(*dtype.BF16)(pointer(got.Block.Addr + uintptr(2*k)))).Float32()), float64((*(*dtype.BF16)(unsafe.Add(want.Block.Ptr, 2*k))).Float32())
			} else {
				a, b = float64(*floats(got.Block.Addr)(uint64(k))), float64(*(*float32)(unsafe.Add(want.Block.Ptr, 4*k)))
			}
			if math.Abs(a-b) > 1e-6*(1+math.Abs(b)) {
				x.t.Fatalf("%s: element %d of result %d is %v, want %v", name, k, i, a, b)
			}
		}
	}
}

// listSizes are sizes around those of blocks and launches; 0 is among them.
func listSizes(n int) (sizes []int) {
	for i := range n {
		sizes = append(sizes, []int{1, 5, 0, 4095, 4096, 4097, 12289, 300}[i%8])
	}
	return sizes
}

func TestListsAreAddressed(t *testing.T) {
	for _, n := range []int{1, 3, 60, 250} {
		for _, inPlace := range []bool{false, true} {
			for _, first := range []bool{false, true} {
				for extra := range 4 {
					f, x := listRig(t)
					u := op.Update{Rule: op.SGDRule, Rate: 0.1, Keep: 0.9, Momentum: 0.5, Fresh: 0.75, First: first, Scaled: extra&1 != 0, Gated: extra&2 != 0}
					c := &backend.Call{Op: op.UpdateAll, Attrs: u}
					var results []backend.View
					for i, size := range listSizes(n) {
						p, g, s := x.tensor(size, 0, 3*i), x.tensor(size, i%3, 3*i+1), x.tensor(size, 0, 3*i+2)
						c.In = append(c.In, p, g)
						if !first {
							c.In = append(c.In, s)
						}
						if !inPlace || i%5 == 4 { // some cannot be
							p, s = x.tensor(size, 0, 0), x.tensor(size, 0, 0)
						}
						results = append(results, p, s)
					}
					c.Out, c.More = results[0], results[1:]
					if u.Scaled {
						c.In = append(c.In, x.tensor(1, 1, 77))
					}
					if u.Gated {
						b, err := x.pool.Allocate(1, func() memory.Label { return memory.Label{} })
						x.ok(err)
						view(b.Addr, 1)[0] = byte(n % 2)
						c.In = append(c.In, backend.View{Block: b, Shape: []int{}, DType: dtype.Bool})
					}
					name := fmt.Sprintf("%d tensors, in place %v, first %v, extra %d", n, inPlace, first, extra)
					x.compare(name, c)
					if inPlace && !first && n == 60 && len(f.launches) > 2 {
						t.Errorf("%s: %d launches", name, len(f.launches))
					}
				}
			}
		}
	}
}

// A step in place of a network's parameters is one launch.
func TestStepIsOneLaunch(t *testing.T) {
	f, x := listRig(t)
	c := &backend.Call{Op: op.UpdateAll, Attrs: op.Update{Rule: op.AdamRule, Keep: 1}}
	var results []backend.View
	for i := range 74 {
		p, m, v := x.tensor(100+i, 0, i), x.tensor(100+i, 0, i), x.tensor(100+i, 0, i)
		c.In = append(c.In, p, x.tensor(100+i, 0, i), m, v)
		results = append(results, p, m, v)
	}
	c.Out, c.More = results[0], results[1:]
	x.ok(x.d.Run(c))
	if len(f.launches) != 1 {
		t.Errorf("AdamW of 74 tensors takes %d launches", len(f.launches))
	}
}

func TestOtherListsAreAddressed(t *testing.T) {
	for _, n := range []int{1, 7, 400} {
		f, x := listRig(t)
		norm := &backend.Call{Op: op.GlobalNorm, Out: backend.View{Block: x.tensor(1, 0, 0).Block, Shape: []int{}, DType: dtype.Float32}}
		scale, cast := &backend.Call{Op: op.ScaleAll}, &backend.Call{Op: op.CastAll, Attrs: op.Cast{To: dtype.BFloat16}}
		var scaled, halves []backend.View
		for i, size := range listSizes(n) {
			v := x.tensor(size, i%4, i)
			norm.In, scale.In, cast.In = append(norm.In, v), append(scale.In, v), append(cast.In, v)
			scaled = append(scaled, x.tensor(size, 0, 0))
			half := x.tensor(size, 0, 0)
			half.DType = dtype.BFloat16
			halves = append(halves, half)
		}
		scale.In = append(scale.In, x.tensor(1, 3, 9))
		scale.Out, scale.More, cast.Out, cast.More = scaled[0], scaled[1:], halves[0], halves[1:]
		x.compare("norm", norm)
		launches := len(f.launches)
		x.compare("scale", scale)
		x.compare("cast", cast)
		if n == 7 && (launches != 2 || len(f.launches) != 4) {
			t.Errorf("%d launches for the norm, %d in all", launches, len(f.launches))
		}
	}
}

// A step of which something was queued is not queued again.
func TestHalfAStepIsNotRepeated(t *testing.T) {
	f, x := listRig(t)
	c := &backend.Call{Op: op.UpdateAll, Attrs: op.Update{Rule: op.SGDRule, Keep: 1, Rate: 1, Fresh: 1}}
	var results []backend.View
	for i := range 500 {
		p := x.tensor(10, 0, i)
		c.In, results = append(c.In, p, x.tensor(10, 0, i)), append(results, p)
	}
	c.Out, c.More = results[0], results[1:]
	was := *floats(c.Out.Block.Addr)(0)
	played := f.onLaunch
	f.onLaunch = func() func() {
		f.results["cuLaunchKernel"] = resultOutOfMemory // from the next one on
		return played()
	}
	err := x.d.Run(c)
	if err == nil || !strings.Contains(err.Error(), "only a part was queued") {
		t.Errorf("got %v", err)
	}
	if len(f.launches) != 1 {
		t.Errorf("%d launches", len(f.launches))
	}
	if got := *floats(c.Out.Block.Addr)(0); got != 0 || was == 0 { // 1·p - 1·p, once
		t.Errorf("a parameter went from %v to %v; want 0", was, got)
	}
}

// A view without elements is none of the tensors that are turned, whatever its strides.
func TestExchangedEmpty(t *testing.T) {
	for _, shape := range [][]int{{0, 3}, {3, 0}, {2, 0, 3}, {4, 5}} {
		v := backend.View{Shape: shape, Strides: []int{1, 7, 2}[:len(shape)], DType: dtype.Float32}
		if len(shape) == 2 && shape[0] == 4 {
			v.Strides = []int{1, 4}
		}
		if _, _, ok := exchanged(&v); ok != (v.Elements() > 0) {
			t.Errorf("%v: %v", shape, ok)
		}
	}
}
