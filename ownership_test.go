package locus_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/optest"
)

// Who owns memory. A block has one owner: the tensor that an op, a copy or a creation
// function returned. A view borrows: freeing it does nothing. Freeing the owner gives
// the memory back, and using it or a view of it is an ErrFreed.

// usable reads a tensor.
func usable(t *locus.Tensor) error {
	return locus.Try(func() { t.Detach().Cast(locus.Float64).Sum().Item() })
}

// settled waits for queued work, which holds on to memory, and returns the bytes in use.
func settled(t testing.TB, d locus.Device) int64 {
	t.Helper()
	if err := d.Synchronize(); err != nil {
		t.Fatal(err)
	}
	return d.MemoryStats().InUse
}

// views are the public methods and functions that give a view, on a tensor of shape
// (4, 6), or one that is computed (history) where that makes a difference.
func views(s *locus.Scope) map[string]func(x *locus.Tensor) *locus.Tensor {
	type T = *locus.Tensor
	return map[string]func(x T) T{
		"Reshape":                       func(x T) T { return x.Reshape(6, 4) },
		"Reshape to the same shape":     func(x T) T { return x.Reshape(4, 6) },
		"Flatten":                       func(x T) T { return x.Flatten() },
		"FlattenFrom":                   func(x T) T { return x.FlattenFrom(0) },
		"FlattenFrom the last axis":     func(x T) T { return x.FlattenFrom(1) },
		"Permute":                       func(x T) T { return x.Permute(1, 0) },
		"Permute to the same order":     func(x T) T { return x.Permute(0, 1) },
		"Transpose":                     func(x T) T { return x.Transpose(0, 1) },
		"Transpose of an axis and it":   func(x T) T { return x.Transpose(1, 1) },
		"T":                             func(x T) T { return x.T() },
		"MoveAxis":                      func(x T) T { return x.MoveAxis(0, 1) },
		"Expand":                        func(x T) T { return x.Expand(3, 4, 6) },
		"Expand to the same shape":      func(x T) T { return x.Expand(4, 6) },
		"Squeeze of nothing":            func(x T) T { return x.Squeeze() },
		"Unsqueeze":                     func(x T) T { return x.Unsqueeze(0) },
		"Unsqueeze and Squeeze":         func(x T) T { return x.Unsqueeze(0).Squeeze(0) },
		"Diagonal":                      func(x T) T { return x.Diagonal(0, 0, 1) },
		"Slice":                         func(x T) T { return x.Slice(locus.R(1, 3)) },
		"Slice of everything":           func(x T) T { return x.Slice(locus.All(), locus.All()) },
		"Slice without ranges":          func(x T) T { return x.Slice() },
		"Index":                         func(x T) T { return x.Index(2) },
		"Index of nothing":              func(x T) T { return x.Index() },
		"Narrow":                        func(x T) T { return x.Narrow(1, 2, 5) },
		"Narrow to everything":          func(x T) T { return x.Narrow(1, 0, 6) },
		"Flip":                          func(x T) T { return x.Flip(0) },
		"Split":                         func(x T) T { return x.Split(2, 0)[1] },
		"Split into one":                func(x T) T { return x.Split(4, 0)[0] },
		"Chunk":                         func(x T) T { return x.Chunk(2, 0)[0] },
		"Chunk into one":                func(x T) T { return x.Chunk(1, 0)[0] },
		"Detach":                        func(x T) T { return x.Detach() },
		"Detach of a leaf":              func(x T) T { return x.RequireGrad().Detach() },
		"RequireGrad":                   func(x T) T { return x.RequireGrad() },
		"Scope.Use":                     func(x T) T { return s.Use(x) },
		"Meshgrid":                      func(x T) T { return locus.Meshgrid(x.Flatten(), x.Flatten())[0] },
		"a view of a view":              func(x T) T { return x.T().Narrow(0, 1, 3).Flip() },
		"a view of Use":                 func(x T) T { return s.Use(x).Reshape(24) },
		"Pin, To and Cast of a view":    func(x T) T { return x.Reshape(24).To(x.Device()).Cast(x.DType()).Contiguous() },
		"ValueAndGrad of a view":        func(x T) T { return view(x) },
		"Custom that gives its operand": func(x T) T { return custom(x) },
		"Checkpoint of a view": func(x T) T {
			return locus.Checkpoint(func(in ...T) T { return in[0].Reshape(24) }, x.RequireGrad())
		},
		"VJP's value": func(x T) T {
			v, _ := locus.VJP(func(in ...T) T { return in[0].Reshape(24) }, x)
			return v
		},
	}
}

