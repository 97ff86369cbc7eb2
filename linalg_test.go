package locus_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// randomMatrices makes normal numbers of a type.
func randomMatrices(d locus.Device, t locus.DType, seed uint64, shape ...int) *locus.Tensor {
	return d.As(t).Key(locus.NewKey(seed)).Randn(shape...)
}

// far is the largest difference between two tensors.
func far(a, b *locus.Tensor) float64 {
	if a.Len() == 0 {
		return 0
	}
	return a.Sub(b).Abs().Max().Cast(locus.Float64).Item()
}

// matrixBound is the error that a factorization of n×n matrices with elements around 1
// may leave.
func matrixBound(t locus.DType, n int) float64 {
	unit := 0x1p-52
	if t == locus.Float32 {
		unit = 0x1p-23
	}
	return 8 * unit * float64(n)
}

// Factors multiply to the matrix again, and orthogonal ones are orthogonal, at many
// sizes, on every device.
func TestFactorsMultiplyBack(t *testing.T) {
	devices := append([]locus.Device{locus.CPU(), locus.AddVirtualGPUs(1, 64<<20)[0]}, cards()...)
	for _, d := range devices {
		for _, dt := range []locus.DType{locus.Float32, locus.Float64} {
			for _, size := range [][3]int{{1, 1, 1}, {1, 2, 2}, {3, 5, 5}, {1, 33, 33}, {2, 70, 70}, {2, 7, 4}, {2, 4, 7}, {1, 90, 40}, {1, 40, 90}, {1, 1, 9}, {1, 9, 1}, {1, 130, 130}, {2, 150, 129}, {1, 129, 150}} {
				b, m, n := size[0], size[1], size[2]
				k := min(m, n)
				x := randomMatrices(d, dt, uint64(m*n), b, m, n)
				name := fmt.Sprintf("%s %s %v", d, dt, size)
				bound := matrixBound(dt, max(m, n))
				near := func(what string, got, want *locus.Tensor, scale float64) {
					t.Helper()
					if e := far(got, want); !(e <= bound*scale) {
						t.Errorf("%s: %s: off by %.3g, allowed %.3g", name, what, e, bound*scale)
					}
				}
				eye := d.As(dt).Eye(k).Expand(b, k, k)
				q, r := x.QR()
				near("Q·R", q.MatMul(r), x, 1)
				near("QᵀQ", q.T().MatMul(q), eye, 1)
				if r.Diagonal(0, -2, -1).Min().Item() < 0 {
					t.Errorf("%s: R has a negative diagonal", name)
				}
				u, s, vt := x.SVD()
				near("U·S·Vᵀ", u.Mul(s.Unsqueeze(-2)).MatMul(vt), x, 2)
				near("UᵀU", u.T().MatMul(u), eye, 2)
				near("VᵀV", vt.MatMul(vt.T()), eye, 2)
				if k > 1 && s.Narrow(-1, 1, k).Sub(s.Narrow(-1, 0, k-1)).Max().Item() > 0 || s.Min().Item() < 0 {
					t.Errorf("%s: singular values are not in descending order", name)
				}
				near("SVDVals", x.SVDVals(), s, 1)
				if m != n {
					continue
				}
				w, v := x.Eigh()
				sym := x.Add(x.T()).Mul(0.5)
				near("V·W·Vᵀ", v.Mul(w.Unsqueeze(-2)).MatMul(v.T()), sym, 4)
				near("VᵀV", v.T().MatMul(v), eye, 2)
				spd := x.MatMul(x.T()).Div(float64(n)).Add(eye)
				l := spd.Cholesky()
				near("L·Lᵀ", l.MatMul(l.T()), spd, 2)
				if far(l, l.Tril(0)) != 0 {
					t.Errorf("%s: L is not lower triangular", name)
				}
				rhs := randomMatrices(d, dt, 5, b, n, 3)
				near("A·X", spd.MatMul(spd.Solve(rhs)), rhs, 8)
				near("A·A⁻¹", spd.MatMul(spd.Inverse()), eye, 8)
				near("L·X", l.MatMul(l.SolveTriangular(rhs, locus.TriangularOptions{})), rhs, 4)
				sign, log := spd.SlogDet()
				near("SlogDet", sign, sign.OnesLike(), 0)
				near("log|det|", log, l.Diagonal(0, -2, -1).Log().Sum(-1).Mul(2), 8)
			}
		}
	}
}

