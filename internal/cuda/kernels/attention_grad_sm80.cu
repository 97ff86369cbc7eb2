// The gradients of attention on the tensor cores, for float16 and bfloat16 with heads of up
// to 128. Nothing of the size of the scores is stored, and no two blocks add to one sum, so
// that results repeat.
//
// One template serves dq as well as dk and dv. Its blocks own rows of two matrices x1 and x2
// (queries and g, or keys and v) and iterate over the rows of two others, y1 and y2 (keys
// and v, or queries and g):
//
//	s = x1·y1ᵀ, d = x2·y2ᵀ, p = the weights, t = p·(d - Σ g·y), dx1 = t·y1, dx2 = p·y2
//
// where dx2 exists only for keys. A warp keeps s, d, dx1 and dx2 of its rows in registers.
#include "attention_mma.cuh"

extern __shared__ __align__(128) char room[];

// MT: a warp has 16·MT rows; BS: rows of y in a stage.
template <class T, int W, int MT, int BS, bool KEYS, bool MASK> struct Grad {
  enum { BO = 64 * MT, TILE = BS * W * 2, OWN = BO * W * 2 };
  f32 a1[MT][W / 8][4], a2[KEYS ? MT : 1][W / 8][4];

  static METHOD Vec<f32, 2> stats_of(const AttentionGrad& g, const f32* stats, i32 r) {
    Vec<f32, 2> none = {{INF_F, 0.0f}};
    return r < g.a.rows ? *(const Vec<f32, 2>*)(stats + (i64)r * 2) : none;
  }

  // product adds the k-th part of the warp's rows of x times those of y.
  static METHOD void product(f32 (&sum)[MT][BS / 8][4], u32 x, u32 y, int row, int k) {
    u32 a[MT][4];
#pragma unroll
    for (int i = 0; i < MT; i++) left_operand<W>(a[i], x, row + i * 16, k);
#pragma unroll
    for (int j = 0; j < BS / 16; j++) {
      u32 b[4];
      right_operand<W>(b, y, j * 16, k);
#pragma unroll
      for (int i = 0; i < MT; i++) {
        mma(sum[i][2 * j], a[i], b, (T*)0);
        mma(sum[i][2 * j + 1], a[i], b + 2, (T*)0);
      }
    }
  }

  template <bool CHECK> METHOD void step(const AttentionGrad& g, const f32* stats, const Vec<f32, 2> (&own)[MT][2], u32 x1, u32 x2, u32 y1, u32 y2, i32 o0, i32 s0, f32 scale, i64 mask) {
    const Attention& p = g.a;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Vec<f32, 2> theirs[KEYS ? BS / 8 : 1][2];
    if (KEYS) {
#pragma unroll
      for (int j = 0; j < BS / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) theirs[KEYS ? j : 0][e] = stats_of(g, stats, s0 + j * 8 + (lane & 3) * 2 + e);
    }
    f32 s[MT][BS / 8][4] = {}, d[MT][BS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < W / 16; k++) {
      product(s, x1, y1, warp * MT * 16, k);
      product(d, x2, y2, warp * MT * 16, k);
    }
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
      for (int j = 0; j < BS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          Vec<f32, 2> st = KEYS ? theirs[KEYS ? j : 0][e & 1] : own[i][e >> 1];
          f32 x = s[i][j][e] * scale;
          if (CHECK || MASK) {
            i32 owned = o0 + warp * MT * 16 + i * 16 + (lane >> 2) + (e >> 1) * 8, other = s0 + j * 8 + (lane & 3) * 2 + (e & 1);
            i32 row = KEYS ? other : owned, col = KEYS ? owned : other;
            if (MASK && row < p.rows && col < p.keys) x += mask_at<T, f32>(p, mask, row, col);
            if (col >= p.keys || (p.causal && col > row)) x = -INF_F;
          }
          f32 w = power2(x - st.v[0]);
          s[i][j][e] = w;
          d[i][j][e] = w * (d[i][j][e] - st.v[1]);
        }
#pragma unroll
    for (int r = 0; r < BS / 16; r++) {
      u32 a[MT][4];
#pragma unroll
      for (int i = 0; i < MT; i++) as_left<T>(a[i], &d[i][2 * r]);
#pragma unroll
      for (int j = 0; j < W / 16; j++) {
        u32 b[4];
        right_transposed<W>(b, y1, r * 16, j);
#pragma unroll
        for (int i = 0; i < MT; i++) {
          mma(a1[i][2 * j], a[i], b, (T*)0);
          mma(a1[i][2 * j + 1], a[i], b + 2, (T*)0);
        }
      }
      if (KEYS) {
#pragma unroll
        for (int i = 0; i < MT; i++) as_left<T>(a[i], &s[i][2 * r]);
#pragma unroll
        for (int j = 0; j < W / 16; j++) {
          u32 b[4];
          right_transposed<W>(b, y2, r * 16, j);
#pragma unroll
          for (int i = 0; i < MT; i++) {
            mma(a2[KEYS ? i : 0][2 * j], a[i], b, (T*)0);
            mma(a2[KEYS ? i : 0][2 * j + 1], a[i], b + 2, (T*)0);
          }
        }
      }
    }
  }

  METHOD void run(const AttentionGrad& g) {
    const Attention& p = g.a;
    u32 x1 = shared_address(room), x2 = x1 + OWN, stages = x2 + OWN;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    // Under a causal mask the first keys and the last queries have the most work: they start first.
    i32 o0 = (p.causal && !KEYS ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BO;
    f32 scale = (f32)(p.scale * LOG2E);
    for (u64 batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
      i64 off[3], offg[2];
      offsets<3>(p.batch, batch, off);
      offsets<2>(g.gy, batch, offg);
      const T *q = (const T*)p.q + off[0], *k = (const T*)p.k + off[1], *v = (const T*)p.v + off[2], *dy = (const T*)g.g + offg[0];
      const f32* stats = (const f32*)g.stats + batch * p.rows * 2;
      i64 mask = MASK ? offset(p.maskBatch, batch) : 0;
      i32 begin = KEYS && p.causal ? o0 / BS * BS : 0, end = KEYS ? p.rows : p.causal && o0 + BO < p.keys ? o0 + BO : p.keys;
      // Between these no key is masked or missing.
      i32 clearFrom = KEYS && p.causal ? (o0 + BO + BS - 1) / BS * BS : 0;
      i32 clearTo = KEYS ? p.rows : p.causal && o0 < p.keys ? o0 / BS * BS : p.keys / BS * BS;
      Loader<T, BS, W, 128> l1, l2;
      l1.init(KEYS ? q : k, KEYS ? p.qs[0] : p.ks[0], KEYS ? p.rows : p.keys, p.depth);
      l2.init(KEYS ? dy : v, KEYS ? g.gs[0] : p.vs[0], KEYS ? p.rows : p.keys, p.width);
      __syncthreads();
      {
        Loader<T, BO, W, 128> l;
        l.init(KEYS ? k : q, KEYS ? p.ks[0] : p.qs[0], KEYS ? p.keys : p.rows, p.depth);
        l.load(x1, o0);
        l.init(KEYS ? v : dy, KEYS ? p.vs[0] : g.gs[0], KEYS ? p.keys : p.rows, p.width);
        l.load(x2, o0);
      }
      if (begin < end) {
        l1.load(stages, begin);
        l2.load(stages + TILE, begin);
      }
      asm volatile("cp.async.commit_group;");
      Vec<f32, 2> own[MT][2];
#pragma unroll
      for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int h = 0; h < 2 && !KEYS; h++) own[i][h] = stats_of(g, stats, o0 + warp * MT * 16 + i * 16 + h * 8 + (lane >> 2));
#pragma unroll
        for (int j = 0; j < W / 8; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            a1[i][j][e] = 0;
            if (KEYS) a2[KEYS ? i : 0][j][e] = 0;
          }
      }
      u32 stage = stages, next = stages + 2 * TILE;
#pragma unroll 1
      for (i32 s0 = begin; s0 < end; s0 += BS) {
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        if (s0 + BS < end) {
          l1.load(next, s0 + BS);
          l2.load(next + TILE, s0 + BS);
        }
        asm volatile("cp.async.commit_group;");
        if (!MASK && s0 >= clearFrom && s0 + BS <= clearTo) step<false>(g, stats, own, x1, x2, stage, stage + TILE, o0, s0, scale, mask);
        else step<true>(g, stats, own, x1, x2, stage, stage + TILE, o0, s0, scale, mask);
        u32 t = stage;
        stage = next;
        next = t;
      }
      asm volatile("cp.async.wait_group 0;");
      i32 rows = KEYS ? p.keys : p.rows;
#pragma unroll
      for (int i = 0; i < MT; i++) {
        i32 row = o0 + warp * MT * 16 + i * 16 + (lane >> 2);
        store<T, W>((T*)(KEYS ? g.dk : g.dq) + result_at(p, batch, rows, p.depth), row_step(p, p.depth), a1[i], row, rows, p.depth, (f32)p.scale, (f32)p.scale);
        if (KEYS) store<T, W>((T*)g.dv + result_at(p, batch, rows, p.width), row_step(p, p.width), a2[KEYS ? i : 0], row, rows, p.width, 1.0f, 1.0f);
      }
    }
  }
};

#define GRAD(T, W, NAME, MASK, KMT, KBS)                                                                                                                                   \
  KERNEL __launch_bounds__(128, 2) attention_dq##W##_##NAME##T(const __grid_constant__ AttentionGrad g) { Grad<T, W, 2, 32, false, MASK> x; x.run(g); }                    \
  KERNEL __launch_bounds__(128, 2) attention_dkv##W##_##NAME##T(const __grid_constant__ AttentionGrad g) { Grad<T, W, KMT, KBS, true, MASK> x; x.run(g); }
#define TYPE(T) GRAD(T, 64, , false, 2, 32) GRAD(T, 128, , false, 1, 64) GRAD(T, 64, masked_, true, 2, 32) GRAD(T, 128, masked_, true, 1, 64)
HALF_TYPES(TYPE)
