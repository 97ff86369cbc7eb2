// Unary ops: see internal/op/unary.go for what each computes.
#include "activation.cuh"
#include "elementwise.cuh"

#define UNARY(name, T, V, expr)                                                        \
  KERNEL name##_##T(const __grid_constant__ Elementwise p) {                           \
    typedef Compute<T>::type A;                                                        \
    elementwise<1, V, T, T, T, T>(p, [](A x, A, A) -> A { return expr; });             \
  }
#define FLOAT(T, name, width, expr) UNARY(name, T, width(T), expr)
#define FLOATS(name, width, expr) FLOAT_TYPES_WITH(FLOAT, name, width, expr)
#define INTS(name, expr) UNARY(name, u8, WIDE(u8), expr) UNARY(name, i32, WIDE(i32), expr) UNARY(name, i64, WIDE(i64), expr)
#define TO_BOOL(T, name, expr)                                                            \
  KERNEL name##_##T(const __grid_constant__ Elementwise p) {                              \
    typedef Compute<T>::type A;                                                           \
    elementwise<1, WIDE(T), b8, T, T, T>(p, [](A x, A, A) -> bool { return expr; });      \
  }
#define FLOATS_TO_BOOL(name, expr) FLOAT_TYPES_WITH(TO_BOOL, name, expr)
// Copies exist per element size.
#define MOVE(T) UNARY(copy, T, WIDE(T), x)

MOVE(u8) MOVE(u16) MOVE(u32) MOVE(u64)
FLOATS(neg, WIDE, -x) INTS(neg, (A)(-(typename Compute<A>::type)x))
FLOATS(abs, WIDE, m_fabs(x)) UNARY(abs, u8, WIDE(u8), x) UNARY(abs, i32, WIDE(i32), x < 0 ? (A)(0u - (u32)x) : x) UNARY(abs, i64, WIDE(i64), x < 0 ? (A)(0ull - (u64)x) : x)
FLOATS(sign, WIDE, x > A(0) ? A(1) : x < A(0) ? A(-1) : x) UNARY(sign, u8, WIDE(u8), x != 0) UNARY(sign, i32, WIDE(i32), (x > 0) - (x < 0)) UNARY(sign, i64, WIDE(i64), (x > 0) - (x < 0))
FLOATS(square, WIDE, x * x) UNARY(square, u8, WIDE(u8), (A)(x * x)) UNARY(square, i32, WIDE(i32), (A)((u32)x * (u32)x)) UNARY(square, i64, WIDE(i64), (A)((u64)x * (u64)x))
FLOATS(relu, WIDE, relu(x)) INTS(relu, x > 0 ? x : 0)
FLOATS(sqrt, WIDE, m_sqrt(x))
FLOATS(rsqrt, WIDE, A(1) / m_sqrt(x))
FLOATS(reciprocal, WIDE, A(1) / x)
FLOATS(exp, WIDE, m_exp(x))
FLOATS(exp2, WIDE, m_exp2(x))
FLOATS(expm1, HEAVY, m_expm1(x))
FLOATS(log, WIDE, m_log(x))
FLOATS(log2, WIDE, m_log2(x))
FLOATS(log10, WIDE, m_log10(x))
FLOATS(log1p, HEAVY, m_log1p(x))
FLOATS(sin, HEAVY, m_sin(x))
FLOATS(cos, HEAVY, m_cos(x))
FLOATS(tan, HEAVY, m_tan(x))
FLOATS(asin, HEAVY, m_asin(x))
FLOATS(acos, HEAVY, m_acos(x))
FLOATS(atan, HEAVY, m_atan(x))
FLOATS(sinh, HEAVY, m_sinh(x))
FLOATS(cosh, HEAVY, m_cosh(x))
FLOATS(tanh, WIDE, m_tanh(x))
FLOATS(asinh, HEAVY, m_asinh(x))
FLOATS(acosh, HEAVY, m_acosh(x))
FLOATS(atanh, HEAVY, m_atanh(x))
FLOATS(sigmoid, WIDE, sigmoid(x))
FLOATS(softplus, HEAVY, (x > A(0) ? x : A(0)) + m_log1p(m_exp(-m_fabs(x))))
FLOATS(gelu, WIDE, gelu(x))
FLOATS(gelu_tanh, WIDE, gelu_tanh(x))
FLOATS(silu, WIDE, silu(x))
FLOATS(relu6, WIDE, relu6(x))
FLOATS(hard_sigmoid, WIDE, hard_sigmoid(x))
FLOATS(hard_swish, WIDE, hard_swish(x))
FLOATS(mish, WIDE, mish(x))
FLOATS(erf, HEAVY, m_erf(x))
FLOATS(erfc, HEAVY, m_erfc(x))
FLOATS(floor, WIDE, m_floor(x))
FLOATS(ceil, WIDE, m_ceil(x))
FLOATS(round, WIDE, m_rint(x))
FLOATS(trunc, WIDE, m_trunc(x))
TO_BOOL(b8, not, !x)
FLOATS_TO_BOOL(isnan, x != x)
FLOATS_TO_BOOL(isinf, m_fabs(x) == A(INF_D))
FLOATS_TO_BOOL(isfinite, m_fabs(x) < A(INF_D))
