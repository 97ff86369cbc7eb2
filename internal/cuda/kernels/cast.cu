// Casts between all element types. To bool: x ≠ 0. Float to integer truncates and
// saturates, and NaN becomes 0. Integers wrap. To a half-precision type: by way of float32.
#include "elementwise.cuh"

template <class To, class From> struct Cast { DEV To of(From x) { return (To)x; } };
#define SPECIAL(To, From, expr) template <> struct Cast<To, From> { DEV To of(From x) { return expr; } };

DEV i32 clamp8(i32 v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
SPECIAL(u8, f32, x != x ? 0 : (u8)clamp8(__float2int_rz(x)))
SPECIAL(u8, f64, x != x ? 0 : (u8)clamp8(__double2int_rz(x)))
SPECIAL(i32, f32, x != x ? 0 : __float2int_rz(x))
SPECIAL(i32, f64, x != x ? 0 : __double2int_rz(x))
SPECIAL(i64, f32, x != x ? 0 : __float2ll_rz(x))
SPECIAL(i64, f64, x != x ? 0 : __double2ll_rz(x))
SPECIAL(bool, f32, x != 0.f)
SPECIAL(bool, f64, x != 0.0)

#define CAST(To, From)                                                                          \
  KERNEL cast_##From##_##To(const __grid_constant__ Elementwise p) {                            \
    typedef Compute<From>::type A;                                                              \
    typedef Compute<To>::type B;                                                                \
    elementwise<1, (LANES(From) < LANES(To) ? LANES(From) : LANES(To)), To, From, From, From>(  \
        p, [](A x, A, A) -> B { return Cast<B, A>::of(x); });                                   \
  }
#define FROM(T) ALL_TYPES_WITH(CAST, T)
ALL_TYPES(FROM)
