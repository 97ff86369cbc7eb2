package optest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/layout"
)

// unkeyed are ops that draw with a key of the caller's own, which a compiled function
// refuses.
var unkeyed = map[string]bool{"Dropout": true, "DropoutChannels": true, "AlphaDropout": true}

// waiting reports whether a call of o waits for elements.
func (o *Op) waiting(c *Case, d locus.Device, in []*locus.Tensor) bool {
	return o.Waits != nil && o.Waits(&Call{Device: d, DType: c.DType, In: in, attrs: c.attrs})
}

// checkRefused makes sure that a compiled function refuses an op that waits.
func checkRefused(t *testing.T, c *Case, f func(args ...*locus.Tensor) []*locus.Tensor, args []*locus.Tensor) {
	var e *locus.Error
	err := guarded(func() { locus.Compile(f).Call(args...) })
	if !errors.As(err, &e) || !strings.Contains(e.Msg, "depends on elements") || !strings.HasSuffix(c.Op, e.Op) {
		t.Errorf("%s%s: its shape depends on elements, which a compiled function must refuse: %v", c, describe(c), err)
	}
}

// checkCompiled calls a function, and the function compiled, three times each with
// the same arguments: the third call runs a program.
func checkCompiled(t *testing.T, what string, f func(args ...*locus.Tensor) []*locus.Tensor, args []*locus.Tensor, refused bool) {
	compareCompiled(t, what, f, args, refused, func(want, got []*locus.Tensor) bool { return sameBits(bits(want), bits(got)) })
}

// compareCompiled is checkCompiled with a comparison of its own.
func compareCompiled(t *testing.T, what string, f func(args ...*locus.Tensor) []*locus.Tensor, args []*locus.Tensor, refused bool, same func(want, got []*locus.Tensor) bool) {
	c := locus.Compile(f)
	for i := range 3 {
		want, got := f(args...), c.Call(args...)
		if !same(want, got) {
			t.Errorf("%s: call %d of the compiled function differs\n%s", what, i, c.Explain())
			return
		}
		for k := range want {
			if w, g := want[k], got[k]; w.DType() != g.DType() || w.Device() != g.Device() || len(w.Shape()) != len(g.Shape()) || w.IsView() != g.IsView() {
				t.Errorf("%s: result %d is %v, compiled %v; views: %v, %v", what, k, w, g, w.IsView(), g.IsView())
			}
		}
	}
	if why := c.Fallback(); why != "" && !refused {
		t.Errorf("%s is not compiled: %s", what, why)
	}
}

// TestCompiled compares every op of the table, alone and with its gradients, with the
// same compiled, bit by bit.
func TestCompiled(t *testing.T) {
	defer layout.Set(layout.Set(layout.WherePays)) // elsewhere sums may be in another order
	onDevices(t, func(t *testing.T, d locus.Device) {
		n := 0
		for i, c := range records(t) {
			if i%every(5) != 0 {
				continue
			}
			o := lookup(t, c)
			in := c.Inputs(d, c.DType)
			if o.waiting(c, d, in) {
				checkRefused(t, c, func(args ...*locus.Tensor) []*locus.Tensor { return c.Call(o, d, args) }, in)
				n++
				continue
			}
			if err := guarded(func() {
				checkCompiled(t, c.String()+describe(c), func(args ...*locus.Tensor) []*locus.Tensor {
					return c.Call(o, d, args)
				}, in, unkeyed[c.Op])
				n++
				if c.Grad == nil || !o.Differentiable() {
					return
				}
				checkCompiled(t, "gradient of "+c.String()+describe(c), func(args ...*locus.Tensor) []*locus.Tensor {
					return gradients(c, o, d, args, locus.FreeGraph)
				}, in, unkeyed[c.Op])
				n++
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		}
		t.Logf("%d functions compared", n)
	})
}

// TestCompiledGraphs compares random graphs and their gradients with the same
// compiled.
func TestCompiledGraphs(t *testing.T) {
	n := 300 / every(10)
	for seed := range n {
		checkCompiledGraph(t, randomBytes(uint64(seed), 7))
	}
}

// FuzzCompiled looks for graphs that differ when they are compiled.
func FuzzCompiled(f *testing.F) {
	for seed := range 8 {
		f.Add(randomBytes(uint64(seed), 11))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 200 {
			t.Skip("longer graphs only repeat")
		}
		checkCompiledGraph(t, data)
	})
}

func checkCompiledGraph(t *testing.T, data []byte) {
	for _, d := range devices() {
		var steps []string
		if err := guarded(func() {
			checkCompiled(t, "a graph", func(...*locus.Tensor) []*locus.Tensor {
				o := runGraph(data, d, locus.Float32, locus.FreeGraph)
				steps = o.g.trace
				return o.tensors()
			}, nil, false)
		}); err != nil {
			t.Errorf("%v\n%x\n%s", err, data, strings.Join(steps, " "))
		}
	}
}

func randomBytes(seed, stream uint64) []byte {
	r := rand.New(rand.NewPCG(seed, stream))
	data := make([]byte, 12+r.IntN(60))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}
