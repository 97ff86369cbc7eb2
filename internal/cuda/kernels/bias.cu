// What a bias has around it: the activation of a sum with it, and its own gradient with
// that of the activation. Each result is rounded as the result of the op alone would be.
#include "activation_grad.cuh"
#include "product.cuh"
#include "reduce.cuh"

struct BiasAct {
  void* out;
  const void *in, *bias;
  u64 n;               // elements, in units of what a thread takes
  u32 channels, inner; // inner: the units of a channel that lie together; 0: channels do, and channels counts their units
  i32 act, pad;
};

// A thread takes N elements that lie together: of one channel, or of N.
template <class T, int N> DEV void bias_act(const BiasAct& p) {
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  u32 inner = p.inner ? p.inner : 1;
  u32 c = p.n >> 32 ? i / inner % p.channels : (u32)i / inner % p.channels;
  Vec<T, N> v = ((const Vec<T, N>*)p.in)[i], b;
  if (p.inner) {
    b.v[0] = ((const T*)p.bias)[c];
#pragma unroll
    for (int j = 1; j < N; j++) b.v[j] = b.v[0];
  } else b = ((const Vec<T, N>*)p.bias)[c];
#pragma unroll
  for (int j = 0; j < N; j++) {
    T sum;
    put(sum, get(v.v[j]) + get(b.v[j]));
    put(v.v[j], activate(p.act, get(sum)));
  }
  ((Vec<T, N>*)p.out)[i] = v;
}
#define BIAS_ACT(T)                                                                             \
  KERNEL bias_act_##T(const __grid_constant__ BiasAct p) { bias_act<T, 1>(p); }                 \
  KERNEL bias_act_wide_##T(const __grid_constant__ BiasAct p) { bias_act<T, LANES(T)>(p); }
FLOAT_TYPES(BIAS_ACT)

// The gradient of an activation, which is stored on its way into the sums of its channels.
struct ActGradSum {
  Reduce r; // r.in is the gradient of the activation's result
  const void* y;
  void* out;
  i32 act, pad; // which of those that share a kernel
};

// settled keeps what was computed from being contracted with what follows.
DEV f32 settled(f32 x) { asm("" : "+f"(x)); return x; }

template <class T, class F> struct Activated {
  const T *g, *y;
  T* out;
  i32 act;
  enum { LOADS = 2 }; // of both
  template <int N> struct Raw { Vec<T, N> g, y; };
  template <int N> METHOD Raw<N> load(i64 at) const { return {*(const Vec<T, N>*)(g + at), *(const Vec<T, N>*)(y + at)}; }
  template <int N> METHOD Vec<T, N> use(i64 at, const Raw<N>& r) const {
    Vec<T, N> v;
#pragma unroll
    for (int j = 0; j < N; j++) put(v.v[j], settled(F::grad(act, get(r.g.v[j]), get(r.y.v[j]))));
    *(Vec<T, N>*)(out + at) = v;
    return v;
  }
};

// Those whose gradients take few instructions share kernels.
struct Of_act {
  template <class A> DEV A grad(i32 act, A g, A y) {
    switch (act) {
    case RELU: return relu_grad(g, y);
    case RELU6: return relu6_grad(g, y);
    case SIGMOID: return sigmoid_grad(g, y);
    }
    return tanh_grad(g, y);
  }
};
#define GRAD_OF(name) \
  struct Of_##name { template <class A> DEV A grad(i32, A g, A x) { return name##_grad(g, x); } };
#define GRAD_SUM(T, name)                                                                                              \
  KERNEL __launch_bounds__(1024) name##_grad_sum_row_##T(const __grid_constant__ ActGradSum p) {                       \
    reduce_row<Sum<T>, T>(p.r, Activated<T, Of_##name>{(const T*)p.r.in, (const T*)p.y, (T*)p.out, p.act});            \
  }                                                                                                                    \
  KERNEL __launch_bounds__(256) name##_grad_sum_tile_##T(const __grid_constant__ ActGradSum p) {                       \
    reduce_tile<Sum<T>, T>(p.r, Activated<T, Of_##name>{(const T*)p.r.in, (const T*)p.y, (T*)p.out, p.act});           \
  }
#define GRAD_SUMS(name) GRAD_SUM(f32, name) HALF_TYPES_WITH(GRAD_SUM, name)
GRAD_OF(gelu) GRAD_OF(gelu_tanh) GRAD_OF(silu)
GRAD_SUMS(act) GRAD_SUMS(gelu) GRAD_SUMS(gelu_tanh) GRAD_SUMS(silu)
