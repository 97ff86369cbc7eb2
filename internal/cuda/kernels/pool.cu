// Pooling over windows of (N, C, H, W). Operands may have any strides; results are
// contiguous, or stored channels last. The gradients gather, one thread per element of the
// input, so they need no atomics and repeat exactly.
#include "locus.cuh"

struct Pool {
  void* out;
  const void *in, *grad;
  u64 n;                   // results
  i32 channels, h, w, oh, ow; // sizes of the forward op's input and result
  i32 kernel[2], stride[2], pad[2], dilation[2];
  i32 countPad, last; // last: the result is stored channels last
  i64 xs[4], gs[4]; // strides of in and grad
};



// best returns the position h·W+w of the first largest element of a window.
template <class T> DEV i32 best(const Pool& p, const T* image, i32 oy, i32 ox, typename Compute<T>::type& value) {
  typedef typename Compute<T>::type A;
  i32 at = -1;
  A m = A(0);
  for (i32 ky = 0; ky < p.kernel[0]; ky++) {
    i32 y = oy * p.stride[0] - p.pad[0] + ky * p.dilation[0];
    if (y < 0 || y >= p.h) continue;
    for (i32 kx = 0; kx < p.kernel[1]; kx++) {
      i32 x = ox * p.stride[1] - p.pad[1] + kx * p.dilation[1];
      if (x < 0 || x >= p.w) continue;
      A v = get(image[y * p.xs[2] + x * p.xs[3]]);
      if (at < 0 || (m == m && (v > m || v != v))) {
        m = v;
        at = y * p.w + x;
      }
    }
  }
  value = m;
  return at;
}

// In 32 bits where possible: 64-bit divisions take longer than the rest of a kernel.
struct Place { i32 ox, oy; i64 c, b; };
template <class U> DEV Place place_of(U i, u32 h, u32 w, u32 channels, bool last) {
  if (last) {
    U pixel = i / channels, line = pixel / w, image = line / h;
    return {(i32)(pixel - line * w), (i32)(line - image * h), (i64)(i - pixel * channels), (i64)image};
  }
  U line = i / w, plane = line / h, image = plane / channels;
  return {(i32)(i - line * w), (i32)(line - plane * h), (i64)(plane - image * channels), (i64)image};
}

#define PLACE(H, W)                                                                                                \
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;                                                              \
  if (i >= p.n) return;                                                                                            \
  Place at = p.n >> 32 ? place_of<u64>(i, H, W, p.channels, p.last) : place_of<u32>((u32)i, H, W, p.channels, p.last); \
  i32 ox = at.ox, oy = at.oy;                                                                                      \
  i64 c = at.c, b = at.b;

#define MAX_POOL(T)                                                                                   \
  KERNEL max_pool_##T(const __grid_constant__ Pool p) {                                               \
    PLACE(p.oh, p.ow)                                                                                 \
    Compute<T>::type v;                                                                               \
    best((p), (const T*)p.in + b * p.xs[0] + c * p.xs[1], oy, ox, v);                                 \
    put(((T*)p.out)[i], v);                                                                           \
  }                                                                                                   \
  KERNEL max_pool_indices_##T(const __grid_constant__ Pool p) {                                       \
    PLACE(p.oh, p.ow)                                                                                 \
    Compute<T>::type v;                                                                               \
    ((i64*)p.out)[i] = best((p), (const T*)p.in + b * p.xs[0] + c * p.xs[1], oy, ox, v);              \
  }
NUMBER_TYPES(MAX_POOL)

// covering sets first and last to the windows that cover position x of an axis.
DEV void covering(i32 x, i32 k, i32 s, i32 pad, i32 d, i32 out, i32& first, i32& last) {
  i32 lo = x + pad - d * (k - 1);
  first = lo <= 0 ? 0 : (lo + s - 1) / s;
  last = (x + pad) / s;
  if (last > out - 1) last = out - 1;
}

#define MAX_POOL_GRAD(T)                                                                                      \
  KERNEL max_pool_grad_##T(const __grid_constant__ Pool p) {                                                  \
    PLACE(p.h, p.w)                                                                                           \
    const T* image = (const T*)p.in + b * p.xs[0] + c * p.xs[1];                                              \
    const T* grad = (const T*)p.grad + b * p.gs[0] + c * p.gs[1];                                             \
    i32 y0, y1, x0, x1;                                                                                       \
    covering(oy, p.kernel[0], p.stride[0], p.pad[0], p.dilation[0], p.oh, y0, y1);                            \
    covering(ox, p.kernel[1], p.stride[1], p.pad[1], p.dilation[1], p.ow, x0, x1);                            \
    Compute<T>::type sum = 0, v;                                                                              \
    for (i32 y = y0; y <= y1; y++)                                                                            \
      for (i32 x = x0; x <= x1; x++)                                                                          \
        if (best(p, image, y, x, v) == oy * p.w + ox) sum += get(grad[y * p.gs[2] + x * p.gs[3]]);            \
    put(((T*)p.out)[i], sum);                                                                                 \
  }
