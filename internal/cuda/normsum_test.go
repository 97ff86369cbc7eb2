//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program/programtest"
)

// Rows that fit registers take one launch, others the kernels of single ops.
func TestNormSumLaunches(t *testing.T) {
	f, x := fakeRig(t)
	for _, c := range []struct {
		n       int
		scatter bool
		want    []string // how names begin
	}{
		{768, false, []string{"add_norm_warp_f32", "norm_params_", "norm_grad_add_warp_f32"}},
		{2048, false, []string{"add_norm_f32", "norm_params_", "norm_grad_add_f32"}},
		{769, false, []string{"add_f32", "norm_", "norm_grad_", "norm_params_", "add_f32"}},
		{768, true, []string{"add_f32", "norm_", "norm_grad_", "norm_params_", "add_f32"}},
	} {
		a := op.Normalize{From: 1, Params: [2]int{1, 2}, Weight: true, Bias: true, Eps: 1e-5}
		rows := func() backend.View { return x.view(dtype.Float32, []int{100, c.n}) }
		param, stat := func() backend.View { return x.view(dtype.Float32, []int{c.n}) }, func() backend.View { return x.view(dtype.Float32, []int{100}) }
		w := param()
		if c.scatter {
			wide := x.view(dtype.Float32, []int{2 * c.n})
			w = backend.View{Block: wide.Block, Shape: []int{c.n}, Strides: []int{2}, DType: dtype.Float32}
		}
		x.hold(64 << 20).Free() // working memory, so that nothing starts over
		x.fill(rows(), 1)       // and the counters
		x.ok(x.d.with(x.pool, op.Sum, func() error { _, err := x.d.counters(new(reduceParams), 1); return err }))
		seen(f)
		mean, rstd, sum := stat(), stat(), rows()
		x.ok(x.d.Run(&backend.Call{Op: op.AddNormalize, Attrs: a, In: []backend.View{rows(), rows(), w, param()}, Out: rows(), More: []backend.View{sum, mean, rstd}}))
		a.GradWeight, a.GradBias = true, true
		x.ok(x.d.Run(&backend.Call{Op: op.NormalizeGradAdd, Attrs: a, In: []backend.View{rows(), sum, w, mean, rstd, rows()}, Out: rows(), More: []backend.View{param(), param()}}))
		got := names(f)
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("rows of %d (weights apart: %v): launched %v, want %v", c.n, c.scatter, got, c.want)
		}
	}
}

// Sums that are part of a normalization have the bits of single ops.
func TestNormSumsOnCard(t *testing.T) {
	d := newDevice(gpu(t).card, 0, "test")
	waitForKernels(t)
	n := 0
	seeds := uint64(120)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		n += programtest.CheckNorms(t, 5000+seed, []int{0, 768, 512, 2048, 4096, 8192, 20000, 100, 1024}[seed%9], d)
	}
	compiled(t)
	t.Logf("%d sums became part of a normalization", n)
	if n < int(seeds) {
		t.Error("too few")
	}
}

// BenchmarkNormSums times a residual connection's normalization and its gradient, of
// GPT-2's size, with the sums apart and together.
func BenchmarkNormSums(b *testing.B) {
	const rows, n = 8192, 768
	t := dtype.BFloat16
	a := op.Normalize{From: 1, Params: [2]int{1, 2}, Weight: true, Bias: true, Eps: 1e-5}
	for _, name := range []string{"add", "normalize", "add+normalize", "normalize_grad", "normalize_grad+add"} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b)
			shape := func(v backend.View) backend.View { v.Shape, v.Strides = []int{rows, n}, []int{n, 1}; return v }
			in := func() backend.View { return shape(x.random(t, rows*n)) }
			out, sum, w, bias := shape(x.empty(t, rows*n)), shape(x.empty(t, rows*n)), x.random(t, n), x.random(t, n)
			mean, rstd := x.random(dtype.Float32, rows), x.random(dtype.Float32, rows)
			const u = 2 * rows * n
			switch name {
			case "add":
				x.time(&backend.Call{Op: op.Add, In: []backend.View{in(), in()}, Out: out}, 3*u, "GB/s")
			case "normalize":
				x.time(&backend.Call{Op: op.Normalized, Attrs: a, In: []backend.View{in(), w, bias}, Out: out, More: []backend.View{mean, rstd}}, 2*u, "GB/s")
			case "add+normalize":
				x.time(&backend.Call{Op: op.AddNormalize, Attrs: a, In: []backend.View{in(), in(), w, bias}, Out: out, More: []backend.View{sum, mean, rstd}}, 4*u, "GB/s")
			case "normalize_grad":
				x.time(&backend.Call{Op: op.NormalizeGrad, Attrs: a, In: []backend.View{in(), in(), w, mean, rstd}, Out: out}, 3*u, "GB/s")
			default:
				x.time(&backend.Call{Op: op.NormalizeGradAdd, Attrs: a, In: []backend.View{in(), in(), w, mean, rstd, in()}, Out: out}, 4*u, "GB/s")
			}
		})
	}
}

// Whatever memory is short, nothing that is written over its own operand is computed
// twice: a launch that writes over what it reads is the last of its op.
func TestNormSumsStartOver(t *testing.T) {
	f, x := fakeRig(t)
	for _, n := range []int{768, 769, 40000} {
		a := op.Normalize{From: 1, Params: [2]int{1, 2}, Weight: true, Bias: true, Eps: 1e-5}
		rows := func() backend.View { return x.view(dtype.Float32, []int{100, n}) }
		param, stat := func() backend.View { return x.view(dtype.Float32, []int{n}) }, func() backend.View { return x.view(dtype.Float32, []int{100}) }
		p, q, w, mean, rstd := rows(), rows(), param(), stat(), stat()
		forward := &backend.Call{Op: op.AddNormalize, Attrs: a, In: []backend.View{p, q, w, param()}, Out: p, More: []backend.View{q, mean, rstd}}
		a.GradWeight, a.GradBias = true, true
		backward := &backend.Call{Op: op.NormalizeGradAdd, Attrs: a, In: []backend.View{rows(), rows(), w, mean, rstd, q}, Out: q, More: []backend.View{param(), param()}}
		for _, c := range []*backend.Call{forward, backward} {
			x.pool.Trim() // no working memory is cached
			seen(f)
			x.ok(x.d.Run(c))
			writes := 0 // launches that write q
			for _, l := range seen(f) {
				for _, word := range l.params[:3] {
					if word == uint64(q.Block.Addr) && (l.params[0] == word || strings.HasPrefix(l.kernel, "add_norm") && l.params[1] == word) {
						writes++
						break
					}
				}
			}
			if writes != 1 {
				t.Errorf("rows of %d, %s: what is written over its operand is written %d times", n, c.Op, writes)
			}
		}
	}
}