// cards lists the real GPUs.
func cards() (l []locus.Device) {
	for _, d := range locus.Devices() {
		if d.Device.IsGPU() && !strings.HasPrefix(d.Name, "virtual") {
			l = append(l, d.Device)
		}
	}
	return l
}

// Large matrices on a card report what is wrong with them at the next wait, and
// otherwise agree with the CPU's.
func TestLargeMatricesOnACard(t *testing.T) {
	l := cards()
	if len(l) == 0 {
		t.Skip("there is no real GPU")
	}
	d, n := l[0], 200
	for _, dt := range []locus.DType{locus.Float32, locus.Float64} {
		x := randomMatrices(locus.CPU(), dt, 1, 2, n, n)
		spd := x.MatMul(x.T()).Div(float64(n)).Add(locus.As(dt).Eye(n))
		b := randomMatrices(locus.CPU(), dt, 2, 2, n, 3)
		bound := 4 * matrixBound(dt, n)
		for name, f := range map[string]func(a, b *locus.Tensor) *locus.Tensor{
			"Cholesky":   func(a, b *locus.Tensor) *locus.Tensor { return a.Cholesky() },
			"Solve":      func(a, b *locus.Tensor) *locus.Tensor { return a.Solve(b) },
			"transposed": func(a, b *locus.Tensor) *locus.Tensor { return a.T().Solve(b.Flip(2)) },
			"Inverse":    func(a, b *locus.Tensor) *locus.Tensor { return a.Inverse() },
			"Eigvalsh":   func(a, b *locus.Tensor) *locus.Tensor { return a.Eigvalsh() },
			"SVDVals":    func(a, b *locus.Tensor) *locus.Tensor { return a.SVDVals() },
			"flat":       func(a, b *locus.Tensor) *locus.Tensor { return a.Narrow(1, 0, 130).SVDVals() },
			"FFT": func(a, b *locus.Tensor) *locus.Tensor {
				return b.Narrow(2, 0, 2).FFT(locus.FFTOptions{}).Div(float64(n))
			},
			"RFFT": func(a, b *locus.Tensor) *locus.Tensor {
				return a.RFFT(locus.FFTOptions{Axes: []int{2, 1}}).Div(float64(n))
			},
			"IRFFT": func(a, b *locus.Tensor) *locus.Tensor {
				return a.RFFT(locus.FFTOptions{Axes: []int{1}}).IRFFT(locus.FFTOptions{Axes: []int{1}})
			},
		} {
			want, got := f(spd, b), f(spd.CopyTo(d), b.CopyTo(d)).CopyTo(locus.CPU())
			if e := far(got, want); !(e <= bound*8) {
				t.Errorf("%s of %s: off by %g, allowed %g", name, dt, e, bound*8)
			}
			if again := f(spd.CopyTo(d), b.CopyTo(d)).CopyTo(locus.CPU()); far(again, got) != 0 {
				t.Errorf("%s of %s: another result the second time", name, dt)
			}
		}
		bad := locus.Stack(0, locus.As(dt).Eye(n), locus.As(dt).Ones(n, n)).CopyTo(d)
		nan := locus.As(dt).Full(math.NaN(), n, n).CopyTo(d)
		for name, f := range map[string]func(){
			"Solve": func() { bad.Solve(b.CopyTo(d)) }, "Cholesky": func() { bad.Neg().Cholesky() }, "Eigh of NaN": func() { nan.Eigh() }, "SVD of NaN": func() { nan.SVD() }, "Solve of NaN": func() { nan.Inverse() },
		} {
			err := locus.Try(f)
			if err == nil {
				err = d.Synchronize()
			}
			if !errors.Is(err, locus.ErrMatrix) {
				t.Errorf("%s of %s: %v, want ErrMatrix", name, dt, err)
			} else {
				t.Log(err)
			}
		}
	}
}