FLOAT_TYPES(MAX_POOL_GRAD)

// The same where windows overlap: a block handles a tile of a plane. It finds the largest
// element of each window that touches the tile once, and then every position gathers from
// those. There is room for WINDOWS windows, which the host ensures is enough.
#define TILE_H 16
#define TILE_W 32
#define WINDOWS 1024
template <class T> DEV void max_pool_grad_tile(const Pool& p) {
  __shared__ i32 winner[WINDOWS];
  u32 across = (p.w + TILE_W - 1) / TILE_W, down = (p.h + TILE_H - 1) / TILE_H;
  u32 tile = blockIdx.x % (across * down);
  u64 plane = blockIdx.x / (across * down);
  i32 top = tile / across * TILE_H, left = tile % across * TILE_W;
  i64 c = plane % p.channels, b = plane / p.channels;
  const T* image = (const T*)p.in + b * p.xs[0] + c * p.xs[1];
  const T* grad = (const T*)p.grad + b * p.gs[0] + c * p.gs[1];
  i32 bottom = top + TILE_H < p.h ? top + TILE_H : p.h, right = left + TILE_W < p.w ? left + TILE_W : p.w;
  i32 y0, y1, x0, x1, skip;
  covering(top, p.kernel[0], p.stride[0], p.pad[0], p.dilation[0], p.oh, y0, skip);
  covering(bottom - 1, p.kernel[0], p.stride[0], p.pad[0], p.dilation[0], p.oh, skip, y1);
  covering(left, p.kernel[1], p.stride[1], p.pad[1], p.dilation[1], p.ow, x0, skip);
  covering(right - 1, p.kernel[1], p.stride[1], p.pad[1], p.dilation[1], p.ow, skip, x1);
  i32 wide = x1 - x0 + 1, windows = (y1 - y0 + 1) * wide;
  typename Compute<T>::type v;
  for (i32 k = threadIdx.x; k < windows; k += blockDim.x) winner[k] = best(p, image, y0 + k / wide, x0 + k % wide, v);
  __syncthreads();
  for (i32 k = threadIdx.x; k < TILE_H * TILE_W; k += blockDim.x) {
    i32 oy = top + k / TILE_W, ox = left + k % TILE_W;
    if (oy >= p.h || ox >= p.w) continue;
    i32 ya, yb, xa, xb;
    covering(oy, p.kernel[0], p.stride[0], p.pad[0], p.dilation[0], p.oh, ya, yb);
    covering(ox, p.kernel[1], p.stride[1], p.pad[1], p.dilation[1], p.ow, xa, xb);
    typename Compute<T>::type sum = 0;
    for (i32 y = ya; y <= yb; y++)
      for (i32 x = xa; x <= xb; x++)
        if (winner[(y - y0) * wide + x - x0] == oy * p.w + ox) sum += get(grad[y * p.gs[2] + x * p.gs[3]]);
    put(((T*)p.out)[(plane * p.h + oy) * p.w + ox], sum);
  }
}
#define MAX_POOL_GRAD_TILE(T) KERNEL __launch_bounds__(256) max_pool_grad_tile_##T(const __grid_constant__ Pool p) { max_pool_grad_tile<T>(p); }
FLOAT_TYPES(MAX_POOL_GRAD_TILE)

