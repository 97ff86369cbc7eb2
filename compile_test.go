package locus_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func sameElements(t *testing.T, what string, a, b *locus.Tensor) {
	t.Helper()
	x, y := locus.ToSlice[float32](a.Detach()), locus.ToSlice[float32](b.Detach())
	if len(x) != len(y) {
		t.Errorf("%s: %d and %d elements", what, len(x), len(y))
		return
	}
	for i := range x {
		if x[i] != y[i] {
			t.Errorf("%s: element %d is %v, compiled %v", what, i, x[i], y[i])
			return
		}
	}
}

func compileDevices() []locus.Device {
	return []locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 0)[0]}
}

func isCompiled(t *testing.T, c *locus.Compiled) {
	t.Helper()
	if why := c.Fallback(); why != "" || !strings.Contains(c.Explain(), ": compiled\n") {
		t.Errorf("not compiled: %s\n%s", why, c.Explain())
	}
}

// TestCompileExpressions has views, broadcasts, tensors from outside, tensors made
// inside, constants, results that share memory or are arguments, and layouts.
func TestCompileExpressions(t *testing.T) {
	for _, d := range compileDevices() {
		w := d.Key(locus.NewKey(3)).Randn(33, 7)
		f := func(a ...*locus.Tensor) []*locus.Tensor {
			c := d.From([]float32{1, 2, 3, 4, 5, 6, 7})
			h := a[0].Slice(locus.R(10, 50)).MatMul(w).Add(c).Transpose(0, 1).Softmax(0)
			return []*locus.Tensor{h.Sum(1), h.Mul(w.Square().Sum()).Add(d.Ones(7, 1)), h.Reshape(-1), h, a[0], a[0].T(), c, w.Index(0), nil}
		}
		c := locus.Compile(f)
		for i := range 5 {
			x := d.Key(locus.NewKey(uint64(i))).Randn(100, 33)
			if i == 4 { // another layout, which must not be taken for the first
				x = d.Key(locus.NewKey(uint64(i))).Randn(33, 101).T().Slice(locus.R(1, 101))
			}
			want, got := f(x), c.Call(x)
			for k := range want {
				if want[k] == nil {
					if got[k] != nil {
						t.Errorf("result %d is %v", k, got[k])
					}
					continue
				}
				sameElements(t, fmt.Sprintf("%s, call %d, result %d", d, i, k), want[k], got[k])
				if want[k].IsView() != got[k].IsView() {
					t.Errorf("result %d: view %v, compiled %v", k, want[k].IsView(), got[k].IsView())
				}
			}
			if got[4] != x || !got[5].SharesMemory(x) || !got[2].SharesMemory(got[2]) || !got[7].SharesMemory(w) {
				t.Error("a result that is an argument, or a view, is another tensor")
			}
		}
		isCompiled(t, c)
		for _, want := range []string{"from outside: float32 [33 7], used at ", "constant: 28 bytes of Go data, made at ", "compile_test.go:", "matmul("} {
			if !strings.Contains(c.Explain(), want) {
				t.Errorf("the explanation lacks %q:\n%s", want, c.Explain())
			}
		}
	}
}

