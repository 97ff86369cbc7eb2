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

#define GEMM(T, B, BOUNDS)                                                                                            \
  KERNEL BOUNDS gemm##B##_nn_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, false>(p); }               \
  KERNEL BOUNDS gemm##B##_nt_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, true>(p); }                \
  KERNEL BOUNDS gemm##B##_tn_##T(const __grid_constant__ Product p) { gemm<T, B, B, true, false>(p); }                \
  KERNEL BOUNDS gemm##B##_tt_##T(const __grid_constant__ Product p) { gemm<T, B, B, true, true>(p); }
#define BOUNDS __launch_bounds__(GEMM_THREADS, 2)
GEMM(f32, 128, BOUNDS) GEMM(f16, 128, BOUNDS) GEMM(bf16, 128, BOUNDS)
GEMM(f32, 64, BOUNDS) GEMM(f16, 64, BOUNDS) GEMM(bf16, 64, BOUNDS) GEMM(f64, 64, BOUNDS)
GEMM(u8, 64, BOUNDS) GEMM(i32, 64, BOUNDS) GEMM(i64, 64, BOUNDS)
