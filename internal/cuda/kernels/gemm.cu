// Matrix products without cuBLAS and without tensor cores.
#include "gemm.cuh"
#include "product.cuh"

template <class T, int BM, int BN, bool TA, bool TB, bool ENDS> DEV void gemm(const Product& p) {
  typedef typename Total<T>::type C;
  typedef End<T, ENDS> E;
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
    typename E::C bias[BN / 16];
#pragma unroll
    for (int j = 0; j < BN / 16; j++) bias[j] = E::bias(p, n0 + acc.col(j));
#pragma unroll
    for (int i = 0; i < BM / 16; i++) {
      i64 m = m0 + acc.row(i);
#pragma unroll
      for (int j = 0; j < BN / 16; j++) {
        i64 n = n0 + acc.col(j);
        if (m >= p.m || n >= p.n) continue;
        i64 at = (z * p.m + m) * p.n + n;
        if (p.splits > 1) ((C*)p.partial)[split * p.batch * p.m * p.n + at] = acc.v[i][j];
        else put(((T*)p.c)[at], (typename Compute<T>::type)E::done(p, acc.v[i][j], bias[j]));
      }
    }
    __syncthreads();
  }
}

// Small products are bound by the latency of memory, so a block loads 128 elements along k
// at once, for 16×16 results only. Each of four groups of 64 threads sums every fourth k, a
// thread 2×2 results; then the groups' sums are added.
template <class T, bool TA, bool TB, bool ENDS> DEV void small(const Product& p) {
  typedef typename Total<T>::type C;
  typedef End<T, ENDS> E;
  const int B = 16, DEPTH = 128, EACH = B * DEPTH / GEMM_THREADS; // elements that a thread loads of each operand
  __shared__ __align__(16) C as[DEPTH][B + 2], bs[DEPTH][B + 2];  // [k][m], [k][n]; padded so that pairs stay aligned
  C(*sums)[B][B] = (C(*)[B][B])as;                                // [group][m][n], once as has been read
  i64 tilesN = (p.n + B - 1) / B, m0 = blockIdx.x / tilesN * B, n0 = blockIdx.x % tilesN * B;
  int t = threadIdx.x, group = t >> 6, row = (t & 63) >> 3, col = t & 7;
  // The place of this thread's first element in a tile, along k and across. The others
  // follow along the axis that is not contiguous.
  int ka = TA ? t / B : t % DEPTH, ma = TA ? t % B : t / DEPTH;
  int kb = TB ? t % DEPTH : t / B, nb = TB ? t / DEPTH : t % B;
  const int STEP_A = TA ? GEMM_THREADS / B : GEMM_THREADS / DEPTH, STEP_B = TB ? GEMM_THREADS / DEPTH : GEMM_THREADS / B;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    const T* a = (const T*)p.a + z * p.stepA + (TA ? ka * p.lda + m0 + ma : (m0 + ma) * p.lda + ka);
    const T* b = (const T*)p.b + z * p.stepB + (TB ? (n0 + nb) * p.ldb + kb : kb * p.ldb + n0 + nb);
    C acc[2][2] = {};
    T ra[EACH], rb[EACH];
    auto fetch = [&](i64 k0) {
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        i64 k = k0 + ka + (TA ? e * STEP_A : 0), m = m0 + ma + (TA ? 0 : e * STEP_A);
        ra[e] = k < p.k && m < p.m ? a[e * STEP_A * p.lda] : T();
      }
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        i64 k = k0 + kb + (TB ? 0 : e * STEP_B), n = n0 + nb + (TB ? e * STEP_B : 0);
        rb[e] = k < p.k && n < p.n ? b[e * STEP_B * p.ldb] : T();
      }
      a += TA ? DEPTH * p.lda : DEPTH;
      b += TB ? DEPTH : DEPTH * p.ldb;
    };
    fetch(0);
#pragma unroll 1
    for (i64 k0 = 0; k0 < p.k; k0 += DEPTH) {
      __syncthreads();
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        as[ka + (TA ? e * STEP_A : 0)][ma + (TA ? 0 : e * STEP_A)] = (C)get(ra[e]);
        bs[kb + (TB ? 0 : e * STEP_B)][nb + (TB ? e * STEP_B : 0)] = (C)get(rb[e]);
      }
      __syncthreads();
      if (k0 + DEPTH < p.k) fetch(k0 + DEPTH);
      int depth = p.k - k0 < DEPTH ? (int)(p.k - k0) : DEPTH; // zeros beyond