// TestCompileReadsNothing wants errors that name the line, and a function that can be
// called afterwards.
func TestCompileReadsNothing(t *testing.T) {
	for _, d := range compileDevices() {
		x := d.Ones(3)
		for name, read := range map[string]func(a *locus.Tensor){
			"Item":        func(a *locus.Tensor) { a.Sum().Item() },
			"Int":         func(a *locus.Tensor) { a.Sum().Cast(locus.Int64).Int() },
			"ToSlice":     func(a *locus.Tensor) { locus.ToSlice[float32](a) },
			"WithSlice":   func(a *locus.Tensor) { locus.WithSlice(a, func([]float32) {}) },
			"String":      func(a *locus.Tensor) { _ = a.String() },
			"printing":    func(a *locus.Tensor) { _ = fmt.Sprint(a) },
			"Synchronize": func(a *locus.Tensor) { _ = d.Synchronize() },
			"Pin":         func(a *locus.Tensor) { a.Pin() },
			"outside":     func(a *locus.Tensor) { x.Sum().Item() },
		} {
			on := true
			c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
				y := a[0].Exp()
				if on {
					read(y)
				}
				return []*locus.Tensor{y}
			})
			err := locus.Try(func() { c.Call(x) })
			var e *locus.Error
			if !errors.As(err, &e) || !strings.Contains(e.Error(), "compile_test.go:") || e.Fix == "" {
				t.Errorf("%s on %s: %v", name, d, err)
			}
			on = false
			sameElements(t, name, x.Exp(), c.Call(x)[0])
		}
	}
}

// box is a cell of a program's own.
type box struct{ t *locus.Tensor }

func (b *box) Value() *locus.Tensor { return b.t }
func (b *box) Set(t *locus.Tensor)  { b.t = t }

// TestCompileCells has a program's own cell, first empty, and gradients that stay in
// leaves: of tensors from outside and of cells.
func TestCompileCells(t *testing.T) {
	for _, d := range compileDevices() {
		type vars struct {
			sum  box
			leaf *locus.Tensor
			w    box
		}
		build := func() (*vars, func(a ...*locus.Tensor) []*locus.Tensor) {
			v := &vars{leaf: d.Ones(4).RequireGrad(), w: box{d.Full(2, 4).RequireGrad()}}
			return v, func(a ...*locus.Tensor) []*locus.Tensor {
				if v.sum.t == nil {
					v.sum.Set(a[0].Mul(1))
				} else {
					v.sum.Set(v.sum.t.Add(a[0]))
				}
				loss := a[0].Mul(v.leaf).Mul(v.w.t).Square().Sum()
				loss.Backward()
				return []*locus.Tensor{loss.Detach(), v.sum.t}
			}
		}
		e, f := build()
		p, g := build()
		c := locus.Compile(g, &p.sum, &p.w)
		for i := range 9 {
			x := d.Key(locus.NewKey(uint64(i))).Randn(4)
			want, got := f(x), c.Call(x)
			for k := range want {
				sameElements(t, fmt.Sprintf("%s, call %d, result %d", d, i, k), want[k], got[k])
			}
			sameElements(t, "the cell", e.sum.t, p.sum.t)
			if i == 6 { // gradients that were asked for stay
				kept := [2]*locus.Tensor{e.leaf.Grad(), p.leaf.Grad()}
				defer func() { sameElements(t, "a gradient that was asked for", kept[0], kept[1]) }()
			}
			if i == 7 {
				e.leaf.ZeroGrad()
				p.leaf.ZeroGrad()
			}
			if i == 5 || i == 8 {
				sameElements(t, "the leaf's gradient", e.leaf.Grad(), p.leaf.Grad())
				sameElements(t, "the cell's gradient", e.w.t.Grad(), p.w.t.Grad())
			}
		}
		isCompiled(t, c)
		unlisted := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Add(p.w.t.Detach())} })
		for range 3 {
			sameElements(t, "another function", d.Ones(4).Add(2), unlisted.Call(d.Ones(4))[0])
		}
	}
}

// TestCompileEmptyCell has a cell that holds nothing, before and behind.
func TestCompileEmptyCell(t *testing.T) {
	var empty box
	c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Exp()} }, &empty)
	for range 3 {
		c.Call(locus.Ones(3))
	}
	isCompiled(t, c)
}

