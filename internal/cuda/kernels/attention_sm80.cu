// Attention on the tensor cores, for float16 and bfloat16 with heads of up to
// 128: see attention.cu for the method. A block takes 128 queries, each of its 4 warps 32,
// so that what is loaded of a key serves two products, and iterates over the keys, 64 at a
// time. Scores, probabilities and the result stay in registers; sums are float32.
#include "attention_mma.cuh"

#define BQ 128
#define BK 64
extern __shared__ __align__(128) char room[];

// State of a warp's 32 queries: m is the largest score, to base 2, and l the sum of weights.
template <int W> struct State {
  f32 o[2][W / 8][4], m[2][2], l[2][2];
  u32 q[2][W <= 64 ? W / 16 : 1][4]; // small heads stay in registers
};

// step adds the keys from k0 on. CHECK: some of the scores may be masked.
template <class T, int W, bool CHECK, bool MASK> DEV void step(const Attention& p, State<W>& s, u32 tq, u32 tk, u32 tv, i32 row, i32 k0, f32 scale, i64 mask) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  f32 c[2][BK / 8][4] = {};
#pragma unroll
  for (int d = 0; d < W / 16; d++) {
    u32 a[2][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (W > 64) left_operand<W>(a[i], tq, warp * 32 + i * 16, d);
#pragma unroll
    for (int j = 0; j < BK / 16; j++) {
      u32 b[4];
      right_operand<W>(b, tk, j * 16, d);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const u32* left = W > 64 ? a[i] : s.q[i][W > 64 ? 0 : d];
        mma(c[i][2 * j], left, b, (T*)0);
        mma(c[i][2 * j + 1], left, b + 2, (T*)0);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      f32 best = -INF_F;
#pragma unroll
      for (int j = 0; j < BK / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          f32& x = c[i][j][h * 2 + e];
          if (CHECK) {
            i32 r = row + i * 16 + h * 8, col = k0 + j * 8 + (lane & 3) * 2 + e;
            x = col >= p.keys || (p.causal && col > r) ? -INF_F : x * scale;
            if (MASK && col < p.keys && r < p.rows) x += mask_at<T, f32>(p, mask, r, col);
          }
          best = fmaxf(best, x);
        }
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
      f32 m = fmaxf(s.m[i][h], CHECK ? best : best * scale);
      f32 from = m == -INF_F ? 0.0f : m, shrink = power2(s.m[i][h] - from), sum = 0; // -∞: all keys so far are masked
      s.m[i][h] = m;
#pragma unroll
      for (int j = 0; j < BK / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          f32& x = c[i][j][h * 2 + e];
          x = power2(CHECK ? x - from : x * scale - from);
          sum += x;
        }
      s.l[i][h] = s.l[i][h] * shrink + sum;
#pragma unroll
      for (int j = 0; j < W / 8; j++) {
        s.o[i][j][h * 2] *= shrink;
        s.o[i][j][h * 2 + 1] *= shrink;
      }
    }
#pragma unroll
  for (int r = 0; r < BK / 16; r++) {
    u32 a[2][4];
    as_left<T>(a[0], &c[0][2 * r]);
    as_left<T>(a[1], &c[1][2 * r]);
#pragma unroll
    for (int j = 0; j < W / 16; j++) {
      u32 b[4];
      right_transposed<W>(b, tv, r * 16, j);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        mma(s.o[i][2 * j], a[i], b, (T*)0);
        mma(s.o[i][2 * j + 1], a[i], b + 2, (T*)0);
      }
    }
  }
}

