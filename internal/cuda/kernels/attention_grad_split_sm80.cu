// Gradients of float32 attention on the tensor cores, with heads of up to 128: see
// attention.cu for the method and split.cuh for the arithmetic. The kernel of the keys
// stores t, and that of the queries is a product with it.
#include "attention_split.cuh"

extern __shared__ __align__(128) char room[];

// copy8 starts copying 8 bytes, of which the first size exist; the others become zero.
DEV void copy8(u32 to, const void* from, int size) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(size));
}

// add adds x·y to 16×W sums: x has 32 columns, and y is a tile of 32 rows.
template <int W> DEV void add(f32 (&c)[W / 32][4][4], const f32 (&x)[4][4], const f32* y) {
  Split<4> a[4];
#pragma unroll
  for (int k = 0; k < 4; k++) as_left(a[k], x[k]);
#pragma unroll
  for (int g = 0; g < W / 32; g++) {
    f32 part[4][4] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      Split<8> b;
      below<W>(b, y, k * 8, g * 32);
#pragma unroll
      for (int i = 0; i < 4; i++) mma(part[i], a[k], b, i * 2);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int e = 0; e < 4; e++) c[g][i][e] += part[i][e];
  }
}

// A block owns 128 keys, each of its 8 warps 16, and iterates over the queries, 32 at a time.
template <int W> DEV void keys(const AttentionGrad& g) {
  enum { BO = 128, BS = 32 };
  typedef Rows<W> X;
  const Attention& a = g.a;
  const u32 OWN = BO * X::PITCH * 4, TILE = BS * X::PITCH * 4, STAGE = 2 * TILE + BS * 8;
  u32 tk = shared_address(room), tv = tk + OWN, stages = tv + OWN; // k, v, and two stages of q, g and statistics
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  Place at(a, false);
  i32 o0 = at.block * BO, mine = o0 + warp * 16;
  f32 scale = (f32)(a.scale * LOG2E);
  for (u64 batch = g.first + at.batch; batch < g.last; batch += gridDim.y) {
    i64 off[3], offg[2];
    offsets<3>(a.batch, batch, off);
    offsets<2>(g.gy, batch, offg);
    const f32 *q = (const f32*)a.q + off[0], *dy = (const f32*)g.g + offg[0], *stats = (const f32*)g.stats + batch * a.rows * 2;
    i64 mask = a.maskKind ? offset(a.maskBatch, batch) : 0;
    auto bring = [&](u32 to, i32 s0) {
      X::template load<BS, 256>(to, q, a.qs[0], s0, a.rows, a.depth);
      X::template load<BS, 256>(to + TILE, dy, g.gs[0], s0, a.rows, a.width);
      if (threadIdx.x < BS / 2) {
        i32 row = s0 + threadIdx.x * 2, left = a.rows - row;
        copy8(to + 2 * TILE + threadIdx.x * 16, left > 0 ? stats + row * 2 : stats, left > 0 ? 8 : 0);
        copy8(to + 2 * TILE + threadIdx.x * 16 + 8, left > 1 ? stats + row * 2 + 2 : stats, left > 1 ? 8 : 0);
      }
      asm volatile("cp.async.commit_group;");
    };
    i32 begin = a.causal ? o0 : 0;
    __syncthreads();
    X::template load<BO, 256>(tk, (const f32*)a.k + off[1], a.ks[0], o0, a.keys, a.depth);
    X::template load<BO, 256>(tv, (const f32*)a.v + off[2], a.vs[0], o0, a.keys, a.width);
    bring(stages, begin);
    f32 dk[W / 32][4][4] = {}, dv[W / 32][4][4] = {};
    u32 stage = 0;
#pragma unroll 1
    for (i32 s0 = begin; s0 < a.rows; s0 += BS, stage ^= 1) {
      u32 tq = stages + stage * STAGE;
      asm volatile("cp.async.wait_group 0;");
      __syncthreads();
      if (s0 + BS < a.rows) bring(stages + (stage ^ 1) * STAGE, s0 + BS);
      if (a.causal && s0 + BS <= mine) continue; // none of these attends to a key of this warp
      f32 s[4][4], d[4][4];
      dots<W, 4>(s, tk, warp * 16, tq);
      dots<W, 2>(d, tv, warp * 16, tq + TILE); // shorter sums: what is subtracted from d largely cancels it
      bool check = a.maskKind || (a.causal && s0 < mine + 15);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const f32* stat = (const f32*)(room + (tq - tk) + 2 * TILE) + (j * 8 + (lane & 3) * 2) * 2;
        Vec<f32, 4> st = *(const Vec<f32, 4>*)stat;
#pragma unroll
        for (int e = 0; e < 4; e++) {
          i32 key = mine + (lane >> 2) + (e >> 1) * 8, row = s0 + j * 8 + (lane & 3) * 2 + (e & 1);
          f32 x = s[j][e] * scale;
          if (check) {
            if (a.maskKind && row < a.rows && key < a.keys) x += mask_at<f32, f32>(a, mask, row, key);
            if (a.causal && key > row) x = -INF_F;
          }
          s[j][e] = exp2f(x - st.v[(e & 1) * 2]);
          d[j][e] = s[j][e] == 0 ? 0 : s[j][e] * (d[j][e] - st.v[(e & 1) * 2 + 1]); // a masked d may be infinite
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
          i32 key = mine + (lane >> 2) + h * 8;
          Vec<f32, 2> t = {{d[j][h * 2], d[j][h * 2 + 1]}};
          if (key < a.keys) *(Vec<f32, 2>*)(kept<f32>(g, batch, key) + s0 + j * 8 + (lane & 3) * 2) = t;
        }
      }
      add<W>(dv, s, (const f32*)(room + (tq - tk) + TILE));
      add<W>(dk, d, (const f32*)(room + (tq - tk)));
    }
    asm volatile("cp.async.wait_group 0;");
    i32 row = mine + (lane >> 2);
    bool bad = store<W>((f32*)g.dk + result_at(a, batch, a.keys, a.depth), row_step(a, a.depth), dk, row, 0, a.keys, a.depth, (f32)a.scale, (f32)a.scale);
    bad |= store<W>((f32*)g.dv + result_at(a, batch, a.keys, a.width), row_step(a, a.width), dv, row, 0, a.keys, a.width, 1, 1);
    again<BO>(a, batch, at.block, a.keys, bad);
  }
}

