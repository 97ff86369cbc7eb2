// The gradient of a convolution's weight; see conv.cuh. It has few results, each a sum over
// all pixels of all images, which blocks share: each stores its part.
//
// A block of 256 threads computes BM×BN results. Threads load along k, which is over
// adjacent pixels, BK of them per step, and each finds its pixel once for all channels and
// taps that it loads there. Where the results need fewer threads, GROUPS groups of threads
// share the pixels of a step, and their sums are added at the end.
//
// Tiles are stored as [k][m] and [k][n], so that a thread loads its 4 adjacent rows or
// columns at once. Groups of 4 elements are permuted (SWAP), so that threads that store
// along k cause no bank conflicts.
#include "conv.cuh"

#define THREADS 256

template <class C, int BM, int BN, int BK> struct Tiles {
  C a[2][BK][BM + 4];
  C b[2][BK][BN + 4];
};

template <class T, int BM, int BN, int BK> DEV void grad_weight(const Conv& p) {
  typedef typename Compute<T>::type C;
  enum {
    TM = BM == 128 ? 8 : 4, TN = BN == 128 ? 8 : 4, // results per thread
    ACROSS = BN / TN, GROUP = BM / TM * ACROSS, GROUPS = THREADS / GROUP,
    DOWN = THREADS / BK, EA = BM / DOWN, EB = BN / DOWN // rows between a thread's elements, elements it loads
  };
#define SWAP(k) (((k) >> 3) * (32 / BK) & 3)
  __shared__ __align__(16) Tiles<C, BM, BN, BK> tiles;
  static_assert(GROUPS == 1 || sizeof(tiles) >= GROUPS * BM * BN * sizeof(C), "no room for the groups' sums");
  i32 tilesM = (p.m + BM - 1) / BM;
  i32 m0 = blockIdx.x % tilesM * BM, n0 = blockIdx.x / tilesM * BN, group = blockIdx.y, split = blockIdx.z;
  i32 begin = split * p.chunk, end = begin + p.chunk < p.k ? begin + p.chunk : p.k;
  int t = threadIdx.x, kk = t % BK, first = t / BK;

  const T* g = (const T*)p.g + ((i64)group * p.cout + m0 + first) * p.gs[1];
  const T* x = (const T*)p.x + (i64)group * p.cin * p.xs[1];
  // The tap of each of this thread's columns, and its offset from the pixel.
  i32 tapY[EB], tapX[EB], away[EB];
#pragma unroll
  for (int e = 0; e < EB; e++) {
    i32 col = n0 + first + e * DOWN;
    i32 c = quotient(col, p.taps), tap = col - c * p.taps.d, ky = quotient(tap, p.kw), kx = tap - ky * p.kw.d;
    tapY[e] = ky * p.dilation[0] - p.pad[0];
    tapX[e] = kx * p.dilation[1] - p.pad[1];
    away[e] = (i32)(c * p.xs[1] + tapY[e] * p.xs[2] + tapX[e] * p.xs[3]);
    if (col >= p.n) tapY[e] = -0x40000000; // above every image
  }
  T ra[EA], rb[EB];
  auto fetch = [&](i32 k0) {
    i32 k = k0 + kk, b = quotient(k, p.pixels), pixel = k - b * p.pixels.d, y = quotient(pixel, p.row), z = pixel - y * p.row.d;
    bool exists = k < end;
    const T* at = g + (b * p.gs[0] + y * p.gs[2] + z * p.gs[3]);
#pragma unroll
    for (int e = 0; e < EA; e++) {
      ra[e] = T();
      if (exists && m0 + first + e * DOWN < p.m) ra[e] = at[e * DOWN * p.gs[1]];
    }
    y *= p.stride[0];
    z *= p.stride[1];
    at = x + (b * p.xs[0] + y * p.xs[2] + z * p.xs[3]);
#pragma unroll
    for (int e = 0; e < EB; e++) {
      rb[e] = T();
      if (exists && (u32)(y + tapY[e]) < (u32)p.h && (u32)(z + tapX[e]) < (u32)p.wd) rb[e] = at[away[e]];
    }
  };
  auto keep = [&](int buffer) {
#pragma unroll
    for (int e = 0; e < EA; e++) tiles.a[buffer][kk][(first + e * DOWN) ^ SWAP(kk)] = (C)get(ra[e]);
#pragma unroll
    for (int e = 0; e < EB; e++) tiles.b[buffer][kk][(first + e * DOWN) ^ SWAP(kk)] = (C)get(rb[e]);
  };
  // This thread's rows and columns of the tile: groups of 4, 64 apart.
  int member = t % GROUP, which = t / GROUP, row = member / ACROSS * 4, col = member % ACROSS * 4;
  C acc[TM][TN];
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) acc[i][j] = C(0);
  int cur = 0;
  if (begin < end) {
    fetch(begin);
    keep(0);
    __syncthreads();
  }
