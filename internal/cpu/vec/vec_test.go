package vec

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lengths covers every tail of every unrolling, and some more.
func lengths() (out []int) {
	if raceEnabled {
		return []int{0, 1, 7, 16, 33, 70, 1000}
	}
	for n := range 70 {
		out = append(out, n)
	}
	return append(out, 127, 128, 129, 1000, 2063)
}

var special = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, 3, -3, math.Inf(1), math.Inf(-1), math.NaN(),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, -0x1p-126, math.MaxFloat32, -math.MaxFloat32, 1e-40, 65504, 65520}

// fill makes n values, a third of them special, with guard elements around.
func fill[T float](r *rand.Rand, n int) []T {
	off := r.IntN(9)
	s := make([]T, n+off+16)
	for i := range s {
		switch r.IntN(3) {
		case 0:
			s[i] = T(special[r.IntN(len(special))])
		case 1:
			s[i] = T(r.NormFloat64())
		default:
			s[i] = T(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
		}
	}
	return s[off : off+n : off+n]
}

func same[T float](a, b T) bool { return a == b || a != a && b != b }

// checkMap compares got = fast(...) with want for all lengths, out of place
// and in place, and looks after the elements behind dst.
func checkMap[T float](t *testing.T, name string, nin int, fast, want func(dst []T, in [][]T)) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(name)), 7))
	for _, n := range lengths() {
		in := make([][]T, nin)
		for i := range in {
			in[i] = fill[T](r, n)
		}
		back := make([]T, n+8)
		for i := range back {
			back[i] = 42
		}
		exp := append([]T(nil), back[:n]...)
		want(exp, in)
		fast(back[:n], in)
		for i, x := range back {
			if i >= n {
				if x != 42 {
					t.Fatalf("%s n=%d: wrote past the end", name, n)
				}
			} else if !same(x, exp[i]) {
				var args []T
				for _, v := range in {
					args = append(args, v[i])
				}
				t.Fatalf("%s n=%d: [%d] = %v, want %v for %v", name, n, i, x, exp[i], args)
			}
		}
		for q := range in {
			cp := make([][]T, nin)
			for i := range in {
				cp[i] = append([]T(nil), in[i]...)
			}
			fast(cp[q], cp)
			for i := range exp {
				if !same(cp[q][i], exp[i]) && !strings.HasPrefix(name, "Axpy") {
					t.Fatalf("%s n=%d in place of operand %d: [%d] = %v, want %v", name, n, q, i, cp[q][i], exp[i])
				}
			}
		}
	}
}