func view(x *locus.Tensor) *locus.Tensor {
	y, _ := locus.ValueAndGrad(func(in ...*locus.Tensor) *locus.Tensor { return in[0].Index(0, 0) })(x)
	return y
}

func custom(x *locus.Tensor) *locus.Tensor {
	return locus.Custom("same", func(in ...*locus.Tensor) *locus.Tensor { return in[0] },
		func(_ []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{g} }, x.RequireGrad())
}

// To free a view does nothing, whatever made it; to free what it is a view of ends
// both.
func TestFreeOfAView(t *testing.T) {
	for _, d := range places()[:2] {
		s := locus.NewScope()
		all := views(s)
		for name, of := range all {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				x := d.Full(3, 4, 6)
				v := of(x)
				if !v.SharesMemory(x) {
					t.Fatal("the test's fault: this is no view")
				}
				before := settled(t, d)
				v.Free()
				if x.Freed() || v.Freed() {
					t.Fatalf("to free the view freed what it is a view of (it is the same *Tensor: %v)", v == x)
				}
				if after := settled(t, d); after != before {
					t.Errorf("%d bytes in use before the view was freed, %d after", before, after)
				}
				if got := x.Sum().Item(); got != 72 {
					t.Errorf("the sum is %v", got)
				}
				if err := usable(v); err != nil {
					t.Error(err)
				}
				x.Free()
				if !x.Freed() || !v.Freed() {
					t.Errorf("freed: %v, its view %v", x.Freed(), v.Freed())
				}
				for _, y := range []*locus.Tensor{x, v} {
					if err := usable(y); !errors.Is(err, locus.ErrFreed) {
						t.Errorf("a freed tensor was read: %v", err)
					}
				}
				x.Free() // twice
				v.Free()
			})
		}
		s.Close()
	}
}

// Some ops say in their documentation that they may give the tensor itself: then there
// is no view, and to free the result is to free the tensor.
func TestTheTensorItself(t *testing.T) {
	for _, d := range places()[:2] {
		for name, of := range map[string]func(x *locus.Tensor) *locus.Tensor{
			"To":         func(x *locus.Tensor) *locus.Tensor { return x.To(d) },
			"Cast":       func(x *locus.Tensor) *locus.Tensor { return x.Cast(locus.Float32) },
			"Contiguous": func(x *locus.Tensor) *locus.Tensor { return x.Contiguous() },
		} {
			x := d.Full(3, 4, 6)
			if y := of(x); y == x {
				y.Free()
				if !x.Freed() {
					t.Errorf("%s: %s gave the tensor itself, and to free it does nothing", d, name)
				}
			} else if y.Free(); x.Freed() && y.SharesMemory(x) {
				t.Errorf("%s: %s gave a view, and to free it frees the tensor", d, name)
			}
		}
	}
}

