// Sampling at given positions. D is the number of spatial axes, 2 or 3.
// Operands may have any strides; results are contiguous.
#include "locus.cuh"

struct Sampling {
  void *out, *sums;             // sums: the gradient of x, (N, C, size), in the type that is computed in
  const void *x, *grad, *grid;
  u64 n;                        // threads
  i32 nearest, padding, corners, channels;
  i32 size[4];                  // the spatial sizes of x
  u64 length, places;           // products of the spatial sizes of x and of the result
  i32 at[4];                    // the spatial sizes of the result
  i64 xs[5], gs[5], ts[5];      // strides of x, of the gradient and of the grid
};

enum { ZEROS, BORDER, REFLECT }; // op.GridZeros, op.GridBorder, op.GridReflect
#define CHANNELS 8 // that a thread of grid_sample handles

// Spot is a position in x: along each axis the element before it, the fraction of the way
// to the next, and the derivative with respect to the grid's coordinate.
template <class A, int D> struct Spot { A before[D], part[D], slope[D]; };

template <class A> DEV A along(const Sampling& p, int axis, A g, A& slope) {
  A n = A(p.size[axis]), last = n - A(1), scale = p.corners ? last / A(2) : n / A(2);
  A at = g * scale + last / A(2);
  slope = scale;
  if (p.padding == REFLECT) {
    A low = p.corners ? A(0) : A(-0.5), span = p.corners ? last : n;
    if (span == A(0)) { slope = A(0); return A(0); }
    at -= low;
    if (at < A(0)) { at = -at; slope = -slope; }
    A turns = m_floor(at / span);
    at -= turns * span;
    if (m_fmod(turns, A(2)) == A(1)) { at = span - at; slope = -slope; }
    at += low;
  }
  if (p.padding != ZEROS) {
    if (!(at > A(0) && at < last)) slope = A(0);
    if (at < A(0)) at = A(0); // NaN stays
    if (at > last) at = last;
  }
  return at;
}

// spot_of loads position i of an image.
template <class T, int D> DEV Spot<typename Compute<T>::type, D> spot_of(const Sampling& p, i64 image, u64 i) {
  typedef typename Compute<T>::type A;
  const T* grid = (const T*)p.grid + image * p.ts[0];
#pragma unroll
  for (int k = D - 1; k >= 0; k--) {
    u64 q = i / p.at[k];
    grid += (i64)(i - q * p.at[k]) * p.ts[1 + k];
    i = q;
  }
  Spot<A, D> s;
#pragma unroll
  for (int k = 0; k < D; k++) {
    A at = along<A>(p, k, get(grid[(D - 1 - k) * p.ts[1 + D]]), s.slope[k]);
    s.before[k] = p.nearest ? m_rint(at) : m_floor(at);
    s.part[k] = p.nearest ? A(0) : at - s.before[k];
  }
  return s;
}

// corner finds element k around a spot: its weight, and its offset by the strides; false if it is outside.
template <class A, int D> DEV bool corner(const Sampling& p, const Spot<A, D>& s, int k, const i64* strides, A& weight, i64& at) {
  weight = A(1);
  at = 0;
  bool inside = true;
#pragma unroll
  for (int i = 0; i < D; i++) {
    bool far = k >> (D - 1 - i) & 1;
    A e = far ? s.before[i] + A(1) : s.before[i];
    weight *= far ? s.part[i] : A(1) - s.part[i];
    if (!(e >= A(0) && e < A(p.size[i]))) inside = false;
    else at += (i64)e * strides[i];
  }
  return inside && !(p.nearest && k);
}

template <class T, int D> DEV void sampled(const Sampling& p) {
  typedef typename Compute<T>::type A;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  u64 place = i % p.places, rest = i / p.places, pieces = (p.channels + CHANNELS - 1) / CHANNELS;
  i64 image = rest / pieces;
  i32 first = (i32)(rest % pieces) * CHANNELS, to = first + CHANNELS < p.channels ? first + CHANNELS : p.channels;
  Spot<A, D> s = spot_of<T, D>(p, image, place);
  A w[1 << D];
  i64 at[1 << D];
  bool there[1 << D];
#pragma unroll
  for (int k = 0; k < 1 << D; k++) there[k] = corner<A, D>(p, s, k, p.xs + 2, w[k], at[k]);
  const T* x = (const T*)p.x + image * p.xs[0];
  T* out = (T*)p.out + ((u64)image * p.channels) * p.places + place;
  for (i32 c = first; c < to; c++) {
    A sum = A(0);
#pragma unroll
    for (int k = 0; k < 1 << D; k++)
      if (there[k]) sum += w[k] * get(x[c * p.xs[1] + at[k]]);
    put(out[c * p.places], sum);
  }
}