func testArithmetic[T float](t *testing.T, f arith[T]) {
	t.Helper()
	for name, fs := range f.binary {
		checkMap(t, name, 2, func(d []T, in [][]T) { fs[0](d, in[0], in[1]) }, func(d []T, in [][]T) { fs[1](d, in[0], in[1]) })
	}
	for name, fs := range f.unary {
		checkMap(t, name, 1, func(d []T, in [][]T) { fs[0](d, in[0]) }, func(d []T, in [][]T) { fs[1](d, in[0]) })
	}
	for name, fs := range f.scalar {
		for _, s := range special {
			checkMap(t, fmt.Sprint(name, " ", s), 1, func(d []T, in [][]T) { fs[0](d, in[0], T(s)) }, func(d []T, in [][]T) { fs[1](d, in[0], T(s)) })
		}
	}
	for name, fs := range f.scalar2 {
		for _, s := range [][2]T{{-1, 1}, {0, 6}, {1, -1}, {T(math.NaN()), 1}, {0.3, 0.7}} {
			checkMap(t, name, 1, func(d []T, in [][]T) { fs[0](d, in[0], s[0], s[1]) }, func(d []T, in [][]T) { fs[1](d, in[0], s[0], s[1]) })
		}
	}
	for _, s := range []T{0, 1, -2.5, T(math.Inf(1))} {
		checkMap(t, fmt.Sprint("Axpy ", s), 1, func(d []T, in [][]T) { f.axpy[0](d, s, in[0]) }, func(d []T, in [][]T) { f.axpy[1](d, s, in[0]) })
	}
	for _, s := range [][2]T{{1, -0.125}, {0.9, 1}, {0, 2}, {T(math.Inf(1)), 1}} {
		checkMap(t, fmt.Sprint("Blend ", s), 2, func(d []T, in [][]T) { f.blend[0](d, in[0], s[0], in[1], s[1]) }, func(d []T, in [][]T) { f.blend[1](d, in[0], s[0], in[1], s[1]) })
	}
	checkMap(t, "Fma", 3, func(d []T, in [][]T) { f.fma[0](d, in[0], in[1], in[2]) }, func(d []T, in [][]T) { f.fma[1](d, in[0], in[1], in[2]) })

	r := rand.New(rand.NewPCG(5, 6))
	for name, fs := range f.compare {
		for _, n := range lengths() {
			a, b := fill[T](r, n), fill[T](r, n)
			for i := range b {
				if r.IntN(3) == 0 {
					b[i] = a[i]
				}
			}
			got, want := make([]uint8, n+1), make([]uint8, n+1)
			got[n], want[n] = 77, 77
			fs[0](got[:n], a, b)
			fs[1](want[:n], a, b)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s n=%d: [%d] = %d, want %d", name, n, i, got[i], want[i])
				}
			}
		}
	}
	for name, fs := range f.compareS {
		for _, n := range lengths() {
			a := fill[T](r, n)
			s := T(special[r.IntN(len(special))])
			got, want := make([]uint8, n+1), make([]uint8, n+1)
			got[n], want[n] = 77, 77
			fs[0](got[:n], a, s)
			fs[1](want[:n], a, s)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s n=%d: [%d] = %d, want %d", name, n, i, got[i], want[i])
				}
			}
		}
	}
	for _, n := range lengths() {
		m := make([]uint8, n)
		for i := range m {
			m[i] = []uint8{0, 0, 1, 255}[r.IntN(4)]
		}
		checkMapN(t, "Select", n, func(d []T, in [][]T) { f.sel[0](d, m, in[0], in[1]) }, func(d []T, in [][]T) { f.sel[1](d, m, in[0], in[1]) })
	}
}

func checkMapN[T float](t *testing.T, name string, n int, fast, want func(dst []T, in [][]T)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	in := [][]T{fill[T](r, n), fill[T](r, n)}
	got, exp := make([]T, n+4), make([]T, n+4)
	fast(got[:n], in)
	want(exp[:n], in)
	for i := range got {
		if !same(got[i], exp[i]) {
			t.Fatalf("%s n=%d: [%d] = %v, want %v", name, n, i, got[i], exp[i])
		}
	}
}

// arith pairs each function with the plain Go one.
type arith[T float] struct {
	binary   map[string][2]func(dst, a, b []T)
	unary    map[string][2]func(dst, a []T)
	scalar   map[string][2]func(dst, a []T, s T)
	scalar2  map[string][2]func(dst, a []T, s, u T)
	axpy     [2]func(dst []T, s T, x []T)
	blend    [2]func(dst, a []T, s T, b []T, t T)
	fma      [2]func(dst, a, b, c []T)
	compare  map[string][2]func(dst []uint8, a, b []T)
	compareS map[string][2]func(dst []uint8, a []T, s T)
	sel      [2]func(dst []T, m []uint8, a, b []T)
}

