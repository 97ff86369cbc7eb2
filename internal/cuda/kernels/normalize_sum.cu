// Normalization of rows with a sum before or after it, as in residual connections: the sum of
// two tensors and its normalization, and the gradient of x plus another tensor. Each result
// is rounded as that of the op alone, and sums have the order of normalize.cu, so the bits
// are those of single ops. Only for rows that are contiguous and short enough to be kept in
// registers, with contiguous weights and biases.
#include "arrive.cuh"
#include "held.cuh"
#include "rounding.cuh"

struct NormSum {
  void *out, *sum;               // sum: a + b
  const void *a, *b;             // or for the gradient: g, and what is added to it
  const void *x;                 // gradients only
  const void *weight, *bias;     // may be missing
  void *mean, *rstd;             // results of the op, or operands of its gradient; may be missing
  u64 rows;
  f64 eps;
  i32 len, rms;                  // rms: there is no mean
};

// params loads N parameters from i on; if there are none, they are all other.
template <class T, int N, class A> DEV void params(const void* of, int i, A other, A* to) {
  Vec<T, N> v;
  if (of) v = *(const Vec<T, N>*)((const T*)of + i);
#pragma unroll
  for (int j = 0; j < N; j++) to[j] = of ? get(v.v[j]) : other;
}

template <class T, bool WARP> DEV void add_norm(const NormSum& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T), H = HELD;
  __shared__ A room[33];
  u64 row = WARP ? (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : blockIdx.x;
  if (row >= p.rows) return;
  int thread = WARP ? threadIdx.x & 31 : threadIdx.x;
  int first = thread * V, step = (WARP ? 32 : blockDim.x) * V, len = p.len;
  u64 begin = row * (u64)len;
  Vec<T, V> x[H];
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      u64 at = begin + first + h * step;
      Vec<T, V> a = *(const Vec<T, V>*)((const T*)p.a + at), b = *(const Vec<T, V>*)((const T*)p.b + at);
#pragma unroll
      for (int j = 0; j < V; j++) put(x[h].v[j], get(a.v[j]) + get(b.v[j]));
      *(Vec<T, V>*)((T*)p.sum + at) = x[h];
    }
  A n = (A)p.len, mean = A(0), rstd, m2, wv[V], bv[V];
  moments<WARP>(x, first, step, len, n, p.rms, room, mean, m2);
  rstd = A(1) / m_sqrt(m2 / n + (A)p.eps);
  if (thread == 0) {
    if (p.mean) ((A*)p.mean)[row] = mean;
    if (p.rstd) ((A*)p.rstd)[row] = rstd;
  }
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      Vec<T, V> r;
      params<T, V>(p.weight, first + h * step, A(1), wv);
      params<T, V>(p.bias, first + h * step, A(0), bv);
#pragma unroll
      for (int j = 0; j < V; j++) {
        A hat = (get(x[h].v[j]) - mean) * rstd;
        put(r.v[j], hat * wv[j] + bv[j]);
      }
      *(Vec<T, V>*)((T*)p.out + begin + first + h * step) = r;
    }
}

template <class T, bool WARP> DEV void norm_grad_add(const NormSum& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T), H = WARP ? HELD : HELD / 2;
  __shared__ A room[33];
  u64 row = WARP ? (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : blockIdx.x;
  if (row >= p.rows) return;
  int thread = WARP ? threadIdx.x & 31 : threadIdx.x;
  int first = thread * V, step = (WARP ? 32 : blockDim.x) * V, len = p.len;
  u64 begin = row * (u64)len;
  Vec<T, V> x[H], g[H];
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      x[h] = *(const Vec<T, V>*)((const T*)p.x + begin + first + h * step);
      g[h] = *(const Vec<T, V>*)((const T*)p.a + begin + first + h * step);
    }
  A n = (A)p.len, mean = p.mean ? ((const A*)p.mean)[row] : A(0), rstd = ((const A*)p.rstd)[row], sh = A(0), shx = A(0), wv[V];
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      params<T, V>(p.weight, first + h * step, A(1), wv);
#pragma unroll
      for (int j = 0; j < V; j++) {
        A hv = get(g[h].v[j]);
        if (p.weight) hv *= wv[j];
        sh += hv;
        shx += hv * ((get(x[h].v[j]) - mean) * rstd);
      }
    }
  sh = total<WARP>(sh, room);
  shx = total<WARP>(shx, room);
  sh = p.rms ? A(0) : sh / n;
  shx = shx / n;
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      u64 at = begin + first + h * step;
      Vec<T, V> r, b = *(const Vec<T, V>*)((const T*)p.b + at);
      params<T, V>(p.weight, first + h * step, A(1), wv);
#pragma unroll
      for (int j = 0; j < V; j++) {
        A hat = (get(x[h].v[j]) - mean) * rstd;
        put(r.v[j], rstd * (get(g[h].v[j]) * wv[j] - sh - hat * shx));
        put(r.v[j], plus(get(b.v[j]), get(r.v[j]))); // not contracted with the product, which is rounded first
      }
      *(Vec<T, V>*)((T*)p.out + at) = r;
    }
}

#define NORM_SUM(T)                                                                                                  \
  KERNEL __launch_bounds__(512) add_norm_##T(const __grid_constant__ NormSum p) { add_norm<T, false>(p); }           \
  KERNEL __launch_bounds__(128) add_norm_warp_##T(const __grid_constant__ NormSum p) { add_norm<T, true>(p); }       \
  KERNEL __launch_bounds__(512) norm_grad_add_##T(const __grid_constant__ NormSum p) { norm_grad_add<T, false>(p); } \
  KERNEL __launch_bounds__(128) norm_grad_add_warp_##T(const __grid_constant__ NormSum p) { norm_grad_add<T, true>(p); }
FLOAT_TYPES(NORM_SUM)
