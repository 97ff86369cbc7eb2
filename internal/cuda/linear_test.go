//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

var references = map[op.ID]func(float64) float64{
	op.Invalid: func(x float64) float64 { return x },
	op.Relu:    func(x float64) float64 { return max(x, 0) }, // NaN for NaN
	op.Gelu:    func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
	op.GeluTanh: func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	},
	op.Silu:        func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	op.Sigmoid:     func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	op.Tanh:        math.Tanh,
	op.Relu6:       func(x float64) float64 { return min(max(x, 0), 6) },
	op.HardSigmoid: func(x float64) float64 { return min(max(x/6+0.5, 0), 1) },
	op.HardSwish:   func(x float64) float64 { return x * min(max(x/6+0.5, 0), 1) },
}

// Bias and activation behind products, by each way that they can be computed: in
// cuBLASLt's kernels, around cuBLAS's, and in our own. The suite's samples are
// too small to reach all of them.
func TestLinear(t *testing.T) {
	for _, way := range []string{"cuBLASLt", "cuBLAS", "own"} {
		d := newDevice(gpu(t).card, 0, "test")
		switch way {
		case "cuBLAS":
			d.libs.lt = &lt{unavailable: true}
		case "own":
			d.libs.blas = &blas{unavailable: true}
		}
		pool := memory.NewPool(d)
		defer pool.Trim()
		for _, c := range []struct {
			t    dtype.DType
			tf32 bool
			eps  float64 // of a factor
			ulp  float64 // of a result
		}{{dtype.Float32, false, 0x1p-24, 0x1p-23}, {dtype.Float32, true, 0x1p-10, 0x1p-10}, {dtype.BFloat16, false, 0x1p-24, 0x1p-8}, {dtype.Float16, false, 0x1p-24, 0x1p-11}, {dtype.Float64, false, 0x1p-53, 0x1p-52}} {
			shapes := [][3]int{{203, 264, 129}, {1100, 1544, 72}, {256, 512, 64}, {3, 1000, 2048}, {77, 131, 1029}, {2048, 2312, 200}}
			if way != "own" { // the choice of a kernel is not ours
				shapes = shapes[:2]
			}
			for _, s := range shapes {
				for act, f := range references {
					for _, bias := range []bool{true, false} {
						t.Run(fmt.Sprintf("%s/%s/tf32=%v/%v/%s/bias=%v", way, c.t, c.tf32, s, act, bias), func(t *testing.T) {
							SetTF32(c.tf32)
							defer SetTF32(false)
							(&rig{t, d, pool}).tryLinear(linearTrial{c.t, s[0], s[1], s[2], act, bias, f, c.eps, c.ulp})
						})
					}
				}
			}
		}
	}
}

// linearTrial is one product with what it ends with, and how far off it may be.
type linearTrial struct {
	t        dtype.DType
	m, n, k  int
	act      op.ID
	withBias bool
	f        func(float64) float64 // act's
	eps, ulp float64
}

func (x *rig) tryLinear(c linearTrial) {
	t, m, n, k := c.t, c.m, c.n, c.k
	view := func(shape ...int) backend.View { return x.view(t, shape) }
	a, w, bias, out := view(m, k), view(n, k), view(n), view(m, n)
	for i, v := range []backend.View{a, w, bias, out} { // what out holds must be overwritten
		x.fill(v, uint64(i))
	}
	// The first row is not a number, and must stay so.
	x.ok(x.d.Run(&backend.Call{Op: op.Full, Attrs: op.Create{DType: t, Shape: op.DimsOf([]int{1}), Value: math.NaN()},
		Out: backend.View{Block: a.Block, Shape: []int{1}, Strides: []int{1}, DType: t}}))
	in := []backend.View{a, w}
	if c.withBias {
		in = append(in, bias)
	}
	x.ok(x.d.Run(&backend.Call{Op: op.Linear, Attrs: op.Epilogue{Act: c.act}, In: in, Out: out}))
	av, wv, bv, got := x.values(a), x.values(w), x.values(bias), x.values(out)
	r := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for q := range 300 {
		i, j := r.IntN(m), r.IntN(n)
		switch {
		case q%8 == 0:
			i = 0
		case q%8 == 1:
			i, j = m-1, n-1-r.IntN(min(n, 9))
		}
		product, size := 0.0, 0.0
		for l := range k {
			p := av[i*k+l] * wv[j*k+l]
			product += p
			size += p * p
		}
		sum := product
		if c.withBias {
			sum += bv[j]
			size += bv[j] * bv[j]
		}
		want, is := c.f(sum), got[i*n+j]
		if want != want {
			if is == is {
				x.t.Fatalf("element (%d, %d) is %v, want NaN", i, j, is)
			}
			continue
		}
		// The product may be rounded before the bias is added, and the sum before the
		// activation, none of which is much steeper than 1.
		bound := 2*c.eps*(8+4*math.Sqrt(float64(k)))*math.Sqrt(size) + c.ulp*math.Abs(want)
		if c.withBias {
			bound += c.ulp * math.Abs(product)
		}
		if c.act != op.Invalid && c.act != op.Relu {
			bound += 2 * c.ulp * math.Abs(sum)
		}
		if e := math.Abs(is-want) / bound; e > 1 || is != is {
			x.t.Fatalf("element (%d, %d) is %v, want %v ± %v", i, j, is, want, bound)
		} else {
			worst = max(worst, e)
		}
	}
	x.t.Logf("worst error: %.2f of what is allowed", worst)
}