template <class T, int W, bool MASK> DEV void attend(const Attention& p) {
  const u32 TILE = BK * W * 2;
  u32 tq = shared_address(room), stages = tq + BQ * W * 2; // q, and two stages of k and v
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  // Under a causal mask later queries attend to more keys: their blocks start first.
  i32 q0 = (p.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BQ;
  f32 scale = (f32)(p.scale * LOG2E);
  for (u64 batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
    i64 off[3];
    offsets<3>(p.batch, batch, off);
    const T *q = (const T*)p.q + off[0], *k = (const T*)p.k + off[1], *v = (const T*)p.v + off[2];
    i64 mask = MASK ? offset(p.maskBatch, batch) : 0;
    i32 last = p.causal && q0 + BQ < p.keys ? q0 + BQ : p.keys;
    // No score is masked up to here.
    i32 clear = MASK || scale <= 0 || q0 + BQ > p.rows ? 0 : p.causal && q0 < p.keys ? q0 / BK * BK : p.keys / BK * BK;
    Loader<T, BK, W, 128> lk, lv;
    lk.init(k, p.ks[0], p.keys, p.depth);
    lv.init(v, p.vs[0], p.keys, p.width);
    __syncthreads();
    {
      Loader<T, BQ, W, 128> lq;
      lq.init(q, p.qs[0], p.rows, p.depth);
      lq.load(tq, q0);
    }
    lk.load(stages, 0);
    lv.load(stages + TILE, 0);
    asm volatile("cp.async.commit_group;");
    State<W> s;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int j = 0; j < W / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) s.o[i][j][e] = 0;
      s.m[i][0] = s.m[i][1] = -INF_F;
      s.l[i][0] = s.l[i][1] = 0;
    }
    if (W <= 64) {
      asm volatile("cp.async.wait_group 0;");
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int d = 0; d < W / 16; d++) left_operand<W>(s.q[i][W <= 64 ? d : 0], tq, warp * 32 + i * 16, d);
    }
    i32 row = q0 + warp * 32 + (lane >> 2);
    u32 stage = stages, next = stages + 2 * TILE;
    i32 k0 = 0;
    auto arrive = [&] { // waits for this stage and starts loading the next
      asm volatile("cp.async.wait_group 0;");
      __syncthreads();
      if (k0 + BK < last) {
        lk.load(next, k0 + BK);
        lv.load(next + TILE, k0 + BK);
      }
      asm volatile("cp.async.commit_group;");
    };
    auto turn = [&] {
      u32 t = stage;
      stage = next;
      next = t;
    };
#pragma unroll 1
    for (; !MASK && k0 < clear; k0 += BK) {
      arrive();
      step<T, W, false, MASK>(p, s, tq, stage, stage + TILE, row, k0, scale, mask);
      turn();
    }
#pragma unroll 1
    for (; k0 < last; k0 += BK) {
      arrive();
      step<T, W, true, MASK>(p, s, tq, stage, stage + TILE, row, k0, scale, mask);
      turn();
    }
    asm volatile("cp.async.wait_group 0;");
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        s.l[i][h] += __shfl_xor_sync(~0u, s.l[i][h], 1);
        s.l[i][h] += __shfl_xor_sync(~0u, s.l[i][h], 2);
      }
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        i32 r = row + i * 16 + h * 8;
        if (p.saved && (lane & 3) == 0 && r < p.rows) save(p, batch * p.rows + r, s.m[i][h], s.l[i][h]);
      }
      store<T, W>((T*)p.out + result_at(p, batch, p.rows, p.width), row_step(p, p.width), s.o[i], row + i * 16, p.rows, p.width, s.l[i][0] == 0.0f ? 0.0f : 1.0f / s.l[i][0],
                  s.l[i][1] == 0.0f ? 0.0f : 1.0f / s.l[i][1]); // all keys are masked: 0
    }
  }
}

#define ATTEND(T, W) \
  KERNEL __launch_bounds__(128, 2) attention_mma##W##_##T(const __grid_constant__ Attention p) { attend<T, W, false>(p); }
#define MASKED(T, W) \
  KERNEL __launch_bounds__(128, 2) attention_mma##W##_masked_##T(const __grid_constant__ Attention p) { attend<T, W, true>(p); }
#define TYPE(T) ATTEND(T, 32) ATTEND(T, 64) ATTEND(T, 96) ATTEND(T, 128) MASKED(T, 64) MASKED(T, 128)
HALF_TYPES(TYPE)