// TestCompileFallsBack has functions that cannot be programs: they compute what they
// compute, and say why they are not compiled.
func TestCompileFallsBack(t *testing.T) {
	for _, d := range compileDevices() {
		n := 0.0
		kept := d.Ones(2)
		for name, test := range map[string]struct {
			f    func(a ...*locus.Tensor) []*locus.Tensor
			want string
		}{
			"a counter": {func(a ...*locus.Tensor) []*locus.Tensor {
				n++
				return []*locus.Tensor{a[0].Mul(n)}
			}, "operand 1 of mul at "},
			"host data": {func(a ...*locus.Tensor) []*locus.Tensor {
				n++
				return []*locus.Tensor{a[0].Add(d.From([]float32{float32(n), 1}))}
			}, "was made of other Go numbers"},
			"a variable": {func(a ...*locus.Tensor) []*locus.Tensor {
				return []*locus.Tensor{a[0].Add(kept)}
			}, "is a tensor from outside, and another one"},
			"another op": {func(a ...*locus.Tensor) []*locus.Tensor {
				n++
				if int(n)%2 == 0 {
					return []*locus.Tensor{a[0].Exp()}
				}
				return []*locus.Tensor{a[0].Sin()}
			}, "stands where"},
			"a key": {func(a ...*locus.Tensor) []*locus.Tensor {
				return []*locus.Tensor{locus.Dropout(a[0], 0.5, locus.NewKey(1))}
			}, "draws with a key that does not advance"},
			"a scope": {func() func(a ...*locus.Tensor) []*locus.Tensor {
				s := locus.NewScope()
				return func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{s.Use(a[0]).Exp()} }
			}(), "belongs to a scope"},
		} {
			n = 0
			c := locus.Compile(test.f)
			var lines bytes.Buffer
			c.Report(&lines)
			for i := range 5 {
				n = float64(3 * i)
				kept = d.Full(float64(i), 2)
				x := d.Full(float64(i), 2)
				got := c.Call(x)[0]
				n = float64(3 * i)
				sameElements(t, fmt.Sprintf("%s on %s, call %d", name, d, i), test.f(x)[0], got)
			}
			if !strings.Contains(c.Fallback(), test.want) || !strings.Contains(c.Fallback(), "compile_test.go:") && name != "a scope" {
				t.Errorf("%s on %s: the reason is %q", name, d, c.Fallback())
			}
			if !strings.Contains(lines.String(), test.want) {
				t.Errorf("%s: reported %q", name, lines.String())
			}
		}
		// An argument with a history keeps it.
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Square().Sum()} })
		x := d.Full(3, 2).RequireGrad()
		c.Call(x)[0].Backward()
		sameElements(t, "a gradient through a compiled function", d.Full(6, 2), x.Grad())
		if !strings.Contains(c.Fallback(), "has a history") {
			t.Error(c.Fallback())
		}
		locus.NoGrad(func() {
			for range 3 {
				c.Call(x)
			}
		})
		isCompiled(t, c)
	}
}

// TestCompileSignatures bounds the signatures and says what changed.
func TestCompileSignatures(t *testing.T) {
	var lines bytes.Buffer
	c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Exp().Sum()} })
	c.Report(&lines)
	for n := range 20 {
		for range 3 {
			x := locus.Ones(n + 1)
			sameElements(t, "sum", x.Exp().Sum(), c.Call(x)[0])
		}
	}
	if got := strings.Count(lines.String(), "tracing"); got != 8 {
		t.Errorf("traced %d signatures:\n%s", got, lines.String())
	}
	if !strings.Contains(lines.String(), "argument 0 is float32 (2,) on cpu, before float32 (1,) on cpu") || strings.Count(lines.String(), "\n") != 9 {
		t.Errorf("reported:\n%s", lines.String())
	}
	if c.Fallback() == "" {
		t.Error("the twentieth signature is compiled")
	}
	c.Call(locus.Ones(3)) // an old one
	isCompiled(t, c)
}

