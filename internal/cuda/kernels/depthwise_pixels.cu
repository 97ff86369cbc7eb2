// Depthwise convolutions of images that are stored channels last, and their gradients. A
// thread handles N adjacent channels of one pixel after another; what adjacent pixels read
// again comes from the caches. Filters are stored as (C, 1, KH, KW).
#include "arrive.cuh"
#include "pixels.cuh"

#define DEPTH_TAPS 25 // the most that a filter has

struct Depth {
  void* out;
  const void *x, *w, *g;             // x and w, g and w, or g and x
  void* partial;                     // [chunks][channels][taps], for the gradient of the filters
  u32* arrived;                      // 0 between launches
  u64 pixels, chunk;                 // that are computed or summed: in all, and by a block
  i64 xs[3], gs[3], os[3];           // strides: image, row, pixel
  i32 channels, h, w_, oh, ow;
  i32 kernel[2], stride[2], pad[2], dilation[2];
  i32 chunks, wide;
};

struct Pixel { i32 x, y; i64 b; };
DEV Pixel pixel_of(u64 i, u32 h, u32 w) {
  if (i >> 32) {
    u64 line = i / w, image = line / h;
    return {(i32)(i - line * w), (i32)(line - image * h), (i64)image};
  }
  u32 line = (u32)i / w, image = line / h;
  return {(i32)((u32)i - line * w), (i32)(line - image * h), (i64)image};
}

// filters copies a block's filters to shared memory, tap by tap.
template <class T, int N> DEV void filters(const Depth& p, typename Compute<T>::type* room) {
  i32 taps = p.kernel[0] * p.kernel[1], columns = p.wide * N;
  for (i32 i = threadIdx.x; i < taps * columns; i += PIXEL_THREADS) {
    i32 c = blockIdx.y * columns + i / taps, k = i % taps;
    if (c < p.channels) room[k * columns + i / taps] = get(((const T*)p.w)[(i64)c * taps + k]);
  }
  __syncthreads();
}

template <class T, int N> DEV void depth_forward(const Depth& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[DEPTH_TAPS * 32 * N];
  filters<T, N>(p, room);
  Spot<N> at(p.wide, p.channels, blockIdx.y);
  if (!at.mine) return;
  u64 begin = blockIdx.x * p.chunk, end = begin + p.chunk < p.pixels ? begin + p.chunk : p.pixels;
  for (u64 i = begin + at.ty; i < end; i += at.down) {
    Pixel o = pixel_of(i, p.oh, p.ow);
    const T* x = (const T*)p.x + o.b * p.xs[0] + at.channel;
    A sum[N];
#pragma unroll
    for (int j = 0; j < N; j++) sum[j] = A(0);
    for (i32 ky = 0, k = 0; ky < p.kernel[0]; ky++) {
      i32 y = o.y * p.stride[0] - p.pad[0] + ky * p.dilation[0];
      if (y < 0 || y >= p.h) {
        k += p.kernel[1];
        continue;
      }
#pragma unroll 3
      for (i32 kx = 0; kx < p.kernel[1]; kx++, k++) {
        i32 xx = o.x * p.stride[1] - p.pad[1] + kx * p.dilation[1];
        if (xx < 0 || xx >= p.w_) continue;
        Vec<T, N> v = *(const Vec<T, N>*)(x + y * p.xs[1] + xx * p.xs[2]);
#pragma unroll
        for (int j = 0; j < N; j++) sum[j] += get(v.v[j]) * room[(k * p.wide + at.tx) * N + j];
      }
    }
    Vec<T, N> r;
#pragma unroll
    for (int j = 0; j < N; j++) put(r.v[j], sum[j]);
    *(Vec<T, N>*)((T*)p.out + o.b * p.os[0] + o.y * p.os[1] + o.x * p.os[2] + at.channel) = r;
  }
}

// reader finds the result whose first tap reads index t of the padded axis; false if none does.
DEV bool reader(i32 t, i32 stride, i32 out, i32& o) {
  if (t < 0) return false;
  if (stride == 1) o = t;
  else if (stride == 2) {
    if (t & 1) return false;
    o = t >> 1;
  } else {
    o = t / stride;
    if (o * stride != t) return false;
  }
  return o < out;
}