// A block computes 128 rows of dq, a warp 32 rows and half of the columns, and iterates over
// the keys, 32 at a time.
template <int W> DEV void queries(const AttentionGrad& g) {
  enum { ROWS = 128, STEP = 32, N = W / 64 };
  typedef Rows<W> X;
  typedef Rows<ROWS> Y;
  const Attention& a = g.a;
  const u32 TT = STEP * Y::PITCH * 4, STAGE = TT + STEP * X::PITCH * 4;
  u32 stages = shared_address(room);
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, first = warp / 2 * 32, c0 = warp % 2 * (W / 2);
  Place at(a, true);
  i32 r0 = at.block * ROWS;
  i32 end = a.causal && r0 + ROWS < a.keys ? r0 + ROWS : a.keys;
  for (u64 batch = g.first + at.batch; batch < g.last; batch += gridDim.y) {
    i64 off[3];
    offsets<3>(a.batch, batch, off);
    const f32* k = (const f32*)a.k + off[1];
    auto bring = [&](u32 to, i32 s0) { // t is stored by key
#pragma unroll
      for (int i = 0; i < STEP; i += 8) {
        i32 key = s0 + warp + i, row = r0 + lane * 4;
        bool there = key < a.keys && row < a.rows && !(a.causal && key > row + 3);
        copy16(to + ((warp + i) * Y::PITCH + lane * 4) * 4, there ? kept<f32>(g, batch, key) + row : k, there ? 16 : 0);
      }
      X::template load<STEP, 256>(to + TT, k, a.ks[0], s0, a.keys, a.depth);
      asm volatile("cp.async.commit_group;");
    };
    __syncthreads();
    bring(stages, 0);
    f32 r[2][N][4][4] = {};
    u32 stage = 0;
#pragma unroll 1
    for (i32 s0 = 0; s0 < end; s0 += STEP, stage ^= 1) {
      asm volatile("cp.async.wait_group 0;");
      __syncthreads();
      if (s0 + STEP < end) bring(stages + (stage ^ 1) * STAGE, s0 + STEP);
      const f32 *t = (const f32*)(room + stage * STAGE), *y = (const f32*)(room + stage * STAGE + TT);
#pragma unroll
      for (int n = 0; n < N; n++) {
        f32 part[2][4][4] = {};
#pragma unroll
        for (int j = 0; j < STEP / 8; j++) {
          Split<8> b;
          below<W>(b, y, j * 8, c0 + n * 32);
          const f32* from = t + (j * 8 + (lane & 3) * 2) * Y::PITCH + first + (lane >> 2);
#pragma unroll
          for (int h = 0; h < 2; h++) {
            Split<4> x;
#pragma unroll
            for (int e = 0; e < 4; e++) split(x, e, from[(e >> 1) * Y::PITCH + h * 16 + (e & 1) * 8]);
#pragma unroll
            for (int i = 0; i < 4; i++) mma(part[h][i], x, b, i * 2);
          }
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
          for (int i = 0; i < 4; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) r[h][n][i][e] += part[h][i][e];
      }
    }
    asm volatile("cp.async.wait_group 0;");
    bool bad = false;
#pragma unroll
    for (int h = 0; h < 2; h++)
      bad |= store<W / 2>((f32*)g.dq + result_at(a, batch, a.rows, a.depth), row_step(a, a.depth), r[h], r0 + first + h * 16 + (lane >> 2), c0, a.rows, a.depth, (f32)a.scale, (f32)a.scale);
    again<ROWS>(a, batch, at.block, a.rows, bad);
  }
}

#define GRAD(W, BLOCKS)                                                                                                               \
  KERNEL __launch_bounds__(256, 1) attention_dkv_split##W##_f32(const __grid_constant__ AttentionGrad g) { keys<W>(g); }             \
  KERNEL __launch_bounds__(256, BLOCKS) attention_dq_split##W##_f32(const __grid_constant__ AttentionGrad g) { queries<W>(g); }
GRAD(64, 2) GRAD(128, 1)