#pragma unroll 8
      for (int k = group; k < depth; k += 4) {
        Vec<C, 2> x = *(const Vec<C, 2>*)&as[k][row * 2], y = *(const Vec<C, 2>*)&bs[k][col * 2];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
          for (int j = 0; j < 2; j++) acc[i][j] += x.v[i] * y.v[j];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) sums[group][row * 2 + i][col * 2 + j] = acc[i][j];
    __syncthreads();
    i64 m = m0 + t / B, n = n0 + t % B;
    C sum = (sums[0][t / B][t % B] + sums[1][t / B][t % B]) + (sums[2][t / B][t % B] + sums[3][t / B][t % B]);
    if (m < p.m && n < p.n) put(((T*)p.c)[(z * p.m + m) * p.n + n], ENDS ? activate(p.act, sum + E::bias(p, n)) : sum);
    __syncthreads();
  }
}

// Kernels with bias and activation are separate: they need registers that plain products
// have better uses for.
#define SMALL(T)                                                                                           \
  KERNEL gemm_small_nn_##T(const __grid_constant__ Product p) { small<T, false, false, false>(p); }        \
  KERNEL gemm_small_nt_##T(const __grid_constant__ Product p) { small<T, false, true, false>(p); }         \
  KERNEL gemm_small_tn_##T(const __grid_constant__ Product p) { small<T, true, false, false>(p); }         \
  KERNEL gemm_small_tt_##T(const __grid_constant__ Product p) { small<T, true, true, false>(p); }          \
  KERNEL gemm_small_end_nn_##T(const __grid_constant__ Product p) { small<T, false, false, true>(p); }     \
  KERNEL gemm_small_end_nt_##T(const __grid_constant__ Product p) { small<T, false, true, true>(p); }
FLOAT_TYPES(SMALL)

#define GEMM(T, B, BOUNDS)                                                                                            \
  KERNEL BOUNDS gemm##B##_nn_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, false, false>(p); }        \
  KERNEL BOUNDS gemm##B##_nt_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, true, false>(p); }         \
  KERNEL BOUNDS gemm##B##_tn_##T(const __grid_constant__ Product p) { gemm<T, B, B, true, false, false>(p); }         \
  KERNEL BOUNDS gemm##B##_tt_##T(const __grid_constant__ Product p) { gemm<T, B, B, true, true, false>(p); }
#define GEMM_END(T, B, BOUNDS)                                                                                        \
  KERNEL BOUNDS gemm##B##_end_nn_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, false, true>(p); }     \
  KERNEL BOUNDS gemm##B##_end_nt_##T(const __grid_constant__ Product p) { gemm<T, B, B, false, true, true>(p); }
#define BOUNDS __launch_bounds__(GEMM_THREADS, 2)
GEMM(f32, 128, BOUNDS) HALF_TYPES_WITH(GEMM, 128, BOUNDS)
GEMM(f32, 64, BOUNDS) HALF_TYPES_WITH(GEMM, 64, BOUNDS) GEMM(f64, 64, BOUNDS)
GEMM(u8, 64, BOUNDS) GEMM(i32, 64, BOUNDS) GEMM(i64, 64, BOUNDS)
GEMM_END(f32, 128, BOUNDS) HALF_TYPES_WITH(GEMM_END, 128, BOUNDS)
GEMM_END(f32, 64, BOUNDS) HALF_TYPES_WITH(GEMM_END, 64, BOUNDS) GEMM_END(f64, 64, BOUNDS)

// Adds the partial sums of several blocks, with bias and activation.
template <class T> DEV void sum_parts(const Product& p) {
  typedef typename Compute<T>::type C;
  i64 all = p.batch * p.m * p.n, i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= all) return;
  C v = 0;
  for (int s = 0; s < p.splits; s++) v += ((const C*)p.partial)[s * all + i];
  put(((T*)p.c)[i], activate(p.act, v + End<T, true>::bias(p, i % p.n)));
}

#define SUM(T) KERNEL gemm_sum_##T(const __grid_constant__ Product p) { sum_parts<T>(p); }
FLOAT_TYPES(SUM)