func TestArithmeticF32(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		testArithmetic(t, arith[float32]{
			binary: map[string][2]func(dst, a, b []float32){
				"Add": {AddF32, addGo[float32]}, "Sub": {SubF32, subGo[float32]}, "Mul": {MulF32, mulGo[float32]}, "Div": {DivF32, divGo[float32]}, "Max": {MaxF32, maxGo[float32]}, "Min": {MinF32, minGo[float32]},
				"ReluGrad": {ReluGradF32, reluGradGo[float32]}, "SigmoidGrad": {SigmoidGradF32, sigmoidGradGo[float32]}, "TanhGrad": {TanhGradF32, tanhGradGo[float32]},
			},
			unary: map[string][2]func(dst, a []float32){
				"Neg": {NegF32, negGo[float32]}, "Abs": {AbsF32, absGo[float32]}, "Sqrt": {SqrtF32, sqrtGo[float32]}, "Rsqrt": {RsqrtF32, rsqrtGo[float32]}, "Square": {SquareF32, squareGo[float32]}, "Recip": {RecipF32, recipGo[float32]},
				"Relu": {ReluF32, reluGo[float32]}, "Floor": {FloorF32, floorGo[float32]}, "Ceil": {CeilF32, ceilGo[float32]}, "Round": {RoundF32, roundGo[float32]}, "Trunc": {TruncF32, truncGo[float32]},
			},
			scalar: map[string][2]func(dst, a []float32, s float32){
				"AddS": {AddSF32, addSGo[float32]}, "SubS": {SubSF32, subSGo[float32]}, "RSubS": {RSubSF32, rsubSGo[float32]}, "MulS": {MulSF32, mulSGo[float32]}, "DivS": {DivSF32, divSGo[float32]},
				"RDivS": {RDivSF32, rdivSGo[float32]}, "MaxS": {MaxSF32, maxSGo[float32]}, "MinS": {MinSF32, minSGo[float32]},
			},
			scalar2: map[string][2]func(dst, a []float32, s, u float32){"Clamp": {ClampF32, clampGo[float32]}, "Affine": {AffineF32, affineGo[float32]}, "SubMul": {SubMulF32, subMulGo[float32]}},
			axpy:    [2]func(dst []float32, s float32, x []float32){AxpyF32, axpyGo[float32]},
			blend:   [2]func(dst, a []float32, s float32, b []float32, t float32){BlendF32, blendGo[float32]},
			fma:     [2]func(dst, a, b, c []float32){FmaF32, fmaGo[float32]},
			compare: map[string][2]func(dst []uint8, a, b []float32){
				"Eq": {EqF32, eqGo[float32]}, "Ne": {NeF32, neGo[float32]}, "Lt": {LtF32, ltGo[float32]}, "Le": {LeF32, leGo[float32]}, "Gt": {GtF32, gtGo[float32]}, "Ge": {GeF32, geGo[float32]},
			},
			compareS: map[string][2]func(dst []uint8, a []float32, s float32){
				"EqS": {EqSF32, eqSGo[float32]}, "NeS": {NeSF32, neSGo[float32]}, "LtS": {LtSF32, ltSGo[float32]}, "LeS": {LeSF32, leSGo[float32]}, "GtS": {GtSF32, gtSGo[float32]}, "GeS": {GeSF32, geSGo[float32]},
			},
			sel: [2]func(dst []float32, m []uint8, a, b []float32){SelectF32, selectGo[float32]},
		})
	})
}

func TestArithmeticF64(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		testArithmetic(t, arith[float64]{
			binary: map[string][2]func(dst, a, b []float64){
				"Add": {AddF64, addGo[float64]}, "Sub": {SubF64, subGo[float64]}, "Mul": {MulF64, mulGo[float64]}, "Div": {DivF64, divGo[float64]}, "Max": {MaxF64, maxGo[float64]}, "Min": {MinF64, minGo[float64]},
				"ReluGrad": {ReluGradF64, reluGradGo[float64]}, "SigmoidGrad": {SigmoidGradF64, sigmoidGradGo[float64]}, "TanhGrad": {TanhGradF64, tanhGradGo[float64]},
			},
			unary: map[string][2]func(dst, a []float64){
				"Neg": {NegF64, negGo[float64]}, "Abs": {AbsF64, absGo[float64]}, "Sqrt": {SqrtF64, sqrtGo[float64]}, "Rsqrt": {RsqrtF64, rsqrtGo[float64]}, "Square": {SquareF64, squareGo[float64]}, "Recip": {RecipF64, recipGo[float64]},
				"Relu": {ReluF64, reluGo[float64]}, "Floor": {FloorF64, floorGo[float64]}, "Ceil": {CeilF64, ceilGo[float64]}, "Round": {RoundF64, roundGo[float64]}, "Trunc": {TruncF64, truncGo[float64]},
			},
			scalar: map[string][2]func(dst, a []float64, s float64){
				"AddS": {AddSF64, addSGo[float64]}, "SubS": {SubSF64, subSGo[float64]}, "RSubS": {RSubSF64, rsubSGo[float64]}, "MulS": {MulSF64, mulSGo[float64]}, "DivS": {DivSF64, divSGo[float64]},
				"RDivS": {RDivSF64, rdivSGo[float64]}, "MaxS": {MaxSF64, maxSGo[float64]}, "MinS": {MinSF64, minSGo[float64]},
			},
			scalar2: map[string][2]func(dst, a []float64, s, u float64){"Clamp": {ClampF64, clampGo[float64]}, "Affine": {AffineF64, affineGo[float64]}, "SubMul": {SubMulF64, subMulGo[float64]}},
			axpy:    [2]func(dst []float64, s float64, x []float64){AxpyF64, axpyGo[float64]},
			blend:   [2]func(dst, a []float64, s float64, b []float64, t float64){BlendF64, blendGo[float64]},
			fma:     [2]func(dst, a, b, c []float64){FmaF64, fmaGo[float64]},
			compare: map[string][2]func(dst []uint8, a, b []float64){
				"Eq": {EqF64, eqGo[float64]}, "Ne": {NeF64, neGo[float64]}, "Lt": {LtF64, ltGo[float64]}, "Le": {LeF64, leGo[float64]}, "Gt": {GtF64, gtGo[float64]}, "Ge": {GeF64, geGo[float64]},
			},
			compareS: map[string][2]func(dst []uint8, a []float64, s float64){
				"EqS": {EqSF64, eqSGo[float64]}, "NeS": {NeSF64, neSGo[float64]}, "LtS": {LtSF64, ltSGo[float64]}, "LeS": {LeSF64, leSGo[float64]}, "GtS": {GtSF64, gtSGo[float64]}, "GeS": {GeSF64, geSGo[float64]},
			},
			sel: [2]func(dst []float64, m []uint8, a, b []float64){SelectF64, selectGo[float64]},
		})
	})
}