// TestCompileMoreSignatures compiles for as many signatures as it is told.
func TestCompileMoreSignatures(t *testing.T) {
	c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Exp().Sum()} }).Signatures(20)
	for range 3 {
		for n := range 20 {
			c.Call(locus.Ones(n + 1))
			if c.Fallback() != "" {
				t.Fatal(n, c.Fallback())
			}
		}
	}
	c.Call(locus.Ones(50))
	if !strings.Contains(c.Fallback(), "more than 20 signatures") || !strings.Contains(c.Fallback(), "Signatures") {
		t.Error(c.Fallback())
	}
	if err := locus.Try(func() { c.Signatures(0) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// TestCompileGradOfCapturedParameter asks for a gradient by a parameter's tensor that was
// read before the function was compiled. What is traced comes from a stand-in, by which
// there would be a gradient; by the tensor itself it would be 0.
func TestCompileGradOfCapturedParameter(t *testing.T) {
	for _, d := range compileDevices() {
		layer := nn.To(nn.Linear(3, 2), d)
		outside := nn.Values(nn.Parameters(layer))
		x := d.Ones(4, 3)
		each := map[string]func(loss *locus.Tensor, by []*locus.Tensor) []*locus.Tensor{
			"GradOf": func(loss *locus.Tensor, by []*locus.Tensor) []*locus.Tensor { return locus.GradOf(loss, by...) },
			"GradEach": func(loss *locus.Tensor, by []*locus.Tensor) []*locus.Tensor {
				grads := make([]*locus.Tensor, len(by))
				locus.GradEach([]*locus.Tensor{loss}, by, func(i int, g *locus.Tensor) { grads[i] = g })
				return grads
			},
		}
		for name, grad := range each {
			bad := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
				return grad(layer.Forward(a[0]).Square().Sum(), outside)
			})
			good := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
				return grad(layer.Forward(a[0]).Square().Sum(), nn.Values(nn.Parameters(layer)))
			})
			want := grad(layer.Forward(x).Square().Sum(), outside)
			for range 3 {
				for i := range want {
					sameElements(t, name+" by a tensor from outside", want[i], bad.Call(x)[i])
					sameElements(t, name+" by a tensor read inside", want[i], good.Call(x)[i])
				}
			}
			isCompiled(t, good)
			if !strings.Contains(bad.Fallback(), "is the value of a variable, but was not read from it") || !strings.Contains(bad.Fallback(), "compile_test.go:") {
				t.Error(name, bad.Fallback())
			}
		}
	}
}

// TestCompileNested inlines a compiled function in another one.
func TestCompileNested(t *testing.T) {
	inner := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Exp()} })
	outer := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{inner.Call(a[0])[0].Add(1)} })
	x := locus.Ones(3)
	for range 4 {
		sameElements(t, "nested", x.Exp().Add(1), outer.Call(x)[0])
	}
	isCompiled(t, outer)
	if strings.Contains(inner.Explain(), "signature") {
		t.Error("the inner function has a program of its own")
	}
}

// TestCompilePanics leaves everything usable after a panic, of whatever kind.
func TestCompilePanics(t *testing.T) {
	for _, d := range compileDevices() {
		var cell box
		cell.t = d.Ones(3).RequireGrad()
		before := cell.t
		bad := true
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			l := a[0].Mul(cell.t).Sum()
			l.Backward()
			cell.Set(a[0].Mul(cell.t.Detach()).RequireGrad())
			if bad {
				panic("out of here")
			}
			return []*locus.Tensor{cell.t.Detach()}
		}, &cell)
		func() {
			defer func() {
				if r := recover(); r != "out of here" {
					t.Errorf("recovered %v", r)
				}
			}()
			c.Call(d.Full(2, 3))
		}()
		if cell.t != before || cell.t.Grad() != nil {
			t.Error("the cell was changed")
		}
		bad = false
		for i := range 4 {
			want := cell.t.Detach().Mul(2)
			sameElements(t, fmt.Sprint("call ", i), want, c.Call(d.Full(2, 3))[0])
		}
		if err := locus.Try(func() { c.Call(d.Ones(4)) }); !errors.Is(err, locus.ErrShape) {
			t.Errorf("another shape: %v", err)
		}
		sameElements(t, "behind an error", cell.t.Detach().Mul(2), c.Call(d.Full(2, 3))[0])
	}
}

