package cpu

import (
	"github.com/locusml/locus/internal/cpu/gemm"
	"github.com/locusml/locus/internal/cpu/vec"
)

// The vector functions and matrix products by type parameter, for kernels that
// are written once for float32 and float64.

func widthOf[T float]() int {
	var z T
	if _, ok := any(z).(float32); ok {
		return 4
	}
	return 8
}

// product is C = A·B, added to the old C if accumulate is set.
func product[T float](m, n, k int, a, b gemm.Mat[T], c []T, ldc int, accumulate bool) {
	switch c := any(c).(type) {
	case []float32:
		ep := &overwrite32
		if accumulate {
			ep = &accumulate32
		}
		gemm.F32(m, n, k, any(a).(gemm.Mat[float32]), any(b).(gemm.Mat[float32]), c, ldc, ep)
	case []float64:
		ep := &overwrite64
		if accumulate {
			ep = &accumulate64
		}
		gemm.F64(m, n, k, any(a).(gemm.Mat[float64]), any(b).(gemm.Mat[float64]), c, ldc, ep)
	}
}

var (
	overwrite32, accumulate32 = gemm.Epilogue[float32]{}, gemm.Epilogue[float32]{Beta: 1}
	overwrite64, accumulate64 = gemm.Epilogue[float64]{}, gemm.Epilogue[float64]{Beta: 1}
)

func addTo[T number](dst, x []T) {
	switch to := any(dst).(type) {
	case []float32:
		vec.AddF32(to, to, any(x).([]float32))
	case []float64:
		vec.AddF64(to, to, any(x).([]float64))
	default:
		add(dst, dst, x)
	}
}

func axpy[T float](dst []T, s T, x []T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.AxpyF32(dst, float32(s), any(x).([]float32))
	case []float64:
		vec.AxpyF64(dst, float64(s), any(x).([]float64))
	}
}

func dotOf[T float](x, y []T) T { return T(dot64(x, y)) }

func dot64[T float](x, y []T) float64 {
	switch x := any(x).(type) {
	case []float32:
		return vec.DotF32(x, any(y).([]float32))
	case []float64:
		return vec.DotF64(x, any(y).([]float64))
	}
	panic("cpu: dot of another type")
}

func sumOf[T float](x []T) float64 {
	switch x := any(x).(type) {
	case []float32:
		return vec.SumF32(x)
	case []float64:
		return vec.SumF64(x)
	}
	panic("cpu: sum of another type")
}

// squareDev is the sum of the squares of x - mean.
func squareDev[T float](x []T, mean float64) float64 {
	switch x := any(x).(type) {
	case []float32:
		return vec.SumSqDevF32(x, mean)
	case []float64:
		return vec.SumSqDevF64(x, mean)
	}
	panic("cpu: sum of another type")
}

// shift subtracts s.
func shift[T float](dst, x []T, s T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.SubSF32(dst, any(x).([]float32), float32(s))
	case []float64:
		vec.SubSF64(dst, any(x).([]float64), float64(s))
	}
}

// subMul is (x - s)·t.
func subMul[T float](dst, x []T, s, t T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.SubMulF32(dst, any(x).([]float32), float32(s), float32(t))
	case []float64:
		vec.SubMulF64(dst, any(x).([]float64), float64(s), float64(t))
	}
}

func times[T float](dst, x, y []T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.MulF32(dst, any(x).([]float32), any(y).([]float32))
	case []float64:
		vec.MulF64(dst, any(x).([]float64), any(y).([]float64))
	}
}

func minus[T float](dst, x, y []T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.SubF32(dst, any(x).([]float32), any(y).([]float32))
	case []float64:
		vec.SubF64(dst, any(x).([]float64), any(y).([]float64))
	}
}

// affine is x·a + b.
func affine[T float](dst, x []T, a, b T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.AffineF32(dst, any(x).([]float32), float32(a), float32(b))
	case []float64:
		vec.AffineF64(dst, any(x).([]float64), float64(a), float64(b))
	}
}

// fma is x·y + z.
func fma[T float](dst, x, y, z []T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.FmaF32(dst, any(x).([]float32), any(y).([]float32), any(z).([]float32))
	case []float64:
		vec.FmaF64(dst, any(x).([]float64), any(y).([]float64), any(z).([]float64))
	}
}

// sumRows adds the columns of eight rows to acc.
func sumRows[T float](acc []float64, rows *[vec.Rows]*T) {
	switch rows := any(rows).(type) {
	case *[vec.Rows]*float32:
		vec.SumRowsF32(acc, rows, 0)
	case *[vec.Rows]*float64:
		vec.SumRowsF64(acc, rows, 0)
	}
}

func expOf[T float](dst, x []T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.ExpF32(dst, any(x).([]float32))
	case []float64:
		vec.ExpF64(dst, any(x).([]float64))
	}
}

func scale[T float](dst, x []T, s T) {
	switch dst := any(dst).(type) {
	case []float32:
		vec.MulSF32(dst, any(x).([]float32), float32(s))
	case []float64:
		vec.MulSF64(dst, any(x).([]float64), float64(s))
	}
}

func largestOf[T float](x []T) T {
	switch x := any(x).(type) {
	case []float32:
		return T(vec.ReduceMaxF32(x))
	case []float64:
		return T(vec.ReduceMaxF64(x))
	}
	panic("cpu: largest of another type")
}

// expSub stores exp(x - m) and returns the sum.
func expSub[T float](dst, x []T, m T) float64 {
	switch dst := any(dst).(type) {
	case []float32:
		return vec.ExpSubF32(dst, any(x).([]float32), float32(m))
	case []float64:
		return vec.ExpSubF64(dst, any(x).([]float64), float64(m))
	}
	panic("cpu: exp of another type")
}

func sumExpSub[T float](x []T, m T) float64 {
	switch x := any(x).(type) {
	case []float32:
		return vec.SumExpSubF32(x, float32(m))
	case []float64:
		return vec.SumExpSubF64(x, float64(m))
	}
	panic("cpu: exp of another type")
}
