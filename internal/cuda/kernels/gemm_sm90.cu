// Matrix products on Hopper's tensor cores (wgmma): float16 and bfloat16 in any
// layout, and float32 truncated to TF32, whose operands must be contiguous along k (a: m×k,
// b: n×k).
//
// A block of two warpgroups computes 128×256 results, each warpgroup 64×256. Tiles of 128
// bytes along k arrive by asynchronous copies, two tiles ahead, in the 128-byte swizzle,
// while the previous one is still being multiplied.
#include "product.cuh"
#include "matrix.cuh"

#define BM 128
#define BN 256
#define STAGES 4
#define AHEAD 2 // tiles requested before they are used; the other two are being multiplied
#define STAGE ((BM + BN) * 128)
struct tf32 { f32 x; };
template <> struct Compute<tf32> { typedef f32 type; };
DEV void put(tf32& r, f32 v) { r.x = v; }
DEV f32 get(tf32 v) { return v.x; }

// d += a·b for 64×256 results, 32 bytes along k.
#define WGMMA(kind, tail)                                                                                             \
  asm volatile("{.reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma_async.sync.aligned." kind " {"                       \
               "%0, %1, %2, %3, %4, %5, %6, %7, " \
               "%8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, " \
               "%24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, " \
               "%40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, " \
               "%56, %57, %58, %59, %60, %61, %62, %63, " \
               "%64, %65, %66, %67, %68, %69, %70, %71, " \
               "%72, %73, %74, %75, %76, %77, %78, %79, " \
               "%80, %81, %82, %83, %84, %85, %86, %87, " \
               "%88, %89, %90, %91, %92, %93, %94, %95, " \
               "%96, %97, %98, %99, %100, %101, %102, %103, " \
               "%104, %105, %106, %107, %108, %109, %110, %111, " \
               "%112, %113, %114, %115, %116, %117, %118, %119, " \
               "%120, %121, %122, %123, %124, %125, %126, %127 " \
               "}, %128, %129, p, 1, 1" tail ";}" : \
               "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
               "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
               "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
               "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
               "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
               "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
               "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
               "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
               "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), \
               "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
               "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
               "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
               "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) \
               : "l"(a), "l"(b))
// The last two numbers say whether each operand is contiguous across k.
#define WGMMA16(T, type)                                                                     \
  template <bool TA, bool TB> DEV void wgmma(f32* d, u64 a, u64 b, T*) {            \
    if (!TA && !TB) WGMMA("m64n256k16.f32." type "." type, ", 0, 0");                        \
    if (!TA && TB) WGMMA("m64n256k16.f32." type "." type, ", 0, 1");                         \
    if (TA && !TB) WGMMA("m64n256k16.f32." type "." type, ", 1, 0");                         \
    if (TA && TB) WGMMA("m64n256k16.f32." type "." type, ", 1, 1");                          \
  }
WGMMA16(f16, "f16")
WGMMA16(bf16, "bf16")
template <bool TA, bool TB> DEV void wgmma(f32* d, u64 a, u64 b, tf32*) { WGMMA("m64n256k8.f32.tf32.tf32", ""); }

// The descriptor of a tile in the 128-byte swizzle. Along k it has rows of 128 bytes, and
// groups of 8 rows are 1024 bytes apart. Across k it has blocks of 64 columns, 8192 bytes
// each, with 128 bytes per k.
template <bool ACROSS> DEV u64 descriptor(u32 at) { return (u64)((at & 0x3ffff) >> 4) | (ACROSS ? 512ull : 1ull) << 16 | 64ull << 32 | 1ull << 62; }

template <class T, int R, bool ACROSS> struct Loader {
  enum { S = sizeof(T), V = 16 / S, COPIES = R * 8 / 256, WIDE = R / V, DOWN = ACROSS ? 256 / WIDE : 32 }; // DOWN: rows from one copy to the next
  const T* p;
  i64 jump, step;
  u32 to, have; // offset in the tile; which rows exist, or how many bytes of the chunk
  int k;
  METHOD void init(const T* matrix, i64 ld, i64 first, i64 count) {
    int row = ACROSS ? threadIdx.x / WIDE : threadIdx.x >> 3, chunk = ACROSS ? threadIdx.x % WIDE : threadIdx.x & 7;
    to = (ACROSS ? (chunk >> 3) * 8192 : 0) + row * 128 + (((chunk & 7) ^ (row & 7)) << 4);
    jump = DOWN * ld;
    have = 0;
    if (ACROSS) {
      i64 i = first + chunk * V, left = count - i;
      k = row;
      p = matrix + k * ld + i;
      step = 128 / S * ld;
      have = left >= V ? 16 : left > 0 ? (u32)left * S : 0;
    } else {
      k = chunk * V;
      p = matrix + (first + row) * ld + k;
      step = 128 / S;
      for (int t = 0; t < COPIES; t++) have |= (u32)(first + row + t * DOWN < count) << t;
    }
  }
  METHOD void load(u32 tile, int left) {
    int n = left - k, size = n >= V ? 16 : n > 0 ? n * S : 0;
#pragma unroll
    for (int t = 0; t < COPIES; t++)
      copy16(tile + to + t * DOWN * 128, p + t * jump, ACROSS ? (k + t * DOWN < left ? have : 0) : have >> t & 1 ? size : 0);
    p += step;
  }
};

extern __shared__ __align__(1024) char room[];

template <class T, bool TA, bool TB> DEV void gemm(const Product& p) { // TA, TB: contiguous across k
  enum { KT = 128 / sizeof(T) };
  typedef End<T, !TA> E; // only a that is not transposed comes with a bias or an activation
  u32 base = ((u32)__cvta_generic_to_shared(room) + 1023) & ~1023u;
  int group = threadIdx.x >> 7, warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
  i64 tilesM = (p.m + BM - 1) / BM, tilesN = (p.n + BN - 1) / BN, band = 8 * tilesN, g = blockIdx.x / band;
  i64 high = tilesM - g * 8 < 8 ? tilesM - g * 8 : 8, in = blockIdx.x % band;
  i64 m0 = (g * 8 + in % high) * BM, n0 = in / high * BN;
  for (i64 z = blockIdx.y; z < p.batch; z += gridDim.y) {
    Loader<T, BM, TA> la;
    Loader<T, BN, TB> lb;
    la.init((const T*)p.a + z * p.stepA, p.lda, m0, p.m);
    lb.init((const T*)p.b + z * p.stepB, p.ldb, n0, p.n);
    int left = (int)p.k, stage = 0, fill = AHEAD;
    f32 d[128];
#pragma unroll
    for (int j = 0; j < 32; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) d[j * 4 + e] = d[j * 4 + 2 + e] = E::bias(p, n0 + j * 8 + (lane & 3) * 2 + e);
#pragma unroll
    for (int s = 0; s < AHEAD; s++, left -= KT) {
      if (left > 0) {
        la.load(base + s * STAGE, left);
        lb.load(base + s * STAGE + BM * 128, left);
      }
      asm volatile("cp.async.commit_group;");
    }
#pragma unroll 1
    for (int steps = (int)((p.k + KT - 1) / KT); steps > 0; steps--) {
      asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1));
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads(); // this tile has arrived, and the one before the last is no longer read
      u64 a = descriptor<TA>(base + stage * STAGE + group * 64 * 128), b = descriptor<TB>(base + stage * STAGE + BM * 128);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; k++) wgmma<TA, TB>(d, a + (TA ? 128 : 2) * k, b + (TB ? 128 : 2) * k, (T*)0);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (left > 0) {
        la.load(base + fill * STAGE, left);
        lb.load(base + fill * STAGE + BM * 128, left);
      }
      left -= KT;
      asm volatile("cp.async.commit_group;");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); // the previous tile is done
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      fill = fill + 1 == STAGES ? 0 : fill + 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; h++) {
      i64 m = m0 + group * 64 + warp * 16 + h * 8 + (lane >> 2);
      if (m >= p.m) continue;
      T* out = (T*)p.c + (z * p.m + m) * p.n;
#pragma unroll
      for (int j = 0; j < 32; j++) {
        i64 n = n0 + j * 8 + (lane & 3) * 2;
        f32 v0 = d[j * 4 + h * 2], v1 = d[j * 4 + h * 2 + 1];
        if (n + 1 < p.n && (p.n & 1) == 0) {
          Vec<T, 2> v;
          put(v.v[0], E::relu(p, v0));
          put(v.v[1], E::relu(p, v1));
          *(Vec<T, 2>*)(out + n) = v;
        } else {
          if (n < p.n) put(out[n], E::relu(p, v0));
          if (n + 1 < p.n) put(out[n + 1], E::relu(p, v1));
        }
      }
    }
  }
}

// In the names, t: the operand is stored transposed (a contiguous across k, b along k).
#define GEMM(T)                                                                                                            \
  KERNEL __launch_bounds__(256, 1) gemm_wgmma_nn_##T(const __grid_constant__ Product p) { gemm<T, false, true>(p); }       \
  KERNEL __launch_bounds__(256, 1) gemm_wgmma_nt_##T(const __grid_constant__ Product p) { gemm<T, false, false>(p); }      \
  KERNEL __launch_bounds__(256, 1) gemm_wgmma_tn_##T(const __grid_constant__ Product p) { gemm<T, true, true>(p); }        \
  KERNEL __launch_bounds__(256, 1) gemm_wgmma_tt_##T(const __grid_constant__ Product p) { gemm<T, true, false>(p); }
HALF_TYPES(GEMM)
KERNEL __launch_bounds__(256, 1) gemm_wgmma_nt_tf32(const __grid_constant__ Product p) { gemm<tf32, false, false>(p); }
