// Convolutions as matrix products whose operands are read where they lie: no
// image is unfolded in memory. With the layouts of internal/op/conv.go, and for each
// group:
//
//	forward  (m: output channel)  × (n: image, y, x)    over k: channel, ky, kx
//	input    (m: input channel)   × (n: image, y, x)    over k: output channel, ky, kx
//	weight   (m: output channel)  × (n: channel, ky, kx) over k: image, y, x
//
// Where a step of BK along k stays within one tap, that is if BK divides the
// channels, k counts the taps first (BY_TAP): then a thread finds its pixel once a step
// and its loads differ by the channel alone.
//
// The weight is contiguous; the others may have any strides.
#include "gemm.cuh"

struct Div { u32 d, mul, shr; };
DEV u32 quotient(u32 x, const Div& v) { return quotient(x, v.mul, v.shr); }

struct Conv {
  const void *x, *w, *g; // input, weight and gradient, those that the op has
  void *out, *partial;   // partial: sums [splits][results] if k is split
  i64 xs[4], gs[4];
  i32 m, n, k, chunk, splits, total; // total: results of all groups
  i32 cin, cout;      // channels of a group
  i32 channels, outputs; // of all groups
  i32 h, wd, oh, ow;
  i32 stride[2], pad[2], dilation[2];
  Div taps, kw, pixels, row; // KH·KW, KW; pixels and row of what n (weight: k) counts
  Div strideY, strideX;
};

enum { FORWARD, INPUT, WEIGHT };

// One element of a gathered operand: rows of threads along i, or along k.
template <class T, int B, bool ALONG_K> struct Picked {
  enum { E = B * BK / GEMM_THREADS };
  METHOD int i(int e) const { return ALONG_K ? threadIdx.x / BK + e * (GEMM_THREADS / BK) : threadIdx.x % B; }
  METHOD int k(int e) const { return ALONG_K ? threadIdx.x % BK : threadIdx.x / B + e * (GEMM_THREADS / B); }
  template <class C> METHOD void keep(const T* r, C (*tile)[B + 4]) const {
#pragma unroll
    for (int e = 0; e < E; e++) tile[k(e)][i(e)] = (C)get(r[e]);
  }
};