// The same where windows lie side by side, as most do: a thread takes a window, reads it
// and its gradient once, and writes the window's places, and what is left over at the
// right and below gets 0. PAIR: windows of 2×2, of which rows can be loaded and stored
// at once.
template <class T, bool PAIR> DEV void max_pool_grad_apart(const Pool& p) {
  typedef typename Compute<T>::type A;
  i32 kh = PAIR ? 2 : p.kernel[0], kw = PAIR ? 2 : p.kernel[1];
  PLACE((p.h + kh - 1) / kh, (p.w + kw - 1) / kw)
  bool window = oy < p.oh && ox < p.ow;
  const T* image = (const T*)p.in + b * p.xs[0] + c * p.xs[1];
  T* out = (T*)p.out + (b * p.channels + c) * p.h * p.w;
  T g;
  put(g, window ? get(((const T*)p.grad)[b * p.gs[0] + c * p.gs[1] + oy * p.gs[2] + ox * p.gs[3]]) : A(0));
  T none;
  put(none, A(0));
  if (PAIR) { // w is even, so only the last row can be alone
    Vec<T, 2> r[2];
    i32 won = 0;
    bool two = 2 * oy + 1 < p.h;
    if (window) {
      r[0] = *(const Vec<T, 2>*)(image + 2 * oy * p.xs[2] + 2 * ox);
      r[1] = two ? *(const Vec<T, 2>*)(image + (2 * oy + 1) * p.xs[2] + 2 * ox) : r[0];
      A m = get(r[0].v[0]);
#pragma unroll
      for (int k = 1; k < 4; k++) {
        A v = get(r[k >> 1].v[k & 1]);
        if (m == m && (v > m || v != v)) { // not where both rows are one: the first counts
          m = v;
          won = k;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) r[k >> 1].v[k & 1] = won == k ? g : none;
    *(Vec<T, 2>*)(out + 2 * oy * p.w + 2 * ox) = r[0];
    if (two) *(Vec<T, 2>*)(out + (2 * oy + 1) * p.w + 2 * ox) = r[1];
    return;
  }
  A v;
  i32 won = window ? best(p, image, oy, ox, v) : -1;
  for (i32 y = oy * kh; y < oy * kh + kh && y < p.h; y++)
    for (i32 x = ox * kw; x < ox * kw + kw && x < p.w; x++) out[y * p.w + x] = y * p.w + x == won ? g : none;
}
#define MAX_POOL_GRAD_APART(T)                                                                                     \
  KERNEL max_pool_grad_apart_##T(const __grid_constant__ Pool p) { max_pool_grad_apart<T, false>(p); }             \
  KERNEL max_pool_grad_pairs_##T(const __grid_constant__ Pool p) { max_pool_grad_apart<T, true>(p); }
FLOAT_TYPES(MAX_POOL_GRAD_APART)

// The gradient in two steps: first the tap of the largest element of each window, then every
// position gathers from the windows that cover it. A thread handles N channels, which are
// adjacent if N is more than 1; channels counts groups of N.
template <class T, int N> DEV void winners(const Pool& p, i32 oy, i32 ox, const T* image, typename Compute<T>::type* most, u8* tap) {
  typedef typename Compute<T>::type A;
  bool any = false;
#pragma unroll
  for (int j = 0; j < N; j++) { // for a window that is all padding
    most[j] = A(0);
    tap[j] = 255;
  }
  for (i32 ky = 0, k = 0; ky < p.kernel[0]; ky++) {
    i32 y = oy * p.stride[0] - p.pad[0] + ky * p.dilation[0];
    if (y < 0 || y >= p.h) {
      k += p.kernel[1];
      continue;
    }
    for (i32 kx = 0; kx < p.kernel[1]; kx++, k++) {
      i32 x = ox * p.stride[1] - p.pad[1] + kx * p.dilation[1];
      if (x < 0 || x >= p.w) continue;
      Vec<T, N> v = *(const Vec<T, N>*)(image + y * p.xs[2] + x * p.xs[3]);
#pragma unroll
      for (int j = 0; j < N; j++) {
        A a = get(v.v[j]);
        if (!any || (most[j] == most[j] && (a > most[j] || a != a))) {
          most[j] = a;
          tap[j] = k;
        }
      }
      any = true;
    }
  }
}

template <class T, int N> DEV void max_pool_wide(const Pool& p) {
  PLACE(p.oh, p.ow)
  typename Compute<T>::type most[N];
  u8 tap[N];
  winners<T, N>(p, oy, ox, (const T*)p.in + b * p.xs[0] + c * N * p.xs[1], most, tap);
  Vec<T, N> r;
#pragma unroll
  for (int j = 0; j < N; j++) put(r.v[j], most[j]);
  ((Vec<T, N>*)p.out)[i] = r;
}

template <class T, int N> DEV void max_pool_winners(const Pool& p) {
  PLACE(p.oh, p.ow)
  typename Compute<T>::type most[N];
  Vec<u8, N> r;
  winners<T, N>(p, oy, ox, (const T*)p.in + b * p.xs[0] + c * N * p.xs[1], most, r.v);
  ((Vec<u8, N>*)p.out)[i] = r;
}

// Here p.in holds the winning taps, in the order of the windows.
template <class T, int N> DEV void max_pool_won(const Pool& p) {
  typedef typename Compute<T>::type A;
  PLACE(p.h, p.w)
  const T* grad = (const T*)p.grad + b * p.gs[0] + c * N * p.gs[1];
  i32 y0, y1, x0, x1;
  covering(oy, p.kernel[0], p.stride[0], p.pad[0], p.dilation[0], p.oh, y0, y1);
  covering(ox, p.kernel[1], p.stride[1], p.pad[1], p.dilation[1], p.ow, x0, x1);
  A sum[N];
#pragma unroll
  for (int j = 0; j < N; j++) sum[j] = A(0);
  for (i32 y = y0; y <= y1; y++) {
    i32 ky = oy + p.pad[0] - y * p.stride[0];
    if (p.dilation[0] > 1) {
      if (ky % p.dilation[0]) continue;
      ky /= p.dilation[0];
    }
    for (i32 x = x0; x <= x1; x++) {
      i32 kx = ox + p.pad[1] - x * p.stride[1];
      if (p.dilation[1] > 1) {
        if (kx % p.dilation[1]) continue;
        kx /= p.dilation[1];
      }
      i64 window = p.last ? ((b * p.oh + y) * p.ow + x) * p.channels + c : ((b * p.channels + c) * p.oh + y) * p.ow + x;
      Vec<u8, N> w = ((const Vec<u8, N>*)p.in)[window];
      Vec<T, N> g = *(const Vec<T, N>*)(grad + y * p.gs[2] + x * p.gs[3]);
      u8 tap = ky * p.kernel[1] + kx;
#pragma unroll
      for (int j = 0; j < N; j++)
        if (w.v[j] == tap) sum[j] += get(g.v[j]);
    }
  }
  Vec<T, N> r;
#pragma unroll
  for (int j = 0; j < N; j++) put(r.v[j], sum[j]);
  ((Vec<T, N>*)p.out)[i] = r;
}
#define MAX_POOL_WIDE(T)                                                                                           \
  KERNEL max_pool_wide_##T(const __grid_constant__ Pool p) { max_pool_wide<T, LANES(T)>(p); }                      \
  KERNEL max_pool_winners_##T(const __grid_constant__ Pool p) { max_pool_winners<T, 1>(p); }                       \
  KERNEL max_pool_winners_wide_##T(const __grid_constant__ Pool p) { max_pool_winners<T, LANES(T)>(p); }           \
  KERNEL max_pool_won_##T(const __grid_constant__ Pool p) { max_pool_won<T, 1>(p); }                               \
  KERNEL max_pool_won_wide_##T(const __grid_constant__ Pool p) { max_pool_won<T, LANES(T)>(p); }
FLOAT_TYPES(MAX_POOL_WIDE)

// counted returns the number of elements that a window's mean is over.
DEV i32 counted(const Pool& p, i32 oy, i32 ox) {
  if (p.countPad) return p.kernel[0] * p.kernel[1];
  i32 y0 = oy * p.stride[0] - p.pad[0], x0 = ox * p.stride[1] - p.pad[1];
  i32 y1 = y0 + p.kernel[0], x1 = x0 + p.kernel[1];
  if (y0 < 0) y0 = 0;
  if (x0 < 0) x0 = 0;
  if (y1 > p.h) y1 = p.h;
  if (x1 > p.w) x1 = p.w;
  return (y1 - y0) * (x1 - x0);
}

#define AVG_POOL(T)                                                                                           \
  KERNEL avg_pool_##T(const __grid_constant__ Pool p) {                                                       \
    PLACE(p.oh, p.ow)                                                                                         \
    const T* image = (const T*)p.in + b * p.xs[0] + c * p.xs[1];                                              \
    Compute<T>::type sum = 0;                                                                                 \
    for (i32 ky = 0; ky < p.kernel[0]; ky++)                                                                  \
      for (i32 kx = 0; kx < p.kernel[1]; kx++) {                                                              \
        i32 y = oy * p.stride[0] - p.pad[0] + ky, x = ox * p.stride[1] - p.pad[1] + kx;                       \
        if (y >= 0 && y < p.h && x >= 0 && x < p.w) sum += get(image[y * p.xs[2] + x * p.xs[3]]);             \
      }                                                                                                       \
    put(((T*)p.out)[i], sum / (Compute<T>::type)counted(p, oy, ox));                                          \
  }                                                                                                           \
  KERNEL avg_pool_grad_##T(const __grid_constant__ Pool p) {                                                  \
    PLACE(p.h, p.w)                                                                                           \
    const T* grad = (const T*)p.grad + b * p.gs[0] + c * p.gs[1];                                             \
    i32 y0, y1, x0, x1;                                                                                       \
    covering(oy, p.kernel[0], p.stride[0], p.pad[0], 1, p.oh, y0, y1);                                        \
    covering(ox, p.kernel[1], p.stride[1], p.pad[1], 1, p.ow, x0, x1);                                        \
    Compute<T>::type sum = 0;                                                                                 \
    for (i32 y = y0; y <= y1; y++)                                                                            \
      for (i32 x = x0; x <= x1; x++)                                                                          \
        sum += get(grad[y * p.gs[2] + x * p.gs[3]]) / (Compute<T>::type)counted(p, y, x);                     \
    put(((T*)p.out)[i], sum);                                                                                 \
  }
FLOAT_TYPES(AVG_POOL)