template <class T, int N> DEV void depth_grad_input(const Depth& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[DEPTH_TAPS * 32 * N];
  filters<T, N>(p, room);
  Spot<N> at(p.wide, p.channels, blockIdx.y);
  if (!at.mine) return;
  u64 begin = blockIdx.x * p.chunk, end = begin + p.chunk < p.pixels ? begin + p.chunk : p.pixels;
  for (u64 i = begin + at.ty; i < end; i += at.down) {
    Pixel o = pixel_of(i, p.h, p.w_);
    const T* g = (const T*)p.g + o.b * p.gs[0] + at.channel;
    A sum[N];
#pragma unroll
    for (int j = 0; j < N; j++) sum[j] = A(0);
    for (i32 ky = 0, k = 0; ky < p.kernel[0]; ky++) {
      i32 y, x;
      if (!reader(o.y + p.pad[0] - ky * p.dilation[0], p.stride[0], p.oh, y)) {
        k += p.kernel[1];
        continue;
      }
#pragma unroll 3
      for (i32 kx = 0; kx < p.kernel[1]; kx++, k++) {
        if (!reader(o.x + p.pad[1] - kx * p.dilation[1], p.stride[1], p.ow, x)) continue;
        Vec<T, N> v = *(const Vec<T, N>*)(g + y * p.gs[1] + x * p.gs[2]);
#pragma unroll
        for (int j = 0; j < N; j++) sum[j] += get(v.v[j]) * room[(k * p.wide + at.tx) * N + j];
      }
    }
    Vec<T, N> r;
#pragma unroll
    for (int j = 0; j < N; j++) put(r.v[j], sum[j]);
    *(Vec<T, N>*)((T*)p.out + o.b * p.os[0] + o.y * p.os[1] + o.x * p.os[2] + at.channel) = r;
  }
}

// The gradient of K taps from tap blockIdx.z·K on: a row of the filter at a time, so that the
// gradient of the result is loaded once for all of them.
template <class T, int N, int K> DEV void depth_grad_weight(const Depth& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[PIXEL_THREADS * N];
  Spot<N> at(p.wide, p.channels, blockIdx.x);
  i32 taps = p.kernel[0] * p.kernel[1], columns = p.wide * N, tap = blockIdx.z * K;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.pixels ? begin + p.chunk : p.pixels;
  A sum[K][N];
#pragma unroll
  for (int k = 0; k < K; k++)
#pragma unroll
    for (int j = 0; j < N; j++) sum[k][j] = A(0);
  if (at.mine)
    for (u64 i = begin + at.ty; i < end; i += at.down) {
      Pixel o = pixel_of(i, p.oh, p.ow);
      Vec<T, N> g = *(const Vec<T, N>*)((const T*)p.g + o.b * p.gs[0] + o.y * p.gs[1] + o.x * p.gs[2] + at.channel);
      const T* x = (const T*)p.x + o.b * p.xs[0] + at.channel;
#pragma unroll
      for (int k = 0; k < K; k++) {
        i32 ky = (tap + k) / p.kernel[1], kx = tap + k - ky * p.kernel[1];
        i32 y = o.y * p.stride[0] - p.pad[0] + ky * p.dilation[0], xx = o.x * p.stride[1] - p.pad[1] + kx * p.dilation[1];
        if (y < 0 || y >= p.h || xx < 0 || xx >= p.w_) continue;
        Vec<T, N> v = *(const Vec<T, N>*)(x + y * p.xs[1] + xx * p.xs[2]);
#pragma unroll
        for (int j = 0; j < N; j++) sum[k][j] += get(g.v[j]) * get(v.v[j]);
      }
    }
  i32 c = blockIdx.x * columns + which<N>(p.wide);
  bool own = (i32)threadIdx.x < columns && c < p.channels;
  A* partial = (A*)p.partial;
#pragma unroll 1
  for (int k = 0; k < K; k++) {
    A one[N];
#pragma unroll
    for (int j = 0; j < N; j++) one[j] = A(0);
#pragma unroll
    for (int q = 0; q < K; q++) // unrolled, so that sum stays in registers
#pragma unroll
      for (int j = 0; j < N; j++)
        if (q == k) one[j] = sum[q][j];
    A s = over_rows<A, N>(p.wide, one, room);
    if (own) partial[((u64)blockIdx.y * taps + tap + k) * p.channels + c] = s;
  }
  if (!last(p.arrived + blockIdx.z * gridDim.x, p.chunks)) return;
  i32 part = threadIdx.x / columns, parts = PIXEL_THREADS / columns;
#pragma unroll 1
  for (int k = 0; k < K; k++) {
    A s = A(0);
    if (c < p.channels) each_partial(partial + (u64)(tap + k) * p.channels + c, (u64)taps * p.channels, p.chunks, part, parts, [&](i32, A v) { s += v; });
    s = over_parts<A, N>(p.wide, s, room);
    if (own) put(((T*)p.out)[(i64)c * taps + tap + k], s);
  }
}

#define DEPTH(T, S, N)                                                                                                                   \
  KERNEL __launch_bounds__(512) depth_forward##S##_##T(const __grid_constant__ Depth p) { depth_forward<T, N>(p); }                      \
  KERNEL __launch_bounds__(512) depth_grad_input##S##_##T(const __grid_constant__ Depth p) { depth_grad_input<T, N>(p); }                \
  KERNEL __launch_bounds__(512) depth_grad_weight##S##_##T(const __grid_constant__ Depth p) { depth_grad_weight<T, N, 1>(p); }           \
  KERNEL __launch_bounds__(512) depth_grad_weight_rows##S##_##T(const __grid_constant__ Depth p) { depth_grad_weight<T, N, 3>(p); }
#define BOTH(T) DEPTH(T, , 1) DEPTH(T, _wide, LANES(T))
FLOAT_TYPES(BOTH)