template <class T, int KIND, int BM, int BN, bool BY_TAP> DEV void conv(const Conv& p) {
  typedef typename Compute<T>::type C;
  __shared__ __align__(16) char room[sizeof(Tiles<C, BM, BN>)];
  Tiles<C, BM, BN>& tiles = *(Tiles<C, BM, BN>*)room;
  i32 tilesM = (p.m + BM - 1) / BM;
  i32 m0 = blockIdx.x % tilesM * BM, n0 = blockIdx.x / tilesM * BN, group = blockIdx.y, split = blockIdx.z;
  i32 begin = split * p.chunk, end = begin + p.chunk < p.k ? begin + p.chunk : p.k;
  Picked<T, BM, true> pa;
  Picked<T, BN, KIND == WEIGHT> pb;
  const T* w = (const T*)p.w;
  const T* x = (const T*)p.x + (i64)group * p.cin * p.xs[1];
  const T* g = (const T*)p.g + (i64)group * p.cout * p.gs[1];

  // What does not change along k: the pixel of this thread's column.
  i32 n = n0 + pb.i(0), image = 0, py = 0, px = 0;
  if (KIND != WEIGHT && n < p.n) {
    image = quotient(n, p.pixels);
    i32 pixel = n - image * p.pixels.d;
    py = quotient(pixel, p.row);
    px = pixel - py * p.row.d;
    if (KIND == FORWARD) {
      py = py * p.stride[0] - p.pad[0];
      px = px * p.stride[1] - p.pad[1];
      x += image * p.xs[0];
    } else {
      py += p.pad[0];
      px += p.pad[1];
      g += image * p.gs[0];
    }
  }

  // And for a weight's gradient: the tap of each of this thread's columns.
  enum { COLS = KIND == WEIGHT ? BN * BK / GEMM_THREADS : 1 };
  i32 tapY[COLS], tapX[COLS];
  const T* column[COLS];
  if (KIND == WEIGHT) {
#pragma unroll
    for (int e = 0; e < COLS; e++) {
      i32 col = n0 + pb.i(e);
      i32 c = quotient(col, p.taps), tap = col - c * p.taps.d, ky = quotient(tap, p.kw), kx = tap - ky * p.kw.d;
      tapY[e] = col < p.n ? ky * p.dilation[0] - p.pad[0] : -0x40000000; // below every image
      tapX[e] = kx * p.dilation[1] - p.pad[1];
      column[e] = x + c * p.xs[1];
    }
  }

  auto fetchA = [&](i32 k0, T* r) {
    if (BY_TAP) { // BK divides k, so no step reaches beyond it
      i32 channels = KIND == FORWARD ? p.cin : p.cout, tap = k0 / channels, c0 = k0 - tap * channels;
#pragma unroll
      for (int e = 0; e < BM * BK / GEMM_THREADS; e++) {
        i32 m = m0 + pa.i(e), c = c0 + pa.k(e);
        r[e] = T();
        if (m < p.m) r[e] = w[(KIND == FORWARD ? ((i64)group * p.m + m) * p.cin + c : ((i64)group * p.cout + c) * p.m + m) * p.taps.d + tap];
      }
    } else
#pragma unroll
    for (int e = 0; e < BM * BK / GEMM_THREADS; e++) {
      i32 m = m0 + pa.i(e), k = k0 + pa.k(e);
      r[e] = T();
      if (m >= p.m || k >= end) continue;
      if (KIND == FORWARD) r[e] = w[((i64)group * p.m + m) * p.k + k];
      if (KIND == INPUT) {
        i32 o = quotient(k, p.taps), tap = k - o * p.taps.d;
        r[e] = w[(((i64)group * p.cout + o) * p.m + m) * p.taps.d + tap];
      }
      if (KIND == WEIGHT) {
        i32 b = quotient(k, p.pixels), pixel = k - b * p.pixels.d, y = quotient(pixel, p.row), z = pixel - y * p.row.d;
        r[e] = g[b * p.gs[0] + m * p.gs[1] + y * p.gs[2] + z * p.gs[3]];
      }
    }
  };
  auto fetchB = [&](i32 k0, T* r) {
    if (BY_TAP) {
      i32 channels = KIND == FORWARD ? p.cin : p.cout, tap = k0 / channels, c0 = k0 - tap * channels;
      i32 ky = quotient(tap, p.kw), kx = tap - ky * p.kw.d, y, z;
      bool in = n < p.n;
      if (KIND == FORWARD) {
        y = py + ky * p.dilation[0];
        z = px + kx * p.dilation[1];
        in = in && (u32)y < (u32)p.h && (u32)z < (u32)p.wd;
      } else {
        i32 fromY = py - ky * p.dilation[0], fromX = px - kx * p.dilation[1];
        y = quotient(fromY, p.strideY);
        z = quotient(fromX, p.strideX);
        in = in && fromY >= 0 && fromX >= 0 && y * p.stride[0] == fromY && z * p.stride[1] == fromX && y < p.oh && z < p.ow;
      }
      const i64* s = KIND == FORWARD ? p.xs : p.gs;
      const T* at = (KIND == FORWARD ? x : g) + (c0 + pb.k(0)) * s[1] + y * s[2] + z * s[3];
#pragma unroll
      for (int e = 0; e < BN * BK / GEMM_THREADS; e++) {
        r[e] = T();
        if (in) r[e] = at[(pb.k(e) - pb.k(0)) * s[1]];
      }
    } else if (KIND == WEIGHT) {
      i32 k = k0 + pb.k(0); // the same for all e
      i32 b = quotient(k, p.pixels), pixel = k - b * p.pixels.d, oy = quotient(pixel, p.row), ox = pixel - oy * p.row.d;
      oy *= p.stride[0];
      ox *= p.stride[1];
#pragma unroll
      for (int e = 0; e < COLS; e++) {
        i32 y = oy + tapY[e], z = ox + tapX[e];
        r[e] = T();
        if (k < end && (u32)y < (u32)p.h && (u32)z < (u32)p.wd) r[e] = column[e][b * p.xs[0] + y * p.xs[2] + z * p.xs[3]];
      }
    } else
#pragma unroll
    for (int e = 0; e < BN * BK / GEMM_THREADS; e++) {
      i32 k = k0 + pb.k(e);
      r[e] = T();
      if (n >= p.n || k >= end) continue;
      i32 c = quotient(k, p.taps), tap = k - c * p.taps.d, ky = quotient(tap, p.kw), kx = tap - ky * p.kw.d;
      if (KIND == FORWARD) {
        i32 y = py + ky * p.dilation[0], z = px + kx * p.dilation[1];
        if ((u32)y < (u32)p.h && (u32)z < (u32)p.wd) r[e] = x[c * p.xs[1] + y * p.xs[2] + z * p.xs[3]];
      } else {
        i32 y = py - ky * p.dilation[0], z = px - kx * p.dilation[1];
        if (y < 0 || z < 0) continue;
        i32 oy = quotient(y, p.strideY), ox = quotient(z, p.strideX);
        if (oy * p.stride[0] == y && ox * p.stride[1] == z && oy < p.oh && ox < p.ow) r[e] = g[c * p.gs[1] + oy * p.gs[2] + ox * p.gs[3]];
      }
    }
  };
  Sums<C, BM, BN> acc;
  multiply<T>(tiles, acc, begin, end, fetchA, [&](const T* r, C(*t)[BM + 4]) { pa.keep(r, t); }, fetchB, [&](const T* r, C(*t)[BN + 4]) { pb.keep(r, t); });
#pragma unroll
  for (int j = 0; j < BN / 16; j++) {
    i32 col = n0 + acc.col(j);
    if (col >= p.n) continue;
    i64 base;
    i64 step; // from one m to the next
    if (KIND == WEIGHT) {
      base = (i64)group * p.m * p.n + col;
      step = p.n;
    } else {
      i32 b = quotient(col, p.pixels), pixel = col - b * p.pixels.d;
      step = p.pixels.d;
      base = ((i64)b * (KIND == FORWARD ? p.outputs : p.channels) + (i64)group * p.m) * step + pixel;
    }
#pragma unroll
    for (int i = 0; i < BM / 16; i++) {
      i32 m = m0 + acc.row(i);
      if (m >= p.m) continue;
      i64 at = base + m * step;
      if (p.splits > 1) ((C*)p.partial)[(i64)split * p.total + at] = acc.v[i][j];
      else put(((T*)p.out)[at], acc.v[i][j]);
    }
  }
}

