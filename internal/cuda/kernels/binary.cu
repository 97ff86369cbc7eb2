// Binary and compare ops and where: see internal/op/binary.go for what each computes.
#include "elementwise.cuh"
#include "activation_grad.cuh"

#define BINARY(name, T, V, expr)                                                          \
  KERNEL name##_##T(const __grid_constant__ Elementwise p) {                              \
    typedef Compute<T>::type A;                                                           \
    elementwise<2, V, T, T, T, T>(p, [](A a, A b, A) -> A { return expr; });              \
  }
#define FLOAT(T, name, width, expr) BINARY(name, T, width(T), expr)
#define FLOATS(name, width, expr) FLOAT_TYPES_WITH(FLOAT, name, width, expr)
#define INTS(name, expr) BINARY(name, u8, WIDE(u8), expr) BINARY(name, i32, WIDE(i32), expr) BINARY(name, i64, WIDE(i64), expr)
#define COMPARE(T, name, expr)                                                               \
  KERNEL name##_##T(const __grid_constant__ Elementwise p) {                                 \
    typedef Compute<T>::type A;                                                              \
    elementwise<2, WIDE(T), b8, T, T, T>(p, [](A a, A b, A) -> bool { return expr; });       \
  }
#define NUMBERS(name, expr) FLOAT_TYPES_WITH(COMPARE, name, expr) COMPARE(u8, name, expr) COMPARE(i32, name, expr) COMPARE(i64, name, expr)
#define WHERE(T)                                                                                    \
  KERNEL where_##T(const __grid_constant__ Elementwise p) {                                         \
    elementwise<3, WIDE(T), T, b8, T, T>(p, [](bool a, T b, T c) -> T { return a ? b : c; });       \
  }

// Integers wrap, so the arithmetic is unsigned: signed overflow is undefined in C++.
template <class A> struct Unsigned { typedef A type; };
template <> struct Unsigned<i32> { typedef u32 type; };
template <> struct Unsigned<i64> { typedef u64 type; };
#define WRAP(a, o, b) ((A)((typename Unsigned<A>::type)(a) o (typename Unsigned<A>::type)(b)))

template <class A> DEV A int_pow(A a, A b) {
  typedef typename Unsigned<A>::type U;
  if (b < 0) return a == A(1) ? A(1) : a == A(-1) ? (b & 1 ? A(-1) : A(1)) : A(0);
  U r = 1, base = (U)a;
  for (U e = (U)b; e; e >>= 1) {
    if (e & 1) r = (U)(r * base);
    base = (U)(base * base);
  }
  return (A)r;
}

template <class A> DEV A int_floor_div(A a, A b) {
  if (b == 0) return 0;
  if (b == A(-1) && A(-1) < 0) return WRAP(0, -, a); // the least integer has no negative: it wraps
  A q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

template <class A> DEV A int_mod(A a, A b) {
  if (b == 0 || (b == A(-1) && A(-1) < 0)) return 0;
  A r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class A> DEV A float_mod(A a, A b) {
  A r = m_fmod(a, b);
  return r != A(0) && (r < A(0)) != (b < A(0)) ? r + b : r;
}

template <class A> DEV A int_fmod(A a, A b) { return b == 0 || (b == A(-1) && A(-1) < 0) ? A(0) : A(a % b); }

template <class A> DEV A log_add_exp(A a, A b) {
  if (a == b) return a + A(0.69314718055994530942); // the difference of equal infinities is NaN
  return larger(a, b) + m_log1p(m_exp(-m_fabs(a - b)));
}

// The remainder comes first, because a / b may round up to an integer.
template <class A> DEV A float_floor_div(A a, A b) {
  A q = a / b;
  if (b == A(0)) return q;
  A r = m_fmod(a, b), d = (a - r) / b;
  if (r != A(0) && (r < A(0)) != (b < A(0))) d -= A(1);
  if (d == A(0)) return m_copysign(A(0), q);
  A f = m_floor(d);
  return d - f > A(0.5) ? f + A(1) : f;
}

FLOATS(add, WIDE, a + b) INTS(add, WRAP(a, +, b))
FLOATS(sub, WIDE, a - b) INTS(sub, WRAP(a, -, b))
FLOATS(mul, WIDE, a * b) INTS(mul, WRAP(a, *, b))
FLOATS(div, WIDE, a / b)
FLOATS(pow, HEAVY, m_pow(a, b)) INTS(pow, int_pow(a, b))
FLOATS(maximum, WIDE, larger(a, b)) INTS(maximum, a > b ? a : b)
FLOATS(minimum, WIDE, smaller(a, b)) INTS(minimum, a < b ? a : b)
FLOATS(floor_div, HEAVY, float_floor_div(a, b)) INTS(floor_div, int_floor_div(a, b))
FLOATS(mod, HEAVY, float_mod(a, b)) INTS(mod, int_mod(a, b))
FLOATS(fmod, HEAVY, m_fmod(a, b)) INTS(fmod, int_fmod(a, b))
FLOATS(log_add_exp, HEAVY, log_add_exp(a, b))
FLOATS(atan2, HEAVY, m_atan2(a, b))
INTS(and, a & b) BINARY(and, b8, WIDE(b8), a && b)
INTS(or, a | b) BINARY(or, b8, WIDE(b8), a || b)
INTS(xor, a ^ b) BINARY(xor, b8, WIDE(b8), a != b)
FLOATS(relu_grad, WIDE, relu_grad(a, b)) INTS(relu_grad, b > 0 ? a : A(0))
FLOATS(sigmoid_grad, WIDE, sigmoid_grad(a, b))
FLOATS(tanh_grad, WIDE, tanh_grad(a, b))
FLOATS(gelu_grad, HEAVY, gelu_grad(a, b))
FLOATS(gelu_tanh_grad, HEAVY, gelu_tanh_grad(a, b))
FLOATS(silu_grad, WIDE, silu_grad(a, b))
FLOATS(relu6_grad, WIDE, relu6_grad(a, b))
FLOATS(hard_sigmoid_grad, WIDE, b > A(-3) && b < A(3) ? a * A(1.0 / 6) : A(0))
FLOATS(hard_swish_grad, WIDE, b > A(-3) && b < A(3) ? a * (b * A(1.0 / 3) + A(0.5)) : b >= A(3) ? a : A(0))
FLOATS(mish_grad, WIDE, mish_grad(a, b))
FLOATS(leaky_relu, WIDE, a > A(0) ? a : a * b)
FLOATS(leaky_slope, WIDE, a > A(0) ? A(1) : b)
NUMBERS(eq, a == b) COMPARE(b8, eq, a == b)
NUMBERS(ne, a != b) COMPARE(b8, ne, a != b)
NUMBERS(lt, a < b)
NUMBERS(le, a <= b)
NUMBERS(gt, a > b)
NUMBERS(ge, a >= b)
WHERE(u8) WHERE(u16) WHERE(u32) WHERE(u64)
