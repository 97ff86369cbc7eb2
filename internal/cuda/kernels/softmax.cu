// softmax, log_softmax and their gradients along an axis. Lines may have any strides; a line
// is computed by a thread (the axis is not innermost), a warp or a block. Lines that are
// contiguous and short enough are loaded once and kept in registers.
#include "locus.cuh"

struct Lines {
  void* out;
  const void *a, *b;
  u64 lines, len;
  i64 stepA, stepB, stepOut; // strides of the axis
  Idx line;                  // strides: a, b, out
};

// What the four ops have in common: a maximum (forward only), a sum of terms,
// and a value for each element.
template <class A> struct Softmax {
  static const bool MAX = true, TWO = false;
  DEV A term(A x, A, A m) { return m_exp(x - m); }
  DEV A factor(A sum) { return A(1) / sum; }
  DEV A value(A x, A, A m, A f) { return m_exp(x - m) * f; }
};
template <class A> struct LogSoftmax {
  static const bool MAX = true, TWO = false;
  DEV A term(A x, A, A m) { return m_exp(x - m); }
  DEV A factor(A sum) { return m_log(sum); }
  DEV A value(A x, A, A m, A f) { return x - m - f; }
};
template <class A> struct SoftmaxGrad {
  static const bool MAX = false, TWO = true;
  DEV A term(A g, A y, A) { return g * y; }
  DEV A factor(A sum) { return sum; }
  DEV A value(A g, A y, A, A f) { return y * (g - f); }
};
template <class A> struct LogSoftmaxGrad {
  static const bool MAX = false, TWO = true;
  DEV A term(A g, A, A) { return g; }
  DEV A factor(A sum) { return sum; }
  DEV A value(A g, A y, A, A f) { return g - m_exp(y) * f; }
};

enum { THREAD, WARP, BLOCK };

template <int WHO, class A, class F> DEV A together(A v, A none, A* room, F f) {
  if (WHO == THREAD) return v;
  if (WHO == WARP) return warp_reduce(v, f);
  return block_reduce(v, none, room, f);
}

template <class T, class Op, int WHO> DEV void soft_lines(const Lines& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[33];
  u64 l = WHO == BLOCK ? blockIdx.x : WHO == WARP ? (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (l >= p.lines) return;
  u64 first = WHO == BLOCK ? threadIdx.x : WHO == WARP ? threadIdx.x & 31 : 0, step = WHO == BLOCK ? blockDim.x : WHO == WARP ? 32 : 1;
  i64 off[3];
  offsets<3>(p.line, l, off);
  const T *a = (const T*)p.a + off[0], *b = (const T*)p.b + off[1];
  T* out = (T*)p.out + off[2];
  A m = A(0), sum = A(0);
  if (Op::MAX) {
    m = A(-INF_D);
#pragma unroll 4
    for (u64 i = first; i < p.len; i += step) m = larger(m, get(a[i * p.stepA]));
    m = together<WHO>(m, A(-INF_D), room, [](A x, A y) { return larger(x, y); });
  }
#pragma unroll 4
  for (u64 i = first; i < p.len; i += step) sum += Op::term(get(a[i * p.stepA]), Op::TWO ? get(b[i * p.stepB]) : A(0), m);
  sum = together<WHO>(sum, A(0), room, [](A x, A y) { return x + y; });
  A f = Op::factor(sum);
#pragma unroll 4
  for (u64 i = first; i < p.len; i += step) put(out[i * p.stepOut], Op::value(get(a[i * p.stepA]), Op::TWO ? get(b[i * p.stepB]) : A(0), m, f));
}

// Lines that are contiguous in all operands, with a multiple of LANES(T) elements, at most
// HELD vectors per thread.
#define HELD 8
template <class T, class Op, int WHO> DEV void soft_held(const Lines& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T), H = Op::TWO ? HELD / 2 : HELD;
  __shared__ A room[33];
  u64 l = WHO == BLOCK ? blockIdx.x : (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (l >= p.lines) return;
  int first = (WHO == BLOCK ? threadIdx.x : threadIdx.x & 31) * V, step = (WHO == BLOCK ? blockDim.x : 32) * V, len = (int)p.len;
  i64 off[3];
  offsets<3>(p.line, l, off);
  const T *a = (const T*)p.a + off[0], *b = (const T*)p.b + off[1];
  T* out = (T*)p.out + off[2];
  Vec<T, V> x[H], y[Op::TWO ? H : 1];
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      x[h] = *(const Vec<T, V>*)(a + first + h * step);
      if (Op::TWO) y[Op::TWO ? h : 0] = *(const Vec<T, V>*)(b + first + h * step);
    }
  A m = A(0), sum = A(0);
  if (Op::MAX) {
    m = A(-INF_D);
#pragma unroll
    for (int h = 0; h < H; h++)
      if (first + h * step < len)
#pragma unroll
        for (int j = 0; j < V; j++) m = larger(m, get(x[h].v[j]));
    m = together<WHO>(m, A(-INF_D), room, [](A x, A y) { return larger(x, y); });
  }
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len)
#pragma unroll
      for (int j = 0; j < V; j++) sum += Op::term(get(x[h].v[j]), Op::TWO ? get(y[Op::TWO ? h : 0].v[j]) : A(0), m);
  sum = together<WHO>(sum, A(0), room, [](A x, A y) { return x + y; });
  A f = Op::factor(sum);
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      Vec<T, V> r;
#pragma unroll
      for (int j = 0; j < V; j++) put(r.v[j], Op::value(get(x[h].v[j]), Op::TWO ? get(y[Op::TWO ? h : 0].v[j]) : A(0), m, f));
      *(Vec<T, V>*)(out + first + h * step) = r;
    }
}

#define SOFT(T, name, Op)                                                                                                   \
  KERNEL name##_thread_##T(const __grid_constant__ Lines p) { soft_lines<T, Op<Compute<T>::type>, THREAD>(p); }             \
  KERNEL name##_warp_##T(const __grid_constant__ Lines p) { soft_lines<T, Op<Compute<T>::type>, WARP>(p); }                 \
  KERNEL name##_block_##T(const __grid_constant__ Lines p) { soft_lines<T, Op<Compute<T>::type>, BLOCK>(p); }               \
  KERNEL name##_held_warp_##T(const __grid_constant__ Lines p) { soft_held<T, Op<Compute<T>::type>, WARP>(p); }             \
  KERNEL name##_held_block_##T(const __grid_constant__ Lines p) { soft_held<T, Op<Compute<T>::type>, BLOCK>(p); }
#define FLOATS(name, Op) FLOAT_TYPES_WITH(SOFT, name, Op)
FLOATS(softmax, Softmax) FLOATS(log_softmax, LogSoftmax) FLOATS(softmax_grad, SoftmaxGrad) FLOATS(log_softmax_grad, LogSoftmaxGrad)
