package locus

import "github.com/locusml/locus/internal/op"

// Neg returns -x.
func (t *Tensor) Neg() *Tensor { return apply(op.Neg, nil, t) }

// Abs returns |x|.
func (t *Tensor) Abs() *Tensor { return apply(op.Abs, nil, t) }

// Sign returns the sign: -1, 0 or 1; NaN for NaN.
func (t *Tensor) Sign() *Tensor { return apply(op.Sign, nil, t) }

// Square returns x².
func (t *Tensor) Square() *Tensor { return apply(op.Square, nil, t) }

// Sqrt returns √x; NaN below zero.
func (t *Tensor) Sqrt() *Tensor { return apply(op.Sqrt, nil, t) }

// Rsqrt returns 1/√x.
func (t *Tensor) Rsqrt() *Tensor { return apply(op.Rsqrt, nil, t) }

// Reciprocal returns 1/x.
func (t *Tensor) Reciprocal() *Tensor { return apply(op.Reciprocal, nil, t) }

// Exp returns eˣ.
func (t *Tensor) Exp() *Tensor { return apply(op.Exp, nil, t) }

// Exp2 returns 2ˣ.
func (t *Tensor) Exp2() *Tensor { return apply(op.Exp2, nil, t) }

// Expm1 returns eˣ-1, exact near 0.
func (t *Tensor) Expm1() *Tensor { return apply(op.Expm1, nil, t) }

// Log returns the natural logarithm.
func (t *Tensor) Log() *Tensor { return apply(op.Log, nil, t) }

// Log2 returns the logarithm to base 2.
func (t *Tensor) Log2() *Tensor { return apply(op.Log2, nil, t) }

// Log10 returns the logarithm to base 10.
func (t *Tensor) Log10() *Tensor { return apply(op.Log10, nil, t) }

// Log1p returns log(1+x), exact near 0.
func (t *Tensor) Log1p() *Tensor { return apply(op.Log1p, nil, t) }

// Sin returns the sine.
func (t *Tensor) Sin() *Tensor { return apply(op.Sin, nil, t) }

// Cos returns the cosine.
func (t *Tensor) Cos() *Tensor { return apply(op.Cos, nil, t) }

// Tan returns the tangent.
func (t *Tensor) Tan() *Tensor { return apply(op.Tan, nil, t) }

// Asin returns the arc sine.
func (t *Tensor) Asin() *Tensor { return apply(op.Asin, nil, t) }

// Acos returns the arc cosine.
func (t *Tensor) Acos() *Tensor { return apply(op.Acos, nil, t) }

// Atan returns the arc tangent.
func (t *Tensor) Atan() *Tensor { return apply(op.Atan, nil, t) }

// Sinh returns the hyperbolic sine.
func (t *Tensor) Sinh() *Tensor { return apply(op.Sinh, nil, t) }

// Cosh returns the hyperbolic cosine.
func (t *Tensor) Cosh() *Tensor { return apply(op.Cosh, nil, t) }

// Tanh returns the hyperbolic tangent.
func (t *Tensor) Tanh() *Tensor { return apply(op.Tanh, nil, t) }

// Asinh returns the inverse hyperbolic sine.
func (t *Tensor) Asinh() *Tensor { return apply(op.Asinh, nil, t) }

// Acosh returns the inverse hyperbolic cosine.
func (t *Tensor) Acosh() *Tensor { return apply(op.Acosh, nil, t) }

// Atanh returns the inverse hyperbolic tangent.
func (t *Tensor) Atanh() *Tensor { return apply(op.Atanh, nil, t) }

// Sigmoid returns 1/(1+e⁻ˣ).
func (t *Tensor) Sigmoid() *Tensor { return apply(op.Sigmoid, nil, t) }

// Softplus returns log(1+eˣ), without overflow.
func (t *Tensor) Softplus() *Tensor { return apply(op.Softplus, nil, t) }

// Relu returns max(x, 0); NaN for NaN.
func (t *Tensor) Relu() *Tensor { return apply(op.Relu, nil, t) }

// Gelu returns x·Φ(x), with erf.
func (t *Tensor) Gelu() *Tensor { return apply(op.Gelu, nil, t) }

// GeluTanh returns gelu's tanh approximation: ½x(1+tanh(√(2/π)(x+0.044715x³))).
func (t *Tensor) GeluTanh() *Tensor { return apply(op.GeluTanh, nil, t) }

// Silu returns x·sigmoid(x).
func (t *Tensor) Silu() *Tensor { return apply(op.Silu, nil, t) }

// Erf returns the error function.
func (t *Tensor) Erf() *Tensor { return apply(op.Erf, nil, t) }

// Erfc returns 1 - erf(x), with all its digits where erf(x) is near 1.
func (t *Tensor) Erfc() *Tensor { return apply(op.Erfc, nil, t) }

// Floor returns the largest integer not above x.
func (t *Tensor) Floor() *Tensor { return apply(op.Floor, nil, t) }

// Ceil returns the smallest integer not below x.
func (t *Tensor) Ceil() *Tensor { return apply(op.Ceil, nil, t) }

// Round returns the nearest integer, halves to even.
func (t *Tensor) Round() *Tensor { return apply(op.Round, nil, t) }

// Trunc returns x without its fraction.
func (t *Tensor) Trunc() *Tensor { return apply(op.Trunc, nil, t) }