// Every op's result has an owner: either it is a view of an operand, and to free it
// leaves the operand as it is, or it has memory of its own, and to free it gives that
// back.
func TestEveryOpsResultCanBeFreed(t *testing.T) {
	records, err := optest.Load("testdata/ops.bin.gz")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]*optest.Op{}
	for _, o := range optest.Table() {
		table[o.Name] = o
	}
	// What says in its documentation that it may give an operand itself.
	itself := []string{"Tensor.Contiguous", "Tensor.Cast", "Tensor.To"}
	for _, d := range places()[:2] {
		t.Run(d.String(), func(t *testing.T) {
			wrong := map[string][]string{}
			checked, own, borrowed := 0, 0, 0
			for _, c := range records.Cases {
				o := table[c.Op]
				if o == nil || c.DType != locus.Float32 && c.DType != locus.Int64 && c.DType != locus.Bool {
					continue
				}
				bad := func(format string, args ...any) {
					if w := fmt.Sprintf(format, args...); !slices.Contains(wrong[c.Op], w) {
						wrong[c.Op] = append(wrong[c.Op], w)
					}
				}
				var in, out []*locus.Tensor
				if err := locus.Try(func() {
					for _, x := range c.Inputs(d, c.DType) {
						in = append(in, x.Copy()) // owners
					}
					out = c.Call(o, d, in)
				}); err != nil {
					bad("%v", err)
					continue
				}
				checked++
				for k, y := range out {
					if y == nil || y.Len() == 0 || y.Freed() {
						continue // freed: with another result whose memory it shares
					}
					same, shares := slices.Contains(in, y), slices.ContainsFunc(in, y.SharesMemory)
					switch {
					case same && slices.Contains(itself, c.Op):
					case same:
						bad("result %d is an operand itself: to free it frees the operand", k)
					case shares:
						borrowed++
						y.Free()
						if slices.ContainsFunc(in, (*locus.Tensor).Freed) {
							bad("to free result %d, a view, freed an operand", k)
						}
					default:
						own++
						before := settled(t, d)
						y.Free()
						if !y.Freed() {
							bad("result %d has memory of its own and cannot be freed", k)
						} else if after := settled(t, d); after >= before {
							bad("result %d was freed; in use before %d bytes, after %d", k, before, after)
						}
						if slices.ContainsFunc(in, (*locus.Tensor).Freed) {
							bad("to free result %d freed an operand", k)
						}
					}
				}
				for _, x := range in {
					if !x.Freed() {
						if err := usable(x); err != nil && x.Len() > 0 {
							bad("an operand cannot be read: %v", err)
						}
						x.Free()
					}
				}
			}
			if checked < 300 || own < 200 || borrowed < 20 {
				t.Errorf("%d cases with %d results of their own and %d views; the test checks too little", checked, own, borrowed)
			}
			for _, name := range slices.Sorted(mapKeys(wrong)) {
				for _, w := range wrong[name] {
					t.Errorf("%s: %s", name, w)
				}
			}
		})
	}
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// Concat and Stack of one tensor are copies like those of several: what they give can
// be freed, and the operand lives.
func TestConcatOfOne(t *testing.T) {
	for _, d := range places() {
		for name, of := range map[string]func(x *locus.Tensor) *locus.Tensor{
			"Concat": func(x *locus.Tensor) *locus.Tensor { return locus.Concat(0, x) },
			"Stack":  func(x *locus.Tensor) *locus.Tensor { return locus.Stack(0, x) },
			"Vmap": func(x *locus.Tensor) *locus.Tensor {
				return locus.Vmap(func(in ...*locus.Tensor) *locus.Tensor { return in[0] })(x.Unsqueeze(0))
			},
		} {
			x := d.Full(2, 5)
			y := of(x)
			if y.SharesMemory(x) {
				t.Errorf("%s: %s of one tensor shares its memory", d, name)
			}
			y.Free()
			if x.Freed() || !y.Freed() || x.Sum().Item() != 10 {
				t.Errorf("%s: %s: freed: operand %v, result %v", d, name, x.Freed(), y.Freed())
			}
		}
	}
}

// A second Free does nothing, even when the memory has another tensor by then.
func TestFreeTwice(t *testing.T) {
	for _, d := range places() {
		for _, n := range []int{3, 10000} {
			a := d.Full(1, n)
			v := a.Reshape(1, n)
			a.Free()
			b := d.Full(2, n) // most likely in the same place
			a.Free()
			v.Free()
			c := d.Full(3, n)
			if b.Freed() || b.SharesMemory(c) || b.Sum().Item() != float64(2*n) || c.Sum().Item() != float64(3*n) {
				t.Errorf("%s, %d elements: a tensor was freed with another", d, n)
			}
		}
	}
}