// TestCompileLeftovers refuses tensors that a trace has left in Go variables. A function
// with goroutines inside is called as it is.
func TestCompileLeftovers(t *testing.T) {
	for _, d := range compileDevices() {
		var left *locus.Tensor
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			left = a[0].Exp()
			return []*locus.Tensor{left.Mul(2)}
		})
		c.Call(d.Ones(2))
		for name, use := range map[string]func(){
			"op":   func() { left.Add(1) },
			"Item": func() { left.Sum().Item() },
			"read": func() { locus.ToSlice[float32](left) },
			"trace": func() {
				locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Add(left)} }).Call(d.Ones(2))
			},
		} {
			err := locus.Try(use)
			if err == nil || !strings.Contains(err.Error(), "traced") || !strings.Contains(err.Error(), "fix:") {
				t.Errorf("%s: %v", name, err)
			}
		}
		_ = left.String()
		g := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			var wg sync.WaitGroup
			parts := make([]*locus.Tensor, 4)
			for i := range parts {
				wg.Go(func() {
					parts[i] = a[0].Mul(float64(i)).Exp()
					if i == 3 {
						parts[i] = parts[i].Mul(1 + parts[0].Sum().Item())
					}
				})
				if i == 0 {
					wg.Wait()
				}
			}
			wg.Wait()
			return []*locus.Tensor{parts[0].Add(parts[1]).Add(parts[2]).Add(parts[3])}
		})
		for range 4 {
			sameElements(t, "goroutines inside", d.From([]float32{1, 1}).Add(d.Ones(2).Exp()).Add(d.Full(2, 2).Exp()).Add(d.Full(3, 2).Exp().Mul(3)), g.Call(d.Ones(2))[0])
		}
		if !strings.Contains(g.Fallback(), "another goroutine") {
			t.Errorf("goroutines inside: %q", g.Fallback())
		}
	}
}

// TestCompileLenient has functions that read values: with Lenient they are called.
func TestCompileLenient(t *testing.T) {
	for _, d := range compileDevices() {
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{a[0].Mul(a[0].Sum().Item())}
		}).Lenient()
		for i := range 4 {
			x := d.Full(float64(i), 3)
			sameElements(t, "a function that reads", x.Mul(3*float64(i)), c.Call(x)[0])
			if !strings.Contains(c.Fallback(), "reads or waits for a value at") || !strings.Contains(c.Fallback(), "compile_test.go") {
				t.Errorf("call %d: %q", i, c.Fallback())
			}
		}
		own := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { panic("of its own") }).Lenient()
		func() {
			defer func() {
				if recover() != "of its own" {
					t.Error("a panic is lost")
				}
			}()
			own.Call(d.Ones(1))
		}()
	}
}

// TestCompileRecheck changes a Go number that two traces did not show: Recheck finds it.
func TestCompileRecheck(t *testing.T) {
	for _, d := range compileDevices() {
		factor, calls := 2.0, 0
		table := []float32{1, 2}
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			calls++
			return []*locus.Tensor{a[0].Mul(factor).Add(a[0].Device().From(table)).Add(a[0].Device().Randn(2))}
		})
		call := func(want func(x *locus.Tensor) *locus.Tensor) {
			t.Helper()
			x := d.Ones(2)
			locus.Seed(5)
			w := want(x).Add(d.Randn(2))
			locus.Seed(5)
			sameElements(t, "a call", w, c.Call(x)[0])
		}
		now := func(x *locus.Tensor) *locus.Tensor { return x.Mul(factor).Add(d.From(table)) }
		for range 5 {
			call(now)
		}
		if calls != 2 {
			t.Fatalf("%d calls", calls)
		}
		c.Recheck() // nothing has changed
		call(now)
		call(now)
		if calls != 3 {
			t.Errorf("%d calls; want one more", calls)
		}
		factor = 3
		c.Recheck()
		for range 4 {
			call(now)
		}
		if calls != 6 {
			t.Errorf("%d calls; want three more: one to compare, two to trace", calls)
		}
		table = []float32{5, 6} // a constant
		c.Recheck()
		for range 4 {
			call(now)
		}
		if calls != 9 || c.Fallback() != "" || !strings.Contains(c.Explain(), "no longer the same") {
			t.Errorf("%d calls, %q\n%s", calls, c.Fallback(), c.Explain())
		}
	}
}