#pragma unroll 1
  for (i32 k0 = begin; k0 < end; k0 += BK) {
    bool more = k0 + BK < end;
    if (more) fetch(k0 + BK);
#pragma unroll
    for (int q = 0; q < BK / GROUPS; q++) {
      int k = q * GROUPS + which;
      const int s = SWAP(q * GROUPS); // of k too: GROUPS divides 8, so their upper bits are equal
      C a[TM], b[TN];
#pragma unroll
      for (int v = 0; v < TM; v += 4) *(Vec<C, 4>*)&a[v] = *(const Vec<C, 4>*)&tiles.a[cur][k][v * 16 + row];
#pragma unroll
      for (int v = 0; v < TN; v += 4) *(Vec<C, 4>*)&b[v] = *(const Vec<C, 4>*)&tiles.b[cur][k][v * 16 + col];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i][j] += a[i ^ s] * b[j ^ s];
    }
    if (more) {
      cur ^= 1;
      keep(cur);
      __syncthreads();
    }
  }
  if (GROUPS > 1) { // the first group adds the sums of the others
    C(*sums)[BM][BN] = (C(*)[BM][BN])&tiles;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) sums[which][row + i][col + j] = acc[i][j];
    __syncthreads();
    if (which > 0) return;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++)
#pragma unroll
        for (int w = 1; w < GROUPS; w++) acc[i][j] += sums[w][row + i][col + j];
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      i32 m = m0 + row + i / 4 * 64 + i % 4, n = n0 + col + j / 4 * 64 + j % 4;
      if (m >= p.m || n >= p.n) continue;
      i64 at = ((i64)group * p.m + m) * p.n + n;
      if (p.splits > 1) ((C*)p.partial)[(i64)split * p.total + at] = acc[i][j];
      else put(((T*)p.out)[at], acc[i][j]);
    }
}

#define GRAD_WEIGHT(T, BM, BN, BK) \
  KERNEL __launch_bounds__(THREADS, 2) conv2d_grad_weight_##BM##x##BN##_##T(const __grid_constant__ Conv p) { grad_weight<T, BM, BN, BK>(p); }
#define SMALL(T) GRAD_WEIGHT(T, 32, 32, 32) GRAD_WEIGHT(T, 64, 64, 16)
#define LARGE(T) GRAD_WEIGHT(T, 64, 128, 16) GRAD_WEIGHT(T, 128, 128, 8)
FLOAT_TYPES(SMALL)
LARGE(f32) HALF_TYPES(LARGE)

// Groups of one channel each: a block sums ONE_TAPS taps of one group, each thread every
// blockDim.x-th pixel of the block, whose gradient serves all taps.
enum { ONE_TAPS = 9 };
template <class A> DEV A plus(A x, A y) { return x + y; }
template <class T> DEV void grad_weight_one(const Conv& p) {
  typedef typename Compute<T>::type C;
  __shared__ C room[33];
  i32 tap0 = blockIdx.x * ONE_TAPS, group = blockIdx.y, split = blockIdx.z;
  i32 begin = split * p.chunk, end = begin + p.chunk < p.k ? begin + p.chunk : p.k;
  const T* g = (const T*)p.g + group * p.gs[1];
  const T* x = (const T*)p.x + group * p.xs[1];
  i32 tapY[ONE_TAPS], tapX[ONE_TAPS];
  C sum[ONE_TAPS];
#pragma unroll
  for (int t = 0; t < ONE_TAPS; t++) {
    i32 tap = tap0 + t, ky = quotient(tap, p.kw);
    tapY[t] = tap < p.n ? ky * p.dilation[0] - p.pad[0] : -0x40000000; // above every image
    tapX[t] = (tap - ky * p.kw.d) * p.dilation[1] - p.pad[1];
    sum[t] = C(0);
  }
  for (i32 k = begin + threadIdx.x; k < end; k += blockDim.x) {
    i32 b = quotient(k, p.pixels), pixel = k - b * p.pixels.d, y = quotient(pixel, p.row), z = pixel - y * p.row.d;
    C v = (C)get(g[b * p.gs[0] + y * p.gs[2] + z * p.gs[3]]);
    const T* from = x + b * p.xs[0];
    y *= p.stride[0];
    z *= p.stride[1];
#pragma unroll
    for (int t = 0; t < ONE_TAPS; t++) {
      i32 r = y + tapY[t], c = z + tapX[t];
      if ((u32)r < (u32)p.h && (u32)c < (u32)p.wd) sum[t] += v * (C)get(from[r * p.xs[2] + c * p.xs[3]]);
    }
  }
#pragma unroll
  for (int t = 0; t < ONE_TAPS; t++) {
    C all = block_reduce(sum[t], C(0), room, plus<C>);
    if (threadIdx.x > 0 || tap0 + t >= p.n) continue;
    i64 at = (i64)group * p.n + tap0 + t;
    if (p.splits > 1) ((C*)p.partial)[(i64)split * p.total + at] = all;
    else put(((T*)p.out)[at], all);
  }
}
#define ONE(T) KERNEL __launch_bounds__(THREADS) conv2d_grad_weight_one_##T(const __grid_constant__ Conv p) { grad_weight_one<T>(p); }
FLOAT_TYPES(ONE)