// Keep takes a tensor out of the scope that holds its memory, whichever scope is asked.
func TestKeep(t *testing.T) {
	for _, d := range places()[:2] {
		made := func(s *locus.Scope) *locus.Tensor { return s.Use(d.Ones(2000)).Add(1) }
		check := func(name string, y *locus.Tensor) {
			t.Helper()
			runtime.GC() // nothing but y holds it
			if y.Freed() {
				t.Errorf("%s: %s: freed", d, name)
			} else if got := y.Sum().Item(); got != 2*float64(y.Len()) {
				t.Errorf("%s: %s: the sum is %v", d, name, got)
			}
			if y.Scope() != nil {
				t.Errorf("%s: %s: it is in a scope", d, name)
			}
			if !y.Freed() && y.Add(1).Scope() != nil {
				t.Errorf("%s: %s: what is computed from it is in a scope", d, name)
			}
		}
		s := locus.NewScope()
		y := made(s)
		if got := s.Keep(y); got != y {
			t.Error("Keep gives another tensor")
		}
		s.Close()
		check("own scope", y)
		y.Free()
		if !y.Freed() {
			t.Error("what was kept cannot be freed")
		}

		own, other := locus.NewScope(), locus.NewScope()
		y = made(own)
		other.Keep(y)
		own.Close()
		check("another scope, own closed first", y)
		other.Close()
		check("another scope, both closed", y)

		own, other = locus.NewScope(), locus.NewScope()
		y = made(own)
		other.Close()
		other.Keep(y)
		own.Close()
		check("a closed scope", y)

		own, other = locus.NewScope(), locus.NewScope()
		y = made(own)
		z := made(own)
		other.Keep(y, z)
		own.Close()
		other.Close()
		check("the first of two", y)
		check("the second of two", z)

		// A view: the memory is kept, and with it all that share it.
		s = locus.NewScope()
		y = made(s)
		v := y.Reshape(40, 50)
		s.Keep(v)
		s.Close()
		check("a view", v)
		if y.Freed() {
			t.Errorf("%s: a view was kept, and what it is a view of freed", d)
		}
		// What it is a view of: the view lives as well.
		s = locus.NewScope()
		y = made(s)
		v = y.Reshape(40, 50)
		s.Keep(y)
		s.Close()
		if v.Freed() || usable(v) != nil {
			t.Errorf("%s: a tensor was kept, and a view of it freed", d)
		}
		check("what a view is of", y)

		// In no scope: nothing happens.
		y = d.Full(2, 2000)
		s = locus.NewScope()
		s.Keep(y)
		s.Close()
		check("in no scope", y)
		s = locus.NewScope()
		u := s.Use(y)
		s.Keep(u)
		s.Close()
		check("Use of what is in no scope", u)
		check("what was used", y)

		// Kept, and used in another scope: that one ends, and it does not.
		s = locus.NewScope()
		y = s.Keep(made(s))
		s.Close()
		s = locus.NewScope()
		w := s.Use(y).Mul(1)
		s.Close()
		if !w.Freed() {
			t.Errorf("%s: a result outlived its scope", d)
		}
		check("used again", y)

		// Kept twice, and by two scopes.
		s, other = locus.NewScope(), locus.NewScope()
		y = made(s)
		s.Keep(y)
		s.Keep(y)
		other.Keep(y)
		s.Close()
		other.Close()
		check("kept twice", y)

		// Freed: an error, from every scope.
		s, other = locus.NewScope(), locus.NewScope()
		y = made(s)
		s.Close()
		for _, sc := range []*locus.Scope{s, other} {
			if err := locus.Try(func() { sc.Keep(y) }); !errors.Is(err, locus.ErrFreed) {
				t.Errorf("%s: a freed tensor was kept: %v", d, err)
			}
		}
		other.Close()
	}
}

// What is kept belongs to the collector again: dropping it gives its memory back.
func TestKeptIsCollected(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 8<<20)[0]
	for i := range 40 { // 40 MiB in all
		own, other := locus.NewScope(), locus.NewScope()
		y := own.Use(d.Ones(1 << 18)).Add(1)
		[]*locus.Scope{own, other}[i%2].Keep(y)
		own.Close()
		other.Close()
	}
	if s := d.MemoryStats(); s.OutOfMemory != 0 {
		t.Error(s)
	}
}

// Adopt moves memory from one scope to another, and a view's with it.
func TestAdopt(t *testing.T) {
	for _, d := range places()[:2] {
		first, second := locus.NewScope(), locus.NewScope()
		y := first.Use(d.Ones(2000)).Add(1)
		second.Adopt(y)
		first.Close()
		if y.Freed() || y.Scope() != second {
			t.Errorf("%s: freed %v with the scope that it was taken from", d, y.Freed())
		}
		second.Close()
		if !y.Freed() {
			t.Errorf("%s: not freed with the scope that adopted it", d)
		}
		// A view: the memory goes with the scope.
		s := locus.NewScope()
		x := d.Ones(2000)
		v := s.Adopt(x.Reshape(40, 50))
		if err := usable(x); err != nil {
			t.Errorf("%s: %v", d, err)
		}
		s.Close()
		if !v.Freed() || !x.Freed() {
			t.Errorf("%s: a view was adopted; freed: it %v, the tensor %v", d, v.Freed(), x.Freed())
		}
		// A view of what another scope holds.
		first, second = locus.NewScope(), locus.NewScope()
		y = first.Use(d.Ones(2000)).Add(1)
		v = second.Adopt(y.Reshape(40, 50))
		first.Close()
		if v.Freed() || usable(v) != nil {
			t.Errorf("%s: a view was adopted, and its memory freed with the scope that it was taken from", d)
		}
		second.Close()
		if !v.Freed() || !y.Freed() {
			t.Errorf("%s: a view was adopted; freed: it %v, the tensor %v", d, v.Freed(), y.Freed())
		}
		// Adopted, then kept, adopted again, freed by hand in a scope.
		before := settled(t, d)
		s = locus.NewScope()
		y = s.Adopt(d.Ones(2000))
		s.Keep(y)
		s.Adopt(y)
		s.Adopt(y)
		y.Free()
		z := d.Ones(2000)
		s.Close()
		if z.Freed() || z.Sum().Item() != 2000 {
			t.Errorf("%s: to close a scope freed another tensor", d)
		}
		z.Free()
		if after := settled(t, d); after > before+1024 { // sums that were read are the collector's
			t.Errorf("%s: in use before %d bytes, after %d", d, before, after)
		}
		if err := locus.Try(func() { s.Adopt(d.Ones(1)) }); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: adopted by a closed scope: %v", d, err)
		}
	}
}