// TestCompileMemory runs 10,000 replays: what is in use, the peak and what is kept
// for reuse stay the same, and nothing is left to the collector.
func TestCompileMemory(t *testing.T) {
	for _, d := range compileDevices() {
		w := box{d.Key(locus.NewKey(1)).Randn(40, 40).RequireGrad()}
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			l := a[0].MatMul(w.t).Tanh().Square().Mean()
			g := locus.Grad([]*locus.Tensor{l}, []*locus.Tensor{w.t}, locus.FreeGraph)[0]
			w.Set(w.t.Detach().Blend(1, g, -0.01).RequireGrad())
			return []*locus.Tensor{l.Detach()}
		}, &w)
		x := d.Key(locus.NewKey(2)).Randn(40, 40)
		d.Collect()
		var early locus.MemoryStats
		steps := 10000
		if testing.Short() {
			steps = 1000
		}
		for i := range steps {
			old := w.t
			locus.Scoped(func(s *locus.Scope) { c.Call(s.Use(x)) })
			s := locus.NewScope() // what the cell held is the program's to free
			s.Adopt(old)
			s.Close()
			if i == 100 {
				d.ResetPeak()
			}
			if i == 200 {
				if err := d.Synchronize(); err != nil {
					t.Fatal(err)
				}
				early = d.MemoryStats()
			}
		}
		if err := d.Synchronize(); err != nil {
			t.Fatal(err)
		}
		late := d.MemoryStats()
		if late.InUse > early.InUse || late.Peak > early.Peak || late.Cached > early.Cached+128<<10 || late.Collections > early.Collections {
			t.Errorf("memory grew in %d calls:\n%s\n%s", steps, early, late)
		}
		isCompiled(t, c)
	}
}

// TestCompileLeavesNothing traces many functions that nobody keeps, with blocks of all
// sizes, in programs and in traces that are given up.
func TestCompileLeavesNothing(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	d := locus.CPU()
	w := d.Ones(64, 64).RequireGrad()
	once := func(how int) {
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			locus.Scoped(func(s *locus.Scope) {
				x := s.Use(a[0])
				for range 20 {
					x = x.MatMul(w).Mul(0.01)
				}
				x.Sum().Backward()
				w.ZeroGrad()
			})
			if how == 1 {
				panic(&locus.Error{})
			}
			if how == 2 {
				return []*locus.Tensor{locus.Dropout(a[0], 0.5, locus.NewKey(1))}
			}
			return []*locus.Tensor{a[0].Exp()}
		})
		for range 3 {
			_ = locus.Try(func() { c.Call(d.Ones(64, 64)) })
		}
	}
	for i := range 9 {
		once(i % 3)
	}
	before := heap()
	for i := range 150 {
		once(i % 3)
	}
	if after := heap(); after > before+20000 { // one trace has hundreds
		t.Errorf("%d objects, before %d", after, before)
	}
}

