// The ops of unary.cu, binary.cu and cast.cu on one element, as text for fused kernels:
// package ptx inlines the bodies of these kernels. They are never launched, and memory is
// only a placeholder: the bits of operand k are the parameter in[k], and the result is what
// is stored at out.
#define Elementwise UnusedElementwise
#define elementwise unused_elementwise
#include "elementwise.cuh"
#undef Elementwise
#undef elementwise

struct Elementwise {
  u64 in[3];
  void* out;
};

template <int N, int V, class O, class T0, class T1, class T2, class F> DEV void elementwise(const Elementwise& p, F f) {
  T0 a = *(const T0*)&p.in[0];
  T1 b = N > 1 ? *(const T1*)&p.in[1] : T1();
  T2 c = N > 2 ? *(const T2*)&p.in[2] : T2();
  O r;
  put(r, f(get(a), get(b), get(c)));
  *(O*)p.out = r;
}

#include "unary.cu"
#undef FLOAT
#undef FLOATS
#undef INTS
#include "binary.cu"
#include "cast.cu"