func TestStream(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		checkMap(t, "AddStream", 2, func(d []float32, in [][]float32) { AddStreamF32(d, in[0], in[1]) }, func(d []float32, in [][]float32) { AddF32(d, in[0], in[1]) })
		checkMap(t, "RDivSStream", 1, func(d []float32, in [][]float32) { RDivSStreamF32(d, in[0], 3) }, func(d []float32, in [][]float32) { RDivSF32(d, in[0], 3) })
		checkMap(t, "ExpStream", 1, func(d []float32, in [][]float32) { ExpStreamF32(d, in[0]) }, func(d []float32, in [][]float32) { ExpF32(d, in[0]) })
		checkMap(t, "FmaStream", 3, func(d []float32, in [][]float32) { FmaStreamF32(d, in[0], in[1], in[2]) }, func(d []float32, in [][]float32) { FmaF32(d, in[0], in[1], in[2]) })
		checkMap(t, "ClampStream", 1, func(d []float32, in [][]float32) { ClampStreamF32(d, in[0], -1, 1) }, func(d []float32, in [][]float32) { ClampF32(d, in[0], -1, 1) })
		checkMap(t, "SubMulStream", 1, func(d []float32, in [][]float32) { SubMulStreamF32(d, in[0], -1, 3) }, func(d []float32, in [][]float32) { SubMulF32(d, in[0], -1, 3) })
	})
}

func TestShortOperandPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	AddF32(make([]float32, 8), make([]float32, 8), make([]float32, 7))
}

// TestGeneratedFilesAreInStep compares the digests the generator left with its
// sources and its output, and looks for files it does not know.
func TestGeneratedFilesAreInStep(t *testing.T) {
	sums, err := os.ReadFile("../asm/SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		listed[name] = true
		b, err := os.ReadFile(filepath.Join("../asm", name))
		if err != nil {
			t.Error(err)
		} else if fmt.Sprintf("%x", sha256.Sum256(b)) != sum {
			t.Errorf("%s is not what asm/SUMS says: run go generate ./internal/cpu/vec", name)
		}
	}
	files, _ := filepath.Glob("../*/*")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a folder
		}
		name := f
		if own, ok := strings.CutPrefix(f, "../asm/"); ok {
			if filepath.Ext(own) != ".go" {
				continue
			}
			name = own
		} else if !strings.HasPrefix(string(b), "// Code generated by internal/cpu/asm") {
			continue
		}
		if !listed[filepath.ToSlash(name)] {
			t.Errorf("%s is not in asm/SUMS: run go generate ./internal/cpu/vec, or delete it", f)
		}
	}
}