// TestCompileScopes puts results into the scopes of arguments, as the function itself
// would.
func TestCompileScopes(t *testing.T) {
	for _, d := range compileDevices() {
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Add(a[1]), a[1].Exp()} })
		x, y := d.Ones(3), d.Ones(3)
		for range 5 {
			outer, inner := locus.NewScope(), locus.NewScope()
			r := c.Call(outer.Use(x), inner.Use(y))
			if r[0].Scope() != inner || r[1].Scope() != inner {
				t.Error("results are not in the younger scope")
			}
			q := c.Call(inner.Use(x), outer.Use(y))
			if q[0].Scope() != inner || q[1].Scope() != outer {
				t.Error("results are not in the scopes of what they were computed from")
			}
			inner.Close()
			if !r[0].Freed() || !r[1].Freed() || !q[0].Freed() || q[1].Freed() {
				t.Error("the scope's end did not free what belongs to it")
			}
			outer.Close()
			if !q[1].Freed() || x.Freed() || y.Freed() {
				t.Error("the scope's end did not free what belongs to it, or more")
			}
		}
		isCompiled(t, c)
		free := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			r := a[0].Exp()
			a[0].Free()
			return []*locus.Tensor{r}
		})
		for range 4 {
			x := d.Ones(3)
			r := free.Call(x)[0]
			if !x.Freed() || r.IsView() {
				t.Error("the function frees its argument and returns a tensor of its own")
			}
			r.Free()
			if !r.Freed() {
				t.Error("the result is not the caller's")
			}
		}
		isCompiled(t, free)
	}
}

// TestCompileGoroutines calls one program from several goroutines while others
// compute, trace and use the same tensors.
func TestCompileGoroutines(t *testing.T) {
	for _, d := range compileDevices() {
		w := d.Key(locus.NewKey(1)).Randn(8, 8)
		f := func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].MatMul(w).Softmax(1)} }
		c := locus.Compile(f)
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				own := locus.Compile(f)
				for i := range 60 {
					x := d.Key(locus.NewKey(uint64(g*1000+i))).Randn(3, 8)
					want := f(x)[0]
					sameElements(t, "shared", want, c.Call(x)[0])
					sameElements(t, "own", want, own.Call(x)[0])
				}
			})
		}
		wg.Wait()
		isCompiled(t, c)
	}
}

// TestCompileFails has programs that fail when they run.
func TestCompileFails(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 4<<20)[0]
	c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{a[0].Reshape(-1, 1).Add(a[0]).Exp().Sum()}
	})
	x := d.Ones(700) // one large value is more than half of what the device has
	for range 3 {
		c.Call(x)
	}
	in := d.MemoryStats().InUse
	room := d.Zeros(850000)
	err := locus.Try(func() { c.Call(x) })
	var e *locus.Error
	if !errors.Is(err, locus.ErrOutOfMemory) || !errors.As(err, &e) || e.Memory == nil || e.Memory.Device != d || !strings.Contains(e.Msg, "compile_test.go:") {
		t.Errorf("out of memory: %v", err)
	}
	room.Free()
	if now := d.MemoryStats().InUse; now > in {
		t.Errorf("%d bytes in use behind an error, before %d", now, in)
	}
	sameElements(t, "behind an error", x.Reshape(-1, 1).Add(x).Exp().Sum(), c.Call(x)[0])

	// What is freed.
	w := locus.Ones(3)
	g := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Add(w)} })
	for range 3 {
		g.Call(w)
	}
	w.Free()
	if err := locus.Try(func() { g.Call(locus.Ones(3)) }); !errors.Is(err, locus.ErrFreed) || !strings.Contains(err.Error(), "compile_test.go:") {
		t.Errorf("a freed tensor from outside: %v", err)
	}
	if err := locus.Try(func() { g.Call(w) }); !errors.Is(err, locus.ErrFreed) {
		t.Errorf("a freed argument: %v", err)
	}

	// What depends on data.
	take := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		a[0].Take(0, a[1]) // nobody uses it, but it looks at indices
		return []*locus.Tensor{a[0]}
	})
	for range 3 {
		take.Call(locus.Ones(3), locus.From([]int64{2}))
	}
	if err := locus.Try(func() { take.Call(locus.Ones(3), locus.From([]int64{3})) }); !errors.Is(err, locus.ErrIndex) {
		t.Errorf("an index outside: %v", err)
	}
}