template <class T, int D> DEV void grid_slopes(const Sampling& p) {
  typedef typename Compute<T>::type A;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  u64 place = i % p.places, left = place;
  i64 image = i / p.places;
  A sums[D];
#pragma unroll
  for (int k = 0; k < D; k++) sums[k] = A(0);
  if (!p.nearest) {
    Spot<A, D> s = spot_of<T, D>(p, image, place);
    const T* g = (const T*)p.grad + image * p.gs[0];
#pragma unroll
    for (int k = D - 1; k >= 0; k--) {
      u64 q = left / p.at[k];
      g += (i64)(left - q * p.at[k]) * p.gs[2 + k];
      left = q;
    }
    const T* x = (const T*)p.x + image * p.xs[0];
#pragma unroll 1
    for (int k = 0; k < 1 << D; k++) {
      A w;
      i64 at;
      if (!corner<A, D>(p, s, k, p.xs + 2, w, at)) continue;
      A v = A(0);
      for (i32 c = 0; c < p.channels; c++) v += get(g[c * p.gs[1]]) * get(x[c * p.xs[1] + at]);
#pragma unroll
      for (int a = 0; a < D; a++) {
        A f = k >> (D - 1 - a) & 1 ? v : -v;
#pragma unroll
        for (int b = 0; b < D; b++)
          if (b != a) f *= k >> (D - 1 - b) & 1 ? s.part[b] : A(1) - s.part[b];
        sums[a] += f;
      }
    }
#pragma unroll
    for (int a = 0; a < D; a++) sums[a] = s.slope[a] == A(0) ? A(0) : sums[a] * s.slope[a];
  }
  T* out = (T*)p.out + i * D;
#pragma unroll
  for (int a = 0; a < D; a++) put(out[D - 1 - a], sums[a]);
}

// A warp adds the gradients of a channel of an image, 32 positions at a time. Where several
// of those hit the same element, the first lane adds them in order: there are no atomics, so
// bits repeat.
template <class T, int D> DEV void grid_transposed(const Sampling& p) {
  typedef typename Compute<T>::type A;
  u64 plane = (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  int lane = threadIdx.x & 31;
  if (plane >= p.n) return;
  i64 image = plane / p.channels, channel = plane % p.channels;
  A* sums = (A*)p.sums + plane * p.length;
  for (u64 i = lane; i < p.length; i += 32) sums[i] = A(0);
  __syncwarp();
  i64 strides[D];
  strides[D - 1] = 1;
#pragma unroll
  for (int k = D - 2; k >= 0; k--) strides[k] = strides[k + 1] * p.size[k + 1];
  const T* grad = (const T*)p.grad + image * p.gs[0] + channel * p.gs[1];
  for (u64 first = 0; first < p.places; first += 32) {
    u64 place = first + lane, left = place;
    bool there = place < p.places;
    Spot<A, D> s;
    A g = A(0);
    if (there) {
      s = spot_of<T, D>(p, image, place);
      i64 at = 0;
#pragma unroll
      for (int k = D - 1; k >= 0; k--) {
        u64 q = left / p.at[k];
        at += (i64)(left - q * p.at[k]) * p.gs[2 + k];
        left = q;
      }
      g = get(grad[at]);
    }
#pragma unroll 1
    for (int k = 0; k < 1 << D; k++) {
      A w = A(0);
      i64 at = -1;
      if (there && !corner<A, D>(p, s, k, strides, w, at)) at = -1;
      if (!there) at = -1;
      A mine = w * g, sum = A(0);
      bool leads = at >= 0;
#pragma unroll 2
      for (int j = 0; j < 32; j++) {
        i64 other = __shfl_sync(~0u, at, j);
        A v = __shfl_sync(~0u, mine, j);
        if (other != at) continue;
        if (j < lane) leads = false;
        else sum += v;
      }
      if (leads) sums[at] += sum;
      __syncwarp();
    }
  }
  if (p.sums == p.out) return;
  T* out = (T*)p.out + plane * p.length;
  for (u64 i = lane; i < p.length; i += 32) put(out[i], sums[i]);
}

#define GRID(T, D)                                                                                                                        \
  KERNEL __launch_bounds__(256) grid_sample_##D##_##T(const __grid_constant__ Sampling p) { sampled<T, D>(p); }                           \
  KERNEL __launch_bounds__(256) grid_sample_grad_grid_##D##_##T(const __grid_constant__ Sampling p) { grid_slopes<T, D>(p); }             \
  KERNEL __launch_bounds__(128) grid_sample_grad_input_##D##_##T(const __grid_constant__ Sampling p) { grid_transposed<T, D>(p); }
FLOAT_TYPES_WITH(GRID, 2)
FLOAT_TYPES_WITH(GRID, 3)