// Views of what scopes hold: to free one does nothing, in a scope or not.
func TestViewsAndScopes(t *testing.T) {
	for _, d := range places()[:2] {
		x := d.Full(2, 2000)
		s := locus.NewScope()
		u := s.Use(x)
		u.Free()
		if x.Freed() {
			t.Fatalf("%s: to free what Use gave freed the tensor", d)
		}
		y := u.Add(1)
		y.Reshape(40, 50).Free()
		y.Detach().RequireGrad().Free()
		if y.Freed() {
			t.Fatalf("%s: to free a view freed a scope's tensor", d)
		}
		n := s.Len()
		y.Free() // the owner may be freed before its scope ends
		if !y.Freed() || s.Len() > n {
			t.Errorf("%s: freed %v", d, y.Freed())
		}
		s.Close()
		if x.Freed() || x.Sum().Item() != 4000 {
			t.Errorf("%s: what was used was freed with the scope", d)
		}
		// A scope that only uses holds nothing.
		s = locus.NewScope()
		s.Use(x).Reshape(40, 50).T()
		if s.Len() != 0 {
			t.Errorf("%s: a scope holds %d blocks of views", d, s.Len())
		}
		s.Close()
	}
}

// Nested scopes in any order of closing.
func TestNestedScopes(t *testing.T) {
	for _, d := range places()[:2] {
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}} {
			scopes := []*locus.Scope{locus.NewScope(), locus.NewScope(), locus.NewScope()}
			x := d.Ones(2000)
			made := make([]*locus.Tensor, 3)
			in := x
			for i, s := range scopes {
				in = s.Use(in).Add(1) // from the scope outside
				made[i] = in
			}
			both := made[0].Add(made[2])
			if both.Scope() != scopes[2] {
				t.Errorf("%s: a result is not in the youngest scope", d)
			}
			closed := map[int]bool{}
			for _, i := range order {
				scopes[i].Close()
				closed[i] = true
				for k, y := range made {
					if y.Freed() != closed[k] {
						t.Errorf("%s: closed %v: tensor %d freed %v", d, closed, k, y.Freed())
					} else if !closed[k] && y.Sum().Item() != float64(2000*(k+2)) {
						t.Errorf("%s: closed %v: tensor %d has other elements", d, closed, k)
					}
				}
				if both.Freed() != closed[2] {
					t.Errorf("%s: closed %v: a result of two scopes freed %v", d, closed, both.Freed())
				}
			}
			if x.Freed() {
				t.Errorf("%s: what was used was freed", d)
			}
		}
	}
}

// A leaf owns the gradient that Backward collects: ZeroGrad frees it, unless the
// program has asked for it.
func TestCollectedGradientsAreFreed(t *testing.T) {
	for _, d := range places()[:2] {
		w := d.Ones(5000).RequireGrad()
		w.Mul(3).Sum().Backward()
		runtime.GC()
		d.Collect()
		before := settled(t, d)
		w.ZeroGrad()
		if after := settled(t, d); after > before-20000 {
			t.Errorf("%s: ZeroGrad: in use before %d bytes, after %d; the gradient has 20000", d, before, after)
		}
		if w.Grad() != nil {
			t.Errorf("%s: the gradient is still there", d)
		}
		// One that the program has taken lives on.
		w.Mul(3).Sum().Backward()
		g := w.Grad()
		w.ZeroGrad()
		if g.Freed() || g.Sum().Item() != 15000 {
			t.Errorf("%s: a gradient that the program holds was freed", d)
		}
		// A second Backward adds, and what it replaces goes, unless the program has it.
		w.Mul(3).Sum().Backward()
		g = w.Grad()
		w.Mul(2).Sum().Backward()
		if g.Freed() || g.Sum().Item() != 15000 {
			t.Errorf("%s: a gradient that the program holds was freed by the next", d)
		}
		if got := w.Grad().Sum().Item(); got != 25000 {
			t.Errorf("%s: collected %v", d, got)
		}
		// In a scope: collected gradients belong to none.
		v := d.Ones(5000).RequireGrad()
		locus.Scoped(func(s *locus.Scope) { s.Use(v).Mul(3).Sum().Backward() })
		if v.Grad() == nil || v.Grad().Freed() || v.Grad().Sum().Item() != 15000 {
			t.Errorf("%s: a gradient went with a scope", d)
		}
	}
}