// TestCompileTransfers writes the ledger and obeys the guard: constants move once.
func TestCompileTransfers(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 0)[0]
	f := func(a ...*locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{a[0].Add(d.From([]float32{1, 2, 3}))}
	}
	x := d.Ones(3)
	c := locus.Compile(f)
	restore := locus.Guard(locus.Disallow, locus.HostToDevice)
	err := locus.Try(func() { c.Call(x) })
	restore()
	if !errors.Is(err, locus.ErrTransfer) {
		t.Errorf("a constant in spite of the guard: %v", err)
	}
	c.Call(x)
	c.Call(x)
	locus.ResetLedger()
	restore = locus.Guard(locus.Disallow)
	c.Call(x)
	restore()
	if n := locus.Ledger().Count(); n != 0 {
		t.Errorf("%d transfers in a replay", n)
	}
	isCompiled(t, c)
}

func BenchmarkCompiledCall(b *testing.B) {
	f := func(a ...*locus.Tensor) []*locus.Tensor {
		x := a[0]
		for range 20 {
			x = x.Add(1)
		}
		return []*locus.Tensor{x}
	}
	c := locus.Compile(f)
	x := locus.Ones(16)
	b.Run("eager", func(b *testing.B) {
		for b.Loop() {
			f(x)
		}
	})
	b.Run("compiled", func(b *testing.B) {
		for b.Loop() {
			c.Call(x)
		}
	})
}

// TestCompileFuses has an expression whose steps are one step in the explanation, with a
// value that is both returned and used, and rows that are broadcast.
func TestCompileFuses(t *testing.T) {
	f := func(a ...*locus.Tensor) []*locus.Tensor {
		y := a[0].Add(a[1]).Exp()
		return []*locus.Tensor{y, y.Mul(2).Cast(locus.BFloat16).Cast(locus.Float32), y.Sum(1)}
	}
	for _, d := range compileDevices() {
		c := locus.Compile(f)
		x, row := d.Randn(7, 33), d.Randn(33)
		for range 3 {
			want, got := f(x, row), c.Call(x, row)
			for i := range want {
				sameElements(t, fmt.Sprintf("result %d", i), want[i], got[i])
			}
		}
		if why := c.Explain(); os.Getenv("LOCUS_FUSE") != "off" && !strings.Contains(why, "fusion: 5 elementwise steps became 1, 0 stay alone; 2 steps are run in all") {
			t.Errorf("the steps are not fused:\n%s", why)
		}
	}
}

// BenchmarkCompiledExpression times (z+2).exp()·y of float32, eager and compiled, beside
// a copy; the rates are of the bytes that a single pass moves. On a GPU, if there is
// one, with 64 Mi elements, else with 16 Mi on the CPU.
func BenchmarkCompiledExpression(b *testing.B) {
	d, n := locus.TryGPU(), 64<<20
	if d == locus.CPU() || locus.Try(func() { d.Zeros(4 * n).Free() }) != nil { // virtual GPUs are small
		d, n = locus.CPU(), 16<<20
	}
	z, y := d.Randn(n), d.Randn(n)
	f := func(a ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{a[0].Add(2).Exp().Mul(a[1])} }
	c := locus.Compile(f)
	for range 3 {
		c.Call(z, y)[0].Free()
	}
	for name, run := range map[string]func(){
		"copy": func() { z.Copy().Free() },
		"eager": func() {
			s := locus.NewScope()
			f(s.Use(z), s.Use(y))
			s.Close()
		},
		"compiled": func() { c.Call(z, y)[0].Free() },
	} {
		b.Run(name, func(b *testing.B) {
			moved := 12
			if name == "copy" {
				moved = 8
			}
			b.SetBytes(int64(moved * n))
			d.Synchronize()
			for b.Loop() {
				run()
			}
			d.Synchronize()
		})
	}
}
