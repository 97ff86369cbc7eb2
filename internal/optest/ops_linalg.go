package optest

import (
	"math"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Matrices for which an op has no result.
func singularMatrix(d locus.Device) *tensor {
	return d.From([]float32{1, 0, 0, 1, 1, 2, 2, 4}).Reshape(2, 2, 2) // the second of the batch
}

func nanMatrix(d locus.Device) *tensor {
	return d.From([]float32{1, 0, 0, float32(math.NaN())}).Reshape(2, 2)
}

// onMatrices is an op of one operand.
func onMatrices(name string, f func(t *tensor) []*tensor) *Op {
	// Rounding in another order moves a factor's elements a little further.
	return (&Op{Name: "Tensor." + name, DTypes: op.Wide, Tolerance: 20, Matrices: true, Run: func(c *Call) []*tensor { return f(c.In[0]) }}).
		bad(locus.ErrShape, "a vector", func(d locus.Device) { f(d.Ones(3)) }).
		bad(locus.ErrShape, "a scalar", func(d locus.Device) { f(d.Ones()) })
}

// onSquares is an op of square matrices.
func onSquares(name string, f func(t *tensor) []*tensor) *Op {
	return onMatrices(name, f).bad(locus.ErrShape, "matrices that are not square", func(d locus.Device) { f(d.Ones(2, 2, 3)) })
}

// unsuitable adds matrices for which there is no result. On a GPU the next wait reports it.
func (o *Op) unsuitable(what string, f func(t *tensor) []*tensor, make func(d locus.Device) *tensor) *Op {
	return o.bad(locus.ErrMatrix, what, func(d locus.Device) { f(make(d)) })
}

func linalgOps() []*Op {
	cholesky := func(t *tensor) []*tensor { return one(t.Cholesky()) }
	inverse := func(t *tensor) []*tensor { return one(t.Inverse()) }
	qr := func(t *tensor) []*tensor { q, r := t.QR(); return []*tensor{q, r} }
	svd := func(t *tensor) []*tensor { u, s, vt := t.SVD(); return []*tensor{u, s, vt} }
	svdVals := func(t *tensor) []*tensor { return one(t.SVDVals()) }
	eigh := func(t *tensor) []*tensor { w, v := t.Eigh(); return []*tensor{w, v} }
	eigvalsh := func(t *tensor) []*tensor { return one(t.Eigvalsh()) }
	system := func(name string, f func(a, b *tensor, c *Call) *tensor) *Op {
		none := &Call{}
		return (&Op{Name: "Tensor." + name, DTypes: op.Wide, Tolerance: 20, Matrices: true, Run: func(c *Call) []*tensor { return one(f(c.In[0], c.In[1], c)) }}).
			bad(locus.ErrShape, "a vector as matrix", func(d locus.Device) { f(d.Ones(3), d.Ones(3), none) }).
			bad(locus.ErrShape, "a scalar", func(d locus.Device) { f(d.Eye(3), d.Ones(), none) }).
			bad(locus.ErrShape, "other rows", func(d locus.Device) { f(d.Eye(3), d.Ones(2, 3), none) }).
			bad(locus.ErrShape, "batches that do not broadcast", func(d locus.Device) { f(d.Ones(2, 3, 3), d.Ones(3, 3, 3), none) }).
			bad(locus.ErrDType, "two element types", func(d locus.Device) { f(d.Eye(3), d.As(locus.Float64).Eye(3), none) })
	}
	solve := func(t *tensor) []*tensor { return one(t.Solve(t.Device().Ones(2, 1))) }
	ops := []*Op{
		onSquares("Cholesky", cholesky).
			unsuitable("a matrix that is not positive definite", cholesky, singularMatrix).
			unsuitable("NaN", cholesky, nanMatrix),
		system("Solve", func(a, b *tensor, _ *Call) *tensor { return a.Solve(b) }).
			bad(locus.ErrShape, "matrices that are not square", func(d locus.Device) { d.Ones(2, 3).Solve(d.Ones(2, 1)) }).
			unsuitable("a singular matrix", solve, singularMatrix).
			unsuitable("NaN", solve, nanMatrix),
		system("SolveTriangular", func(a, b *tensor, c *Call) *tensor {
			return a.SolveTriangular(b, locus.TriangularOptions{Upper: c.Bool("upper"), Unit: c.Bool("unit")})
		}).
			bad(locus.ErrShape, "matrices that are not square", func(d locus.Device) { d.Ones(2, 3).SolveTriangular(d.Ones(2, 1), locus.TriangularOptions{}) }),
		onSquares("Inverse", inverse).
			unsuitable("a singular matrix", inverse, singularMatrix).
			unsuitable("NaN", inverse, nanMatrix),
		onSquares("Det", func(t *tensor) []*tensor { return one(t.Det()) }),
		onSquares("SlogDet", func(t *tensor) []*tensor { s, l := t.SlogDet(); return []*tensor{s, l} }).with(func(o *Op) { o.Detached = []int{0} }),
		onMatrices("QR", qr).unsuitable("NaN", qr, nanMatrix),
		onMatrices("SVD", svd).unsuitable("NaN", svd, nanMatrix).with(func(o *Op) { o.Tolerance = 100 }),
		onMatrices("SVDVals", svdVals).unsuitable("NaN", svdVals, nanMatrix),
		onSquares("Eigh", eigh).unsuitable("NaN", eigh, nanMatrix).with(func(o *Op) { o.Tolerance = 100 }),
		onSquares("Eigvalsh", eigvalsh).unsuitable("NaN", eigvalsh, nanMatrix),
		system("LstSq", func(a, b *tensor, _ *Call) *tensor { return a.LstSq(b) }),
	}
	return append(group("Linear algebra", ops...), group("Fourier transforms", fourierOps()...)...)
}

func fourierOptions(c *Call) locus.FFTOptions {
	o := locus.FFTOptions{Axes: c.Ints("axes"), N: c.IntOr("n", 0)}
	if c.Has("norm") {
		o.Norm = map[string]locus.FFTNorm{"backward": locus.FFTBackward, "ortho": locus.FFTOrtho, "forward": locus.FFTForward}[c.String("norm")]
	}
	return o
}

func fourierOps() []*Op {
	transform := func(name string, pairs bool, f func(t *tensor, o locus.FFTOptions) *tensor) *Op {
		o := (&Op{Name: "Tensor." + name, DTypes: op.Wide, Tolerance: 4, Run: func(c *Call) []*tensor { return one(f(c.In[0], fourierOptions(c))) }}).
			bad(locus.ErrAxis, "an axis that is not there", func(d locus.Device) { f(d.Ones(3, 2), locus.FFTOptions{Axes: []int{2}}) }).
			bad(locus.ErrAxis, "an axis named twice", func(d locus.Device) { f(d.Ones(4, 3, 2), locus.FFTOptions{Axes: []int{0, 0}}) }).
			bad(locus.ErrShape, "an empty axis", func(d locus.Device) { f(d.Ones(0, 2), locus.FFTOptions{Axes: []int{0}}) }).
			bad(locus.ErrArgument, "an unknown norm", func(d locus.Device) { f(d.Ones(3, 2), locus.FFTOptions{Norm: 7}) }).
			bad(locus.ErrArgument, "a length that does not fit", func(d locus.Device) { f(d.Ones(3, 2), locus.FFTOptions{N: 9}) })
		if pairs {
			o.bad(locus.ErrShape, "no pairs", func(d locus.Device) { f(d.Ones(2, 3), locus.FFTOptions{}) }).
				bad(locus.ErrAxis, "only pairs", func(d locus.Device) { f(d.Ones(2), locus.FFTOptions{}) }).
				bad(locus.ErrShape, "a scalar", func(d locus.Device) { f(d.Ones(), locus.FFTOptions{}) })
		}
		return o
	}
	return []*Op{
		transform("FFT", true, (*tensor).FFT),
		transform("IFFT", true, (*tensor).IFFT),
		transform("RFFT", false, (*tensor).RFFT),
		transform("IRFFT", true, (*tensor).IRFFT).
			bad(locus.ErrArgument, "one number, of which no even length is half", func(d locus.Device) { d.Ones(1, 2).IRFFT(locus.FFTOptions{}) }),
		(&Op{Name: "ComplexMul", DTypes: dtype.Numbers, Run: func(c *Call) []*tensor { return one(locus.ComplexMul(c.In[0], c.In[1])) }}).
			bad(locus.ErrShape, "no pairs", func(d locus.Device) { locus.ComplexMul(d.Ones(3), d.Ones(3)) }).
			bad(locus.ErrShape, "shapes that do not broadcast", func(d locus.Device) { locus.ComplexMul(d.Ones(3, 2), d.Ones(4, 2)) }),
		(&Op{Name: "ComplexAbs", DTypes: dtype.Floats, Run: func(c *Call) []*tensor { return one(locus.ComplexAbs(c.In[0])) }}).
			bad(locus.ErrShape, "no pairs", func(d locus.Device) { locus.ComplexAbs(d.Ones(3)) }),
	}
}
