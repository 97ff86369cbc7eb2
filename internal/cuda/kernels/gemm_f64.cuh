// Matrix products of float64 on the tensor cores (mma.sync), which have twice the rate of
// ordinary float64 arithmetic on data center cards. M is the instruction: it adds K steps
// along k to a warp's 32×32 results at a time.
//
// A block of 8 warps computes 128×64 results, each warp 32×32. Tiles of 16 along k arrive in
// shared memory by asynchronous copies, STAGES of them in flight. Rows are padded by 32
// bytes, so that the loads of a half-warp cause no bank conflicts.
#pragma once
#include "product.cuh"
#include "matrix.cuh"

#define BM 128
#define BN 64
#define KT 16
#define STAGES 3

// A tile of R rows (of the result) by KT along k. If ALONG_K it is stored in shared memory
// as [R][KT], otherwise as [KT][R].
template <int R, bool ALONG_K> struct Tile {
  enum { LINES = ALONG_K ? R : KT, WIDTH = ALONG_K ? KT : R, PITCH = (WIDTH + 4) * 8, BYTES = LINES * PITCH };
  enum { ACROSS = WIDTH / 2, DOWN = 256 / ACROSS, COPIES = LINES / DOWN }; // chunks of a line, lines between a thread's chunks

  const f64* p;
  i64 jump, step;
  int line, column; // of this thread's first chunk
  int rows;         // that exist, from the tile's first on

  METHOD void init(const f64* matrix, i64 ld, i64 first, i64 all, i64 k0) {
    line = threadIdx.x / ACROSS;
    column = threadIdx.x % ACROSS * 2;
    rows = all - first < R ? (int)(all - first) : R;
    p = matrix + (ALONG_K ? (first + line) * ld + k0 + column : (k0 + line) * ld + first + column);
    jump = DOWN * ld;
    step = ALONG_K ? KT : KT * ld;
  }
  // load starts copying a tile, of which left elements along k exist.
  METHOD void load(u32 tile, int left) {
#pragma unroll
    for (int t = 0; t < COPIES; t++) {
      int l = line + t * DOWN;
      int n = ALONG_K ? (l < rows ? left - column : 0) : (l < left ? rows - column : 0);
      copy16(tile + l * PITCH + column * 8, p + t * jump, n >= 2 ? 16 : n > 0 ? 8 : 0);
    }
    p += step;
  }
  // at returns the offset of element (row, k).
  static METHOD u32 at(int row, int k) { return ALONG_K ? row * PITCH + k * 8 : k * PITCH + row * 8; }
};

DEV f64 load_shared(u32 at) {
  f64 v;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v) : "r"(at));
  return v;
}

extern __shared__ __align__(128) char room[];

template <class M, bool TA, bool TB> DEV void gemm(const Product& p) {
  typedef Tile<BM, !TA> A;
  typedef Tile<BN, TB> B;
  typedef End<f64, !TA> E; // only a that is not transposed comes with a bias or an activation
  enum { STAGE = A::BYTES + B::BYTES };
  u32 base = shared_address(room);
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wm = (warp & 3) * 32, wn = (warp >> 2) * 32;
  // Blocks that run at the same time compute adjacent tiles, so that they share what is in the cache.
  u32 tilesM = (u32)((p.m + BM - 1) / BM), tilesN = (u32)((p.n + BN - 1) / BN), group = 8 * tilesN, g = blockIdx.x / group;
  u32 high = tilesM - g * 8 < 8 ? tilesM - g * 8 : 8, in = blockIdx.x % group;
  u32 tileM = g * 8 + in % high, tileN = in / high;
  i64 begin = blockIdx.z * p.chunk;
  int depth = (int)((begin + p.chunk < p.k ? begin + p.chunk : p.k) - begin);
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    f64 acc[4][4][2] = {};
    A a;
    B b;
    a.init((const f64*)p.a + z * p.stepA, p.lda, (i64)tileM * BM, p.m, begin);
    b.init((const f64*)p.b + z * p.stepB, p.ldb, (i64)tileN * BN, p.n, begin);
    int left = depth; // along k, not yet requested
    auto load = [&](int stage) {
      if (left > 0) {
        a.load(base + stage * STAGE, left);
        b.load(base + stage * STAGE + A::BYTES, left);
      }
      left -= KT;
      asm volatile("cp.async.commit_group;");
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) load(s);
    u32 atA = A::at(wm + (lane >> 2), lane & 3), atB = A::BYTES + B::at(wn + (lane >> 2), lane & 3);
    int stage = 0;
#pragma unroll 1
    for (int steps = (depth + KT - 1) / KT; steps > 0; steps--) {
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
      __syncthreads(); // and all threads have read the stage that is filled next
      load(stage == 0 ? STAGES - 1 : stage - 1);
      u32 tile = base + stage * STAGE;
#pragma unroll
      for (int k = 0; k < KT; k += M::K) {
        f64 fa[M::K / 4][4], fb[M::K / 4][4];
#pragma unroll
        for (int s = 0; s < M::K / 4; s++)
#pragma unroll
          for (int i = 0; i < 4; i++) {
            fa[s][i] = load_shared(tile + atA + A::at(i * 8, k + s * 4));
            fb[s][i] = load_shared(tile + atB + B::at(i * 8, k + s * 4));
          }
        M::multiply(acc, fa, fb);
      }
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        i64 n = (i64)tileN * BN + wn + j * 8 + (lane & 3) * 2 + e;
        if (n >= p.n) continue;
        f64 bias = p.splits == 1 ? E::bias(p, n) : 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
          i64 m = (i64)tileM * BM + wm + i * 8 + (lane >> 2), at = (z * p.m + m) * p.n + n;
          if (m >= p.m) continue;
          if (p.splits > 1) ((f64*)p.partial)[blockIdx.z * p.batch * p.m * p.n + at] = acc[i][j][e];
          else ((f64*)p.c)[at] = E::done(p, acc[i][j][e], bias);
        }
      }
  }
}

#define GEMM(NAME, M)                                                                                                         \
  KERNEL __launch_bounds__(256, 2) NAME##_nn_f64(const __grid_constant__ Product p) { gemm<M, false, false>(p); }             \
  KERNEL __launch_bounds__(256, 2) NAME##_nt_f64(const __grid_constant__ Product p) { gemm<M, false, true>(p); }              \
  KERNEL __launch_bounds__(256, 2) NAME##_tn_f64(const __grid_constant__ Product p) { gemm<M, true, false>(p); }              \
  KERNEL __launch_bounds__(256, 2) NAME##_tt_f64(const __grid_constant__ Product p) { gemm<M, true, true>(p); }
