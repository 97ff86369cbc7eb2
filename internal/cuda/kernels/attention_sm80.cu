// Attention on the matrix units, for float16 and bfloat16 with heads of up to
// 128: see attention.cu for the method. A block takes 64 queries, each of its 4
// warps 16, and goes over the keys 64 at a time. Scores, probabilities and the result
// stay in registers; sums are kept in float32.
#include "locus.cuh"

struct Attention {
  void* out;
  const void *q, *k, *v, *mask;
  f64 scale;
  i32 rows, keys, depth, width;
  i32 causal, maskKind;
  u64 batches;
  i32 wide, pad;
  i64 qs[2], ks[2], vs[2], ms[2];
  Idx batch, maskBatch;
};

DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV void copy16(u32 to, const void* from, int size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size));
}
DEV void ldmatrix(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
DEV void ldmatrix_transposed(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
#define MMA(shape)                                                                                                    \
  asm volatile("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                     \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
DEV void mma(f32* c, const u32* a, const u32* b, f16*) { MMA("m16n8k16.row.col.f32.f16.f16.f32"); }
DEV void mma(f32* c, const u32* a, const u32* b, bf16*) { MMA("m16n8k16.row.col.f32.bf16.bf16.f32"); }

DEV u32 pack(f32 lo, f32 hi, f16*) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEV u32 pack(f32 lo, f32 hi, bf16*) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }

// A tile of 64 rows of W elements; 16-byte chunks are permuted within 8 rows.
template <int W> DEV u32 at(int row, int chunk) { return row * W * 2 + ((chunk ^ (row & 7)) << 4); }

// load starts copying rows first… of a matrix to a tile; what does not exist becomes 0.
template <class T, int W> DEV void load(u32 tile, const T* m, i64 stride, i32 first, i32 rows, i32 cols) {
#pragma unroll
  for (int t = threadIdx.x; t < 64 * W / 8; t += 128) {
    int row = t / (W / 8), chunk = t % (W / 8);
    i32 left = first + row < rows ? cols - chunk * 8 : 0;
    copy16(tile + at<W>(row, chunk), m + (left > 0 ? (i64)(first + row) * stride + chunk * 8 : 0), left >= 8 ? 16 : left > 0 ? left * 2 : 0);
  }
}

extern __shared__ __align__(128) char room[];

template <class T, int W> DEV void attend(const Attention& p) {
  u32 tq = shared_address(room), tk = tq + 64 * W * 2, tv = tk + 2 * 64 * W * 2; // q, and two tiles each of k and v
  const u32 TILE = 64 * W * 2;
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, quad = lane >> 3;
  i32 q0 = blockIdx.x * 64;
  for (u64 batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
    i64 off[3];
    offsets<3>(p.batch, batch, off);
    const T *q = (const T*)p.q + off[0], *k = (const T*)p.k + off[1], *v = (const T*)p.v + off[2];
    i64 maskAt = p.maskKind ? offset(p.maskBatch, batch) : 0;
    i32 last = p.causal && q0 + 64 < p.keys ? q0 + 64 : p.keys;
    __syncthreads();
    load<T, W>(tq, q, p.qs[0], q0, p.rows, p.depth);
    load<T, W>(tk, k, p.ks[0], 0, p.keys, p.depth);
    asm volatile("cp.async.commit_group;");
    load<T, W>(tv, v, p.vs[0], 0, p.keys, p.width);
    asm volatile("cp.async.commit_group;");
    f32 o[W / 8][4] = {};
    f32 m[2] = {-INF_F, -INF_F}, l[2] = {0, 0};
    i32 row[2] = {q0 + warp * 16 + (lane >> 2), q0 + warp * 16 + (lane >> 2) + 8};
    int side = 0;
#pragma unroll 1
    for (i32 k0 = 0; k0 < last; k0 += 64, side ^= 1) {
      asm volatile("cp.async.wait_group 1;"); // k is here
      __syncthreads();
      if (k0 + 64 < last) load<T, W>(tk + (side ^ 1) * TILE, k, p.ks[0], k0 + 64, p.keys, p.depth);
      asm volatile("cp.async.commit_group;");
      f32 c[8][4] = {};
#pragma unroll
      for (int d = 0; d < W / 16; d++) {
        u32 a[4];
        ldmatrix(a, tq + at<W>(warp * 16 + (lane & 7) + (quad & 1) * 8, d * 2 + (quad >> 1)));
#pragma unroll
        for (int j = 0; j < 4; j++) {
          u32 b[4];
          ldmatrix(b, tk + side * TILE + at<W>(j * 16 + (lane & 7) + (quad >> 1) * 8, d * 2 + (quad & 1)));
          mma(c[2 * j], a, b, (T*)0);
          mma(c[2 * j + 1], a, b + 2, (T*)0);
        }
      }
      f32 best[2] = {m[0], m[1]};
      bool whole = k0 + 64 <= p.keys && q0 + 64 <= p.rows && !p.maskKind && !(p.causal && k0 + 63 > q0);
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int h = e >> 1;
          f32 x = c[j][e] * (f32)p.scale;
          if (!whole) {
            i32 col = k0 + j * 8 + (lane & 3) * 2 + (e & 1);
            bool hidden = col >= p.keys || row[h] >= p.rows || (p.causal && col > row[h]);
            if (!hidden && p.maskKind) {
              i64 i = maskAt + row[h] * p.ms[0] + col * p.ms[1];
              if (p.maskKind == 1) x += get(((const T*)p.mask)[i]);
              else hidden = !((const u8*)p.mask)[i];
            }
            if (hidden) x = -INF_F;
          }
          c[j][e] = x;
          best[h] = larger(best[h], x);
        }
      f32 shrink[2];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        best[h] = larger(best[h], __shfl_xor_sync(~0u, best[h], 1));
        best[h] = larger(best[h], __shfl_xor_sync(~0u, best[h], 2));
        shrink[h] = best[h] == -INF_F ? 1.0f : expf(m[h] - best[h]);
        m[h] = best[h];
        l[h] *= shrink[h];
      }
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          f32 x = m[e >> 1] == -INF_F ? 0.0f : exp2f((c[j][e] - m[e >> 1]) * 1.4426950408889634f);
          c[j][e] = x;
          l[e >> 1] += x;
        }
#pragma unroll
      for (int j = 0; j < W / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) o[j][e] *= shrink[e >> 1];
      asm volatile("cp.async.wait_group 1;"); // v is here
      __syncthreads();
      if (k0 + 64 < last) load<T, W>(tv + (side ^ 1) * TILE, v, p.vs[0], k0 + 64, p.keys, p.width);
      asm volatile("cp.async.commit_group;");
#pragma unroll
      for (int r = 0; r < 4; r++) { // 16 keys
        u32 a[4] = {pack(c[2 * r][0], c[2 * r][1], (T*)0), pack(c[2 * r][2], c[2 * r][3], (T*)0), pack(c[2 * r + 1][0], c[2 * r + 1][1], (T*)0),
                    pack(c[2 * r + 1][2], c[2 * r + 1][3], (T*)0)};
#pragma unroll
        for (int j = 0; j < W / 16; j++) {
          u32 b[4];
          ldmatrix_transposed(b, tv + side * TILE + at<W>(r * 16 + (lane & 7) + (quad & 1) * 8, j * 2 + (quad >> 1)));
          mma(o[2 * j], a, b, (T*)0);
          mma(o[2 * j + 1], a, b + 2, (T*)0);
        }
      }
    }
    asm volatile("cp.async.wait_group 0;");
#pragma unroll
    for (int h = 0; h < 2; h++) {
      l[h] += __shfl_xor_sync(~0u, l[h], 1);
      l[h] += __shfl_xor_sync(~0u, l[h], 2);
      if (row[h] >= p.rows) continue;
      f32 f = l[h] == 0.0f ? 0.0f : 1.0f / l[h];
      T* out = (T*)p.out + ((i64)batch * p.rows + row[h]) * p.width;
#pragma unroll
      for (int j = 0; j < W / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          i32 col = j * 8 + (lane & 3) * 2 + e;
          if (col < p.width) put(out[col], o[j][h * 2 + e] * f);
        }
    }
  }
}

#define ATTEND(T)                                                                                                 \
  KERNEL __launch_bounds__(128) attention_mma64_##T(const __grid_constant__ Attention p) { attend<T, 64>(p); }    \
  KERNEL __launch_bounds__(128) attention_mma128_##T(const __grid_constant__ Attention p) { attend<T, 128>(p); }
ATTEND(f16) ATTEND(bf16)