// Errors say which matrix of a batch is the cause.
func TestUnsuitableMatrices(t *testing.T) {
	batch := locus.From([]float64{1, 0, 0, 1, 1, 2, 2, 4}).Reshape(2, 2, 2)
	nan := locus.From([]float64{1, math.NaN(), 0, 1}).Reshape(2, 2)
	for _, c := range []struct {
		want string
		call func()
	}{
		{"Solve: matrix 1 of the batch is singular", func() { batch.Solve(locus.As(locus.Float64).Ones(2)) }},
		{"Inverse: Solve: matrix 1 of the batch is singular", func() { batch.Inverse() }},
		{"Inverse: Solve: matrix (0, 1) of the batch is singular", func() { batch.Reshape(1, 2, 2, 2).Inverse() }},
		{"Inverse: Solve: the matrix is singular", func() { batch.Index(1).Inverse() }},
		{"Cholesky: matrix 1 of the batch is not positive definite: its leading part of size 2 is not", func() { batch.Cholesky() }},
		{"Cholesky: the matrix is not positive definite: its leading part of size 1 is not", func() { locus.Eye(3).Neg().Cholesky() }},
		{"Eigh: the matrix has elements that are NaN or infinite", func() { nan.Eigh() }},
		{"SVD: the matrix has elements that are NaN or infinite", func() { nan.SVD() }},
		{"QR: the matrix has elements that are NaN or infinite", func() { nan.QR() }},
		{"Solve: the matrix has elements that are NaN or infinite", func() { nan.Solve(nan) }},
	} {
		err := locus.Try(c.call)
		if !errors.Is(err, locus.ErrMatrix) || !strings.HasPrefix(err.Error(), "locus: "+c.want+"\n") || !strings.Contains(err.Error(), "fix: ") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for name, f := range map[string]func(x *locus.Tensor){
		"Cholesky": func(x *locus.Tensor) { x.Cholesky() }, "SVD": func(x *locus.Tensor) { x.SVD() }, "FFT": func(x *locus.Tensor) { x.FFT(locus.FFTOptions{}) },
	} {
		err := locus.Try(func() { f(locus.As(locus.BFloat16).Ones(2, 2)) })
		if !errors.Is(err, locus.ErrDType) || !strings.Contains(err.Error(), ".Cast(locus.Float32)") {
			t.Errorf("%s of bfloat16: %v", name, err)
		}
	}
}

// Where eigenvalues or singular values are equal, gradients through the values are right
// and those through vectors stay finite.
func TestGradientsOfEqualValues(t *testing.T) {
	x := locus.As(locus.Float64).Eye(3).RequireGrad()
	g := locus.GradOf(x.Eigvalsh().Square().Sum(), x)[0] // the sum of squares of the elements, if symmetric
	if far(g, x.Mul(2)) > 1e-12 {
		t.Errorf("Eigvalsh: %v", g)
	}
	g = locus.GradOf(x.SVDVals().Square().Sum(), x)[0]
	if far(g, x.Mul(2)) > 1e-12 {
		t.Errorf("SVDVals: %v", g)
	}
	_, v := x.Eigh()
	if g = locus.GradOf(v.Square().Sum(), x)[0]; g.IsFinite().All().Item() == 0 {
		t.Errorf("Eigh: %v", g)
	}
	u, _, vt := x.SVD()
	if g = locus.GradOf(u.Add(vt).Square().Sum(), x)[0]; g.IsFinite().All().Item() == 0 {
		t.Errorf("SVD: %v", g)
	}
	// A function of all three in which the open choices cancel.
	y := randomMatrices(locus.CPU(), locus.Float64, 3, 4, 3).RequireGrad()
	u, s, vt := y.SVD()
	if g = locus.GradOf(u.Mul(s).MatMul(vt).Square().Sum(), y)[0]; far(g, y.Mul(2)) > 1e-10 {
		t.Errorf("U·S·Vᵀ: %v, want %v", g, y.Mul(2))
	}
}

// A second gradient of a singular matrix's determinant is an error, not a wrong number.
func TestSecondGradientOfASingularDeterminant(t *testing.T) {
	x := locus.As(locus.Float64).Ones(3, 3).RequireGrad()
	err := locus.Try(func() {
		g := locus.Grad([]*locus.Tensor{x.Det()}, []*locus.Tensor{x}, locus.CreateGraph)[0]
		locus.GradOf(g.Sum(), x)
	})
	if !errors.Is(err, locus.ErrMatrix) {
		t.Errorf("%v, want ErrMatrix", err)
	}
	big := locus.As(locus.Float64).Eye(400).Mul(10)
	if d := big.Det().Item(); !math.IsInf(d, 1) {
		t.Errorf("det is %v, want +Inf", d)
	}
	if d := big.Div(100).Det().Item(); d != 0 {
		t.Errorf("det is %v, want 0", d)
	}
	if sign, log := big.SlogDet(); sign.Item() != 1 || math.Abs(log.Item()-400*math.Log(10)) > 1e-9 {
		t.Errorf("SlogDet is %v, %v", sign, log)
	}
	d := append(make([]float64, 0, 8), 1e200, 1e200, 1e-200, 1e-200) // overflows only on the way
	if got := locus.From(d).Diag(0).Det().Item(); math.Abs(got-1) > 1e-12 {
		t.Errorf("det is %v, want 1", got)
	}
}

// An orthogonal basis of a triangle of ones and zeros: what a person would write down.
func TestConventions(t *testing.T) {
	swap := locus.From([]float64{0, 1, 1, 0}).Reshape(2, 2)
	w, v := swap.Eigh()
	r := math.Sqrt(0.5)
	if far(w, locus.From([]float64{-1, 1})) > 1e-15 || far(v, locus.From([]float64{r, r, -r, r}).Reshape(2, 2)) > 1e-15 {
		t.Errorf("Eigh: %v %v", w, v) // the first of the equally large components is positive
	}
	q, tri := locus.From([]float64{-3, 1, 0, -2}).Reshape(2, 2).QR()
	if far(q, locus.From([]float64{-1, 0, 0, -1}).Reshape(2, 2)) > 0 || far(tri, locus.From([]float64{3, -1, 0, 2}).Reshape(2, 2)) > 0 {
		t.Errorf("QR: %v %v", q, tri)
	}
}

// TestFourierLengths compares transforms of all lengths up to 130, and a few larger ones,
// with the definition.
func TestFourierLengths(t *testing.T) {
	for n := 1; n <= 1009; n++ {
		if n > 130 && n != 1009 && n != 1000 && n != 512 && n != 2*251 {
			continue
		}
		x := randomMatrices(locus.CPU(), locus.Float64, uint64(n), n, 2)
		in, got := locus.ToSlice[float64](x), locus.ToSlice[float64](x.FFT(locus.FFTOptions{}))
		size := math.Sqrt(float64(n))
		for k := 0; k < n; k += max(1, n/7) {
			want := complex(0, 0)
			for i := range n {
				want += complex(in[2*i], in[2*i+1]) * cmplx.Rect(1, -2*math.Pi*float64(i*k%n)/float64(n))
			}
			if e := cmplx.Abs(complex(got[2*k], got[2*k+1]) - want); e > 1e-13*size {
				t.Errorf("length %d, number %d: off by %g", n, k, e)
			}
		}
		if e := far(x.FFT(locus.FFTOptions{}).IFFT(locus.FFTOptions{}), x); e > 2e-14 {
			t.Errorf("length %d and back: off by %g", n, e)
		}
		re := x.Narrow(-1, 0, 1).Squeeze(-1)
		half := re.RFFT(locus.FFTOptions{})
		whole := locus.Stack(-1, re, re.ZerosLike()).FFT(locus.FFTOptions{})
		if e := far(half, whole.Narrow(0, 0, n/2+1)); e > 1e-13*size {
			t.Errorf("length %d, real numbers: off by %g", n, e)
		}
		if e := far(half.IRFFT(locus.FFTOptions{N: n}), re); e > 2e-14 {
			t.Errorf("length %d, real numbers and back: off by %g", n, e)
		}
	}
}

// A product of spectra is a convolution.
func TestConvolutionBySpectra(t *testing.T) {
	a, b := locus.From([]float64{1, 2, 3, 0}), locus.From([]float64{1, 0, -1, 0})
	y := locus.ComplexMul(a.RFFT(locus.FFTOptions{}), b.RFFT(locus.FFTOptions{})).IRFFT(locus.FFTOptions{})
	if far(y, locus.From([]float64{-2, 2, 2, -2})) > 1e-15 {
		t.Error(y)
	}
	for _, norm := range []locus.FFTNorm{locus.FFTBackward, locus.FFTOrtho, locus.FFTForward} {
		o := locus.FFTOptions{Axes: []int{0, 1}, Norm: norm}
		x := randomMatrices(locus.CPU(), locus.Float64, 1, 3, 5)
		if back := x.RFFT(o).IRFFT(locus.FFTOptions{Axes: o.Axes, Norm: norm, N: 5}); far(back, x) > 1e-14 {
			t.Errorf("%s: %v, want %v", norm, back, x)
		}
	}
	if s := locus.FFTNorm(9).String(); s != "FFTNorm(9)" {
		t.Error(s)
	}
}
