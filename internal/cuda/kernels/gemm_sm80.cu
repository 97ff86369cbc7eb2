// Matrix products on the tensor cores (mma.sync): float16 and bfloat16 with
// float32 sums, and float32 rounded to TF32.
//
// A block of 8 warps computes 128×256 results, each warp 64×64. Tiles of 64 bytes along k
// arrive in shared memory by asynchronous copies, STAGES of them in flight. Within a tile,
// 16-byte chunks are permuted so that neither the copies nor ldmatrix cause bank conflicts.
#include "product.cuh"
#include "matrix.cuh"

#define BM 128
#define BN 256
#define STAGES 4
struct tf32 { f32 x; };
template <> struct Compute<tf32> { typedef f32 type; };

DEV u32 to_tf32(u32 x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(x)));
  return r;
}

DEV void mma(f32* c, const u32* a, const u32* b, tf32*) { MMA("m16n8k8.row.col.f32.tf32.tf32.f32"); }

DEV void put(tf32& r, f32 v) { r.x = v; }
DEV f32 get(tf32 v) { return v.x; }

// A tile of R rows (of the result) by 64 bytes along k. If ALONG_K it is stored in shared
// memory as [R][64 bytes], otherwise as [KT][R elements], where rows of 4-byte elements are
// padded instead of permuted.
template <class T, int R, bool ALONG_K> struct Tile {
  enum { S = sizeof(T), KT = 64 / S, V = 16 / S, PITCH = ALONG_K ? 64 : R * S + (S == 4 ? 32 : 0), BYTES = ALONG_K ? R * 64 : KT * PITCH };

  static __device__ __forceinline__ u32 at(int row, int chunk) { // row and 16-byte chunk as stored
    if (ALONG_K) return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4);
    return S == 4 ? row * PITCH + (chunk << 4) : row * PITCH + ((chunk ^ (row & 7)) << 4);
  }
};

// Loader copies one tile after another to shared memory. A thread copies the same chunks of
// each.
template <class T, int R, bool ALONG_K> struct Loader {
  typedef Tile<T, R, ALONG_K> X;
  enum { S = X::S, V = X::V, KT = X::KT, COPIES = R * 4 / 256, DOWN = ALONG_K ? 64 : 256 / (R / V) }; // DOWN: rows from one chunk to the next
  const T* p;
  i64 jump, step;
  u32 to;
  int k, across; // first k of the chunk; which rows exist, or how many bytes of the chunk

  __device__ __forceinline__ void init(const T* matrix, i64 ld, i64 first, i64 rows, i64 k0) {
    int row = ALONG_K ? threadIdx.x >> 2 : threadIdx.x / (R / V), chunk = ALONG_K ? threadIdx.x & 3 : threadIdx.x % (R / V);
    to = X::at(row, chunk);
    k = ALONG_K ? chunk * V : row;
    i64 i = first + (ALONG_K ? row : chunk * V);
    p = matrix + (ALONG_K ? i * ld + k0 + k : (k0 + k) * ld + i);
    jump = DOWN * ld;
    step = ALONG_K ? KT : KT * ld;
    if (ALONG_K) {
      across = 0;
      for (int t = 0; t < COPIES; t++) across |= (i + t * DOWN < rows) << t;
    } else {
      i64 left = rows - i;
      across = left >= V ? 16 : left > 0 ? (int)left * S : 0;
    }
  }
  // load starts copying a tile, of which left elements along k exist.
  __device__ __forceinline__ void load(u32 tile, int left) {
#pragma unroll
    for (int t = 0; t < COPIES; t++) {
      int n = left - k, size = ALONG_K ? (n >= V ? 16 : n > 0 ? n * S : 0) : across;
      if (ALONG_K ? !(across >> t & 1) : k + t * DOWN >= left) size = 0;
      copy16(tile + to + t * DOWN * X::PITCH, p + t * jump, size);
    }
    p += step;
  }
};

// A fragment of 16 rows and 32 bytes along k (16 elements, or 8 of 4 bytes).
template <class T, int R, bool ALONG_K> DEV void fragment_a(u32* r, u32 tile, int row, int step) {
  typedef Tile<T, R, ALONG_K> X;
  int l = threadIdx.x & 31, q = l >> 3;
  if (ALONG_K) {
    ldmatrix(r, tile + X::at(row + (l & 7) + (q & 1) * 8, step * 2 + (q >> 1)));
  } else if (X::S == 2) {
    ldmatrix_transposed(r, tile + X::at(step * 16 + (l & 7) + (q >> 1) * 8, (row >> 3) + (q & 1)));
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      u32 at = tile + (step * 8 + (l & 3) + (e >> 1) * 4) * X::PITCH + (row + (l >> 2) + (e & 1) * 8) * 4;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r[e]) : "r"(at));
    }
  }
}
// Two adjacent fragments of 8 columns.
template <class T, int R, bool ALONG_K> DEV void fragment_b(u32* r, u32 tile, int col, int step) {
  typedef Tile<T, R, ALONG_K> X;
  int l = threadIdx.x & 31, q = l >> 3;
  if (ALONG_K) {
    ldmatrix(r, tile + X::at(col + (l & 7) + (q >> 1) * 8, step * 2 + (q & 1)));
  } else if (X::S == 2) {
    ldmatrix_transposed(r, tile + X::at(step * 16 + (l & 7) + (q & 1) * 8, (col >> 3) + (q >> 1)));
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      u32 at = tile + (step * 8 + (l & 3) + (e & 1) * 4) * X::PITCH + (col + (l >> 2) + (e >> 1) * 8) * 4;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r[e]) : "r"(at));
    }
  }
}

