// Matrix products without cuBLAS, on the ordinary arithmetic units.
#include "gemm.cuh"

struct Product {
  const void *a, *b;
  void *c, *partial; // partial: sums [splits][batch·m·n] if k is split
  i64 m, n, k, lda, ldb, stepA, stepB;
  i64 batch, chunk; // chunk: how much of k a split sums
  i32 splits, wideA, wideB, pad;
};

template <class T, int BM, int BN, bool TA, bool TB> DEV void gemm(const Product& p) {
  typedef typename Total<T>::type C;
  __shared__ __align__(16) char room[sizeof(Tiles<C, BM, BN>)];
  Tiles<C, BM, BN>& tiles = *(Tiles<C, BM, BN>*)room;
  i64 tilesN = (p.n + BN - 1) / BN;
  i64 m0 = blockIdx.x / tilesN * BM, n0 = blockIdx.x % tilesN * BN;
  i64 split = blockIdx.z;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    Strided<T, BM, !TA> fa;
    Strided<T, BN, TB> fb;
    i32 begin = (i32)(split * p.chunk), end = begin + p.chunk < p.k ? begin + (i32)p.chunk : (i32)p.k;
    fa.init((const T*)p.a + z * p.stepA, p.lda, m0, p.m, begin, p.wideA);
    fb.init((const T*)p.b + z * p.stepB, p.ldb, n0, p.n, begin, p.wideB);
    Sums<C, BM, BN> acc;
    multiply<T>(tiles, acc, begin, end, [&](i32 k, T* r) { fa.fetch(k, end, r); }, [&](const T* r, C(*t)[BM + 4]) { fa.keep(r, t); },
                [&](i32 k, T* r) { fb.fetch(k, end, r); }, [&](const T* r, C(*t)[BN + 4]) { fb.keep(r, t); });
#pragma unroll
    for (int i = 0; i < BM / 16; i++) {
      i64 m = m0 + acc.row(i);
#pragma unroll
      for (int j = 0; j < BN / 16; j++) {
        i64 n = n0 + acc.col(j);
        if (m >= p.m || n >= p.n) continue;
        i64 at = (z * p.m + m) * p.n + n;
        if (p.splits > 1) ((C*)p.partial)[split * p.batch * p.m * p.n + at] = acc.v[i][j];
        else put(((T*)p.c)[at], (typename Compute<T>::type)acc.v[i][j]);
      }
    }
    __syncthreads();
  }
}

// Small products: the time is that of waiting for memory, so tiles are small
// and deep, and there are few steps.
template <class T, bool TA, bool TB> DEV void small(const Product& p) {
  typedef typename Total<T>::type C;
  __shared__ C as[32][33], bs[32][33]; // [k][m], [k][n]
  i64 tilesN = (p.n + 31) / 32, m0 = blockIdx.x / tilesN * 32, n0 = blockIdx.x % tilesN * 32;
  int x = threadIdx.x & 31, y = threadIdx.x >> 5; // y: 0…7
  int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    const T *a = (const T*)p.a + z * p.stepA, *b = (const T*)p.b + z * p.stepB;
    C acc[2][2] = {};
    T ra[4], rb[4];
    auto fetch = [&](i32 k0) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        i64 m = m0 + (TA ? x : y + e * 8), ka = k0 + (TA ? y + e * 8 : x), n = n0 + (TB ? y + e * 8 : x), kb = k0 + (TB ? x : y + e * 8);
        ra[e] = m < p.m && ka < p.k ? a[TA ? ka * p.lda + m : m * p.lda + ka] : T();
        rb[e] = n < p.n && kb < p.k ? b[TB ? n * p.ldb + kb : kb * p.ldb + n] : T();
      }
    };
    fetch(0);
#pragma unroll 1
    for (i32 k0 = 0; k0 < p.k; k0 += 32) {
      __syncthreads();
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if (TA) as[y + e * 8][x] = (C)get(ra[e]);
        else as[x][y + e * 8] = (C)get(ra[e]);
        if (TB) bs[x][y + e * 8] = (C)get(rb[e]);
        else bs[y + e * 8][x] = (C)get(rb[e]);
      }
      __syncthreads();
      if (k0 + 32 < p.k) fetch(k0 + 32);
#pragma unroll 8
      for (int k = 0; k < 32; k++)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
          for (int j = 0; j < 2; j++) acc[i][j] += as[k][ty + 16 * i] * bs[k][tx + 16 * j];
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        i64 m = m0 + ty + 16 * i, n = n0 + tx + 16 * j;
        if (m < p.m && n < p.n) put(((T*)p.c)[(z * p.m + m) * p.n + n], (typename Compute<T>::type)acc[i][j]);
      }
  }
}

#define SMALL(T)                                                                                           \
  KERNEL gemm_small_nn_##T(const __grid_constant__ Product p) { small<T, false, false>(p); }               \
  KERNEL gemm_small_nt_##T(const __grid_constant__ Product p) { small<T, false, true>(p); }                \
  KERNEL gemm_small_tn_##T(const __grid_constant__ Product p) { small<T, true, false>(p); }                \
  KERNEL gemm_small_tt_##T(const __grid_constant__ Product p) { small<T, true, true>(p); }
SMALL(f16) SMALL(bf16) SMALL(f32) SMALL(f64)

#define GEMM(T, B, BOUNDS)                                                                                            \
  KERNEL BOUNDS gemm##B##_nn_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, false>(p); }               \
  KERNEL BOUNDS gemm##B##_nt_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, true>(p); }                \
  KERNEL BOUNDS gemm##B##_tn_##T(const __grid_constant__ Product p) { gemm<T, B, B, true, false>(p); }                \
  KERNEL BOUNDS gemm##B##_tt_##T(const __grid_constant__ Product p) { gemm<T, B, B, true, true>(p); }
#define BOUNDS __launch_bounds__(GEMM_THREADS, 2)
GEMM(f32, 128, BOUNDS) GEMM(f16, 128, BOUNDS) GEMM(bf16, 128, BOUNDS)
GEMM(f32, 64, BOUNDS) GEMM(f16, 64, BOUNDS) GEMM(bf16, 64, BOUNDS) GEMM(f64, 64, BOUNDS)
GEMM(u8, 64, BOUNDS) GEMM(i32, 64, BOUNDS) GEMM(i64, 64, BOUNDS)