#define CONV(T, BM, BN)                                                                                                                             \
  KERNEL __launch_bounds__(GEMM_THREADS, 2) conv2d_##BM##_##T(const __grid_constant__ Conv p) { conv<T, FORWARD, BM, BN, false>(p); }               \
  KERNEL __launch_bounds__(GEMM_THREADS, 2) conv2d_by_tap_##BM##_##T(const __grid_constant__ Conv p) { conv<T, FORWARD, BM, BN, true>(p); }         \
  KERNEL __launch_bounds__(GEMM_THREADS, 2) conv2d_grad_input_##BM##_##T(const __grid_constant__ Conv p) { conv<T, INPUT, BM, BN, false>(p); }      \
  KERNEL __launch_bounds__(GEMM_THREADS, 2) conv2d_grad_input_by_tap_##BM##_##T(const __grid_constant__ Conv p) { conv<T, INPUT, BM, BN, true>(p); } \
  KERNEL __launch_bounds__(GEMM_THREADS, 2) conv2d_grad_weight_##BM##_##T(const __grid_constant__ Conv p) { conv<T, WEIGHT, BM, BN, false>(p); }
CONV(f32, 64, 128) CONV(f16, 64, 128) CONV(bf16, 64, 128) CONV(f64, 64, 64)
CONV(f32, 128, 128) CONV(f16, 128, 128) CONV(bf16, 128, 128)

// The gradient of an input of few channels, which would leave most rows of a tile
// empty: a thread makes all channels of one pixel, from the taps that reach it.
enum { FEW = 4 };
template <class T> DEV void few(const Conv& p) {
  typedef typename Compute<T>::type C;
  i32 n = blockIdx.x * blockDim.x + threadIdx.x, group = blockIdx.y;
  if (n >= p.n) return;
  i32 image = quotient(n, p.pixels), pixel = n - image * p.pixels.d;
  i32 py = quotient(pixel, p.row), px = pixel - py * p.row.d;
  const T* w = (const T*)p.w + (i64)group * p.cout * p.m * p.taps.d;
  const T* g = (const T*)p.g + (i64)group * p.cout * p.gs[1] + image * p.gs[0];
  i32 kh = p.taps.d / p.kw.d, kw = p.kw.d;
  C sum[FEW] = {};
  for (i32 ky = 0; ky < kh; ky++) {
    i32 y = py + p.pad[0] - ky * p.dilation[0];
    if (y < 0) break;
    i32 oy = quotient(y, p.strideY);
    if (oy * p.stride[0] != y || oy >= p.oh) continue;
    for (i32 kx = 0; kx < kw; kx++) {
      i32 x = px + p.pad[1] - kx * p.dilation[1];
      if (x < 0) break;
      i32 ox = quotient(x, p.strideX);
      if (ox * p.stride[1] != x || ox >= p.ow) continue;
      const T* at = g + oy * p.gs[2] + ox * p.gs[3];
      const T* tap = w + ky * kw + kx;
      for (i32 o = 0; o < p.cout; o++, at += p.gs[1], tap += (i64)p.m * p.taps.d) {
        C v = (C)get(*at);
#pragma unroll
        for (int c = 0; c < FEW; c++)
          if (c < p.m) sum[c] += v * (C)get(tap[c * p.taps.d]);
      }
    }
  }
  T* out = (T*)p.out + ((i64)image * p.channels + (i64)group * p.m) * p.pixels.d + pixel;
#pragma unroll
  for (int c = 0; c < FEW; c++)
    if (c < p.m) put(out[(i64)c * p.pixels.d], sum[c]);
}

#define FEW_CHANNELS(T) KERNEL conv2d_grad_input_few_##T(const __grid_constant__ Conv p) { few<T>(p); }
FEW_CHANNELS(f32) FEW_CHANNELS(f16) FEW_CHANNELS(bf16) FEW_CHANNELS(f64)