extern __shared__ __align__(128) char room[];

template <class T, bool TA, bool TB> DEV void gemm(const Product& p) {
  typedef Tile<T, BM, !TA> A;
  typedef Tile<T, BN, TB> B;
  typedef End<T, !TA> E; // only a that is not transposed comes with a bias or an activation
  enum { KT = A::KT, STAGE = A::BYTES + B::BYTES };
  u32 base = shared_address(room);
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wm = (warp & 1) * 64, wn = (warp >> 1) * 64;
  // Blocks that run at the same time compute adjacent tiles, so that they share what is in the cache.
  i64 tilesM = (p.m + BM - 1) / BM, tilesN = (p.n + BN - 1) / BN, group = 8 * tilesN, g = blockIdx.x / group;
  i64 high = tilesM - g * 8 < 8 ? tilesM - g * 8 : 8, in = blockIdx.x % group;
  i64 m0 = (g * 8 + in % high) * BM, n0 = in / high * BN;
  i64 split = blockIdx.z, begin = split * p.chunk, end = begin + p.chunk < p.k ? begin + p.chunk : p.k;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    const T *a = (const T*)p.a + z * p.stepA, *b = (const T*)p.b + z * p.stepB;
    f32 acc[4][8][4];
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        f32 bias = p.splits == 1 ? E::bias(p, n0 + wn + j * 8 + (lane & 3) * 2 + e) : 0;
#pragma unroll
        for (int i = 0; i < 4; i++) acc[i][j][e] = acc[i][j][2 + e] = bias;
      }
    Loader<T, BM, !TA> la;
    Loader<T, BN, TB> lb;
    la.init(a, p.lda, m0, p.m, begin);
    lb.init(b, p.ldb, n0, p.n, begin);
    int left = (int)(end - begin); // along k, not yet requested
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
      if (left > 0) {
        la.load(base + s * STAGE, left);
        lb.load(base + s * STAGE + A::BYTES, left);
      }
      left -= KT;
      asm volatile("cp.async.commit_group;");
    }
    // The fragments of the next step are loaded while the present ones are multiplied,
    // across tiles too.
    u32 fa[2][4][4], fb[2][4][4];
    auto fragments = [&](int at, int stage, int step) {
      u32 ta = base + stage * STAGE, tb = ta + A::BYTES;
#pragma unroll
      for (int i = 0; i < 4; i++) fragment_a<T, BM, !TA>(fa[at][i], ta, wm + i * 16, step);
#pragma unroll
      for (int j = 0; j < 4; j++) fragment_b<T, BN, TB>(fb[at][j], tb, wn + j * 16, step);
    };
    auto multiply = [&](int at) {
      if (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            fa[at][i][e] = to_tf32(fa[at][i][e]);
            fb[at][i][e] = to_tf32(fb[at][i][e]);
          }
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) mma(acc[i][j], fa[at][i], fb[at][j >> 1] + (j & 1) * 2, (T*)0);
    };
    int stage = 0, fill = STAGES - 1;
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    fragments(0, 0, 0);
#pragma unroll 1
    for (int steps = (int)((end - begin + KT - 1) / KT); steps > 0; steps--) {
      fragments(1, stage, 1);
      if (left > 0) {
        la.load(base + fill * STAGE, left);
        lb.load(base + fill * STAGE + A::BYTES, left);
      }
      left -= KT;
      asm volatile("cp.async.commit_group;");
      multiply(0);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      fill = fill + 1 == STAGES ? 0 : fill + 1;
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
      __syncthreads();
      fragments(0, stage, 0);
      multiply(1);
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        i64 m = m0 + wm + i * 16 + h * 8 + (lane >> 2);
        if (m >= p.m) continue;
#pragma unroll
        for (int j = 0; j < 8; j++) {
          i64 n = n0 + wn + j * 8 + (lane & 3) * 2;
          i64 at = (z * p.m + m) * p.n + n;
          f32 v0 = acc[i][j][h * 2], v1 = acc[i][j][h * 2 + 1];
          if (p.splits > 1) {
            f32* out = (f32*)p.partial + split * p.batch * p.m * p.n + at;
            if (n < p.n) out[0] = v0;
            if (n + 1 < p.n) out[1] = v1;
          } else if (n + 1 < p.n && (p.n & 1) == 0) {
            Vec<T, 2> v;
            put(v.v[0], E::relu(p, v0));
            put(v.v[1], E::relu(p, v1));
            *(Vec<T, 2>*)((T*)p.c + at) = v;
          } else {
            if (n < p.n) put(((T*)p.c)[at], E::relu(p, v0));
            if (n + 1 < p.n) put(((T*)p.c)[at + 1], E::relu(p, v1));
          }
        }
      }
  }
}

#define GEMM(T)                                                                                                        \
  KERNEL __launch_bounds__(256, 1) gemm_mma_nn_##T(const __grid_constant__ Product p) { gemm<T, false, false>(p); }    \
  KERNEL __launch_bounds__(256, 1) gemm_mma_nt_##T(const __grid_constant__ Product p) { gemm<T, false, true>(p); }     \
  KERNEL __launch_bounds__(256, 1) gemm_mma_tn_##T(const __grid_constant__ Product p) { gemm<T, true, false>(p); }     \
  KERNEL __launch_bounds__(256, 1) gemm_mma_tt_##T(const __grid_constant__ Product p) { gemm<T, true, true>(p); }
HALF_TYPES(GEMM) GEMM(tf32)
