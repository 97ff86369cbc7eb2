// cross_entropy and its gradient: a warp or a block per row of scores (N, C).
#include "locus.cuh"

struct Classes {
  void *out, *most, *inverse; // most and inverse: written by the loss if not null, read by its gradient
  const void *x, *classes, *grad;
  Flag* flag;
  u64 rows, width;
  i64 rowStep, step, classStep, gradStep, mostStep, inverseStep; // strides in elements
  i32 op, wide;
};

DEV i64 class_at(const Classes& p, u64 row) {
  i64 at = (i64)row * p.classStep;
  return p.wide ? ((const i64*)p.classes)[at] : ((const i32*)p.classes)[at];
}

// scaled rescales a sum of exponentials from one maximum to another, larger one.
template <class A> DEV A scaled(A s, A from, A to) { return s == A(0) || from == to ? s : s * m_exp(from - to); }

template <class T, bool BLOCK> DEV void class_loss(const Classes& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[33];
  const int V = sizeof(T) == 8 ? 2 : 8; // the same for float32 and half precision, so that the order of sums is the same
  u64 row = BLOCK ? blockIdx.x : (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (row >= p.rows) return;
  u64 first = BLOCK ? threadIdx.x : threadIdx.x & 31, step = BLOCK ? blockDim.x : 32;
  const T* x = (const T*)p.x + (i64)row * p.rowStep;
  // One pass: the maximum so far, and the sum of exponentials relative to it.
  A m = A(-INF_D), sum = A(0);
  u64 done = 0;
  if (p.step == 1 && (u64)x % sizeof(Vec<T, V>) == 0) {
    u64 n = p.width / V;
#pragma unroll 1
    for (u64 i = first; i < n; i += step) {
      Vec<T, V> v = ((const Vec<T, V>*)x)[i];
      A to = m;
#pragma unroll
      for (int j = 0; j < V; j++) to = larger(to, get(v.v[j]));
      sum = scaled(sum, m, to);
      m = to;
#pragma unroll
      for (int j = 0; j < V; j++) { A e = get(v.v[j]); sum += e == m ? A(1) : m_exp(e - m); }
    }
    done = n * V;
  }
#pragma unroll 1
  for (u64 i = done + first; i < p.width; i += step) {
    A e = get(x[(i64)i * p.step]), to = larger(m, e);
    sum = scaled(sum, m, to) + (e == to ? A(1) : m_exp(e - to));
    m = to;
  }
  auto more = [](A a, A b) { return larger(a, b); };
  auto plus = [](A a, A b) { return a + b; };
  A to = BLOCK ? block_reduce(m, A(-INF_D), room, more) : warp_reduce(m, more);
  sum = scaled(sum, m, to);
  m = to;
  sum = BLOCK ? block_reduce(sum, A(0), room, plus) : warp_reduce(sum, plus);
  if (BLOCK ? threadIdx.x != 0 : (threadIdx.x & 31) != 0) return;
  i64 k = class_at(p, row);
  A loss = A(0);
  if (k < 0 || k >= (i64)p.width) out_of_range(p.flag, p.op, k, p.width);
  else loss = m_log(sum) - (get(x[k * p.step]) - m);
  ((A*)p.out)[row] = loss;
  if (p.most) ((A*)p.most)[row] = m, ((A*)p.inverse)[row] = A(1) / sum;
}

// A block handles a piece of a row: piece blockIdx.y.
#define PIECE 8192
template <class T> DEV void class_grad(const Classes& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T);
  u64 pieces = (p.width + PIECE - 1) / PIECE, row = blockIdx.x / pieces, from = blockIdx.x % pieces * PIECE;
  u64 to = from + PIECE < p.width ? from + PIECE : p.width;
  i64 k = class_at(p, row);
  A g = ((const A*)p.grad)[(i64)row * p.gradStep], m = ((const A*)p.most)[(i64)row * p.mostStep], f = g * ((const A*)p.inverse)[(i64)row * p.inverseStep];
  if (k < 0 || k >= (i64)p.width) {
    if (threadIdx.x == 0 && from == 0) out_of_range(p.flag, p.op, k, p.width);
    k = -1;
  }
  const T* x = (const T*)p.x + (i64)row * p.rowStep;
  T* out = (T*)p.out + row * p.width;
  if (p.step == 1 && ((u64)x | (u64)out) % 16 == 0 && (p.width * sizeof(T)) % 16 == 0) {
    for (u64 i = from + threadIdx.x * V; i < to; i += blockDim.x * V) {
      Vec<T, V> v = *(const Vec<T, V>*)(x + i), r;
#pragma unroll
      for (int j = 0; j < V; j++) {
        A d = m_exp(get(v.v[j]) - m) * f;
        put(r.v[j], (i64)(i + j) == k ? d - g : d);
      }
      *(Vec<T, V>*)(out + i) = r;
    }
    return;
  }
  for (u64 i = from + threadIdx.x; i < to; i += blockDim.x) {
    A d = m_exp(get(x[(i64)i * p.step]) - m) * f;
    put(out[i], (i64)i == k ? d - g : d);
  }
}

#define CLASSES(T)                                                                                                                    \
  KERNEL __launch_bounds__(128) cross_entropy_warp_##T(const __grid_constant__ Classes p) { class_loss<T, false>(p); }                \
  KERNEL __launch_bounds__(512) cross_entropy_block_##T(const __grid_constant__ Classes p) { class_loss<T, true>(p); }                \
  KERNEL __launch_bounds__(256) cross_entropy_grad_##T(const __grid_constant__ Classes p) { class_grad<T>(p); }
FLOAT_TYPES(CLASSES)
