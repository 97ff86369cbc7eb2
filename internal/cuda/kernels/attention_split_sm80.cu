// Float32 attention on the tensor cores, with heads of up to 128: see attention.cu for the
// method and split.cuh for the arithmetic. A block takes 128 queries, each of its 8 warps
// 16, and iterates over the keys, 32 at a time. Scores, weights and the result stay in
// registers.
#include "attention_split.cuh"

#define BQ 128
#define BK 32
extern __shared__ __align__(128) char room[];

template <int W> DEV void attend(const Attention& p) {
  typedef Rows<W> X;
  const u32 TILE = BK * X::PITCH * 4;
  u32 tq = shared_address(room), stages = tq + BQ * X::PITCH * 4; // q, and two stages of k and v
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  Place at(p, true);
  i32 q0 = at.block * BQ, mine = q0 + warp * 16, row = mine + (lane >> 2);
  f32 scale = (f32)(p.scale * LOG2E);
  for (u64 batch = at.batch; batch < p.batches; batch += gridDim.y) {
    i64 off[3];
    offsets<3>(p.batch, batch, off);
    const f32 *k = (const f32*)p.k + off[1], *v = (const f32*)p.v + off[2];
    i64 mask = p.maskKind ? offset(p.maskBatch, batch) : 0;
    i32 last = p.causal && q0 + BQ < p.keys ? q0 + BQ : p.keys;
    __syncthreads();
    X::template load<BQ, 256>(tq, (const f32*)p.q + off[0], p.qs[0], q0, p.rows, p.depth);
    X::template load<BK, 256>(stages, k, p.ks[0], 0, p.keys, p.depth);
    X::template load<BK, 256>(stages + TILE, v, p.vs[0], 0, p.keys, p.width);
    asm volatile("cp.async.commit_group;");
    f32 o[W / 32][4][4] = {}, m[2] = {-INF_F, -INF_F}, l[2] = {0, 0};
    u32 stage = 0;
#pragma unroll 1
    for (i32 k0 = 0; k0 < last; k0 += BK, stage ^= 1) {
      u32 tk = stages + stage * 2 * TILE;
      asm volatile("cp.async.wait_group 0;");
      __syncthreads();
      if (k0 + BK < last) {
        u32 next = stages + (stage ^ 1) * 2 * TILE;
        X::template load<BK, 256>(next, k, p.ks[0], k0 + BK, p.keys, p.depth);
        X::template load<BK, 256>(next + TILE, v, p.vs[0], k0 + BK, p.keys, p.width);
      }
      asm volatile("cp.async.commit_group;");
      if (p.causal && k0 >= mine + 16) continue; // no query of this warp attends to one of these
      f32 s[BK / 8][4];
      dots<W, 4>(s, tq, warp * 16, tk);
      bool check = p.maskKind || k0 + BK > p.keys || (p.causal && k0 + BK - 1 > mine); // most tiles have no masked score
#pragma unroll
      for (int j = 0; j < BK / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          s[j][e] *= scale;
          if (check) {
            i32 r = row + (e >> 1) * 8, col = k0 + j * 8 + (lane & 3) * 2 + (e & 1);
            if (p.maskKind && r < p.rows && col < p.keys) s[j][e] += mask_at<f32, f32>(p, mask, r, col);
            if (col >= p.keys || (p.causal && col > r)) s[j][e] = -INF_F;
          }
        }
      f32 shrink[2];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        f32 best = m[h], sum = 0;
#pragma unroll
        for (int j = 0; j < BK / 8; j++) best = fmaxf(best, fmaxf(s[j][h * 2], s[j][h * 2 + 1]));
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
        f32 from = best == -INF_F ? 0.0f : best; // -∞: all keys so far are masked
        shrink[h] = exp2f(m[h] - from);
#pragma unroll
        for (int j = 0; j < BK / 8; j++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            f32& x = s[j][h * 2 + e];
            x = exp2f(x - from);
            sum += x;
          }
        l[h] = l[h] * shrink[h] + sum;
        m[h] = best;
      }
      Split<4> a[BK / 8];
#pragma unroll
      for (int j = 0; j < BK / 8; j++) as_left(a[j], s[j]);
      const f32* tv = (const f32*)(room + (tk - tq) + TILE);
#pragma unroll
      for (int g = 0; g < W / 32; g++) {
        f32 part[4][4] = {};
#pragma unroll
        for (int j = 0; j < BK / 8; j++) {
          Split<8> b;
          below<W>(b, tv, j * 8, g * 32);
#pragma unroll
          for (int i = 0; i < 4; i++) mma(part[i], a[j], b, i * 2);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int e = 0; e < 4; e++) o[g][i][e] = o[g][i][e] * shrink[e >> 1] + part[i][e];
      }
    }
    asm volatile("cp.async.wait_group 0;");
    bool bad = false;
    f32 f[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      l[h] += __shfl_xor_sync(~0u, l[h], 1);
      l[h] += __shfl_xor_sync(~0u, l[h], 2);
      f[h] = l[h] == 0.0f ? 0.0f : 1.0f / l[h]; // all keys are masked: 0
      i32 r = row + h * 8;
      if (r >= p.rows) continue;
      bad |= !(l[h] < INF_F);
      if (p.saved && (lane & 3) == 0) save(p, batch * p.rows + r, m[h], l[h]);
    }
    bad |= store<W>((f32*)p.out + result_at(p, batch, p.rows, p.width), row_step(p, p.width), o, row, 0, p.rows, p.width, f[0], f[1]);
    again<BQ>(p, batch, at.block, p.rows, bad);
  }
}

KERNEL __launch_bounds__(256, 2) attention_split64_f32(const __grid_constant__ Attention p) { attend<64>(p); }
KERNEL __launch_bounds__(256, 1) attention_split128_f32(const __grid_constant__ Attention p) { attend<128>(p); }
