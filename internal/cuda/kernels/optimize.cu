// What optimizers do to every parameter in every step: see internal/op/optimize.go.
#include "elementwise.cuh"

struct Optimize {
  Elementwise e;
  f64 s[4]; // the op's scalars, in the order of its attribute
};

#define OPTIMIZE(T, name, N, expr)                                                                      \
  KERNEL name##_##T(const __grid_constant__ Optimize p) {                                               \
    typedef Compute<T>::type A;                                                                         \
    A s0 = (A)p.s[0], s1 = (A)p.s[1], s2 = (A)p.s[2], s3 = (A)p.s[3];                                   \
    elementwise<N, WIDE(T), T, T, T, T>(p.e, [=](A a, A b, A c) -> A { return expr; });                 \
  }
#define FLOATS(name, N, expr) FLOAT_TYPES_WITH(OPTIMIZE, name, N, expr)
FLOATS(blend, 2, s0 * a + s1 * b)
FLOATS(blend_square, 2, s0 * a + s1 * (b * b))
FLOATS(adam_step, 3, s0 * a - s1 * b / (m_sqrt(c) * s2 + s3))
