// Attention on Hopper's tensor cores, for float16 and bfloat16 with heads of up
// to 128: see attention.cu for the method.
//
// One warpgroup loads tiles of keys and values into shared memory, two stages of each. The
// others take 64 queries each: the scores of the next keys are computed together with the
// products of the present probabilities and values, and while the latter still run, the
// next scores become probabilities. Blocks are persistent: each takes one piece of work
// after another, so that the operands of the next arrive while the last one ends.
#include "attention_wgmma.cuh"

extern __shared__ __align__(1024) char room[];

template <class T, int W, int GROUPS, int BK, bool TURNS, bool MASK> struct Attend {
  enum { BQ = GROUPS * 64, TILE = BK * W * 2, QTILE = BQ * W * 2 };
  static_assert(!TURNS || GROUPS == 2, "two take turns");

  // Barriers, by number: keys are full, keys are free, values are full, values are free,
  // two of each; queries are full, queries are free.
  static METHOD u32 bar(u32 bars, int what, int stage) { return bars + (what * 2 + stage) * 8; }

  // Work is a block of queries of one matrix. Under a causal mask later queries attend to
  // more keys: those of all matrices come first.
  struct Work {
    i32 q0, tiles;
    u64 batch;
    METHOD Work(const Attention& p, u32 i) {
      u32 blocks = (p.rows + BQ - 1) / BQ;
      if (p.causal) {
        batch = i % (u32)p.batches;
        q0 = (blocks - 1 - i / (u32)p.batches) * BQ;
      } else {
        batch = i / blocks;
        q0 = i % blocks * BQ;
      }
      i32 last = p.causal && q0 + BQ < p.keys ? q0 + BQ : p.keys;
      tiles = (last + BK - 1) / BK;
    }
    static METHOD u32 count(const Attention& p) { return (p.rows + BQ - 1) / BQ * (u32)p.batches; }
  };

  static METHOD void produce(const Attention& p, u32 tq, u32 bars) {
    u32 tk = tq + QTILE, tv = tk + 2 * TILE, n = 0, turn = 0;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < Work::count(p); i += gridDim.x, turn ^= 1) {
      Work work(p, i);
      i64 off[3];
      offsets<3>(p.batch, work.batch, off);
      const T *k = (const T*)p.k + off[1], *v = (const T*)p.v + off[2];
      barrier_wait(bar(bars, 4, 1), turn ^ 1);
      load<T, BQ, W>(tq, (const T*)p.q + off[0], p.qs[0], work.q0, p.rows, p.depth);
#pragma unroll 1
      for (i32 j = 0; j < work.tiles; j++, n++) {
        int stage = n & 1, parity = (n >> 1 & 1) ^ 1;
        barrier_wait(bar(bars, 1, stage), parity);
        load<T, BK, W>(tk + stage * TILE, k, p.ks[0], j * BK, p.keys, p.depth);
        asm volatile("cp.async.commit_group;");
        if (n) {
          asm volatile("cp.async.wait_group 1;");
          copies_arrived(bar(bars, 2, stage ^ 1));
        }
        barrier_wait(bar(bars, 3, stage), parity);
        load<T, BK, W>(tv + stage * TILE, v, p.vs[0], j * BK, p.keys, p.width);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        copies_arrived(bar(bars, 0, stage));
        if (j == 0) barrier_arrive(bar(bars, 4, 0));
      }
    }
    asm volatile("cp.async.wait_group 0;");
    copies_arrived(bar(bars, 2, (n - 1) & 1));
  }

  static METHOD void scores(f32 (&c)[BK / 2], u32 q, u32 k) {
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < W / 16; d++) wgmma(c, along(q + (d >> 2) * BQ * 128) + (d & 3) * 2, along(k + (d >> 2) * BK * 128) + (d & 3) * 2, d != 0, (T*)0);
    wgmma_commit();
  }
  static METHOD void values(f32 (&o)[W / 2], const u32 (&w)[BK / 4], u32 v) {
    wgmma_begin();
#pragma unroll
    for (int r = 0; r < BK / 16; r++) wgmma(o, &w[r * 4], across<BK>(v) + r * 128, (T*)0);
    wgmma_commit();
  }
  // weigh turns scores into weights relative to the largest score so far, m, and sets
  // shrink to the factor by which earlier ones must be multiplied.
  static METHOD void weigh(const Attention& p, f32 (&c)[BK / 2], f32 (&m)[2], f32 (&l)[2], f32 (&shrink)[2], i32 row, i32 first, i32 k0, f32 scale, i64 mask) {
    int lane = threadIdx.x & 31;
    if (MASK || k0 + BK > p.keys || (p.causal && k0 + BK - 1 > first)) {
#pragma unroll
      for (int i = 0; i < BK / 2; i++) {
        i32 r = row + (i >> 1 & 1) * 8, col = k0 + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1);
        if (MASK && col < p.keys && r < p.rows) c[i] += mask_at<T, f32>(p, mask, r, col) / scale;
        if (col >= p.keys || (p.causal && col > r)) c[i] = -INF_F;
      }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      f32 best = m[h];
#pragma unroll
      for (int i = 0; i < BK / 8; i++) best = fmaxf(best, fmaxf(c[i * 4 + h * 2], c[i * 4 + h * 2 + 1]));
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
      f32 from = best == -INF_F ? 0.0f : best * scale, sum = 0;
      shrink[h] = power2(m[h] * scale - from);
      m[h] = best;
#pragma unroll
      for (int i = 0; i < BK / 8; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          f32& x = c[i * 4 + h * 2 + e];
          x = power2(x * scale - from);
          sum += x;
        }
      l[h] = l[h] * shrink[h] + sum;
    }
  }
  static METHOD void narrow(u32 (&w)[BK / 4], const f32 (&c)[BK / 2]) {
#pragma unroll
    for (int i = 0; i < BK / 4; i++) w[i] = pack(c[i * 2], c[i * 2 + 1], (T*)0);
  }

  static METHOD void consume(const Attention& p, u32 tq, u32 bars) {
    u32 tk = tq + QTILE, tv = tk + 2 * TILE, n = 0, turn = 0;
    int group = threadIdx.x >> 7, lane = threadIdx.x & 31;
    bool one = (threadIdx.x & 127) == 0;
    f32 scale = (f32)(p.scale * LOG2E);
    auto my_turn = [&] { if (TURNS) asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory"); };
    auto your_turn = [&](bool end) { if (TURNS && !(group && end)) asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory"); };
    if (TURNS && group) your_turn(false);
#pragma unroll 1
    for (u32 i = blockIdx.x; i < Work::count(p); i += gridDim.x, turn ^= 1) {
      Work work(p, i);
      i64 mask = MASK ? offset(p.maskBatch, work.batch) : 0;
      bool end = i + gridDim.x >= Work::count(p);
      i32 first = work.q0 + group * 64, row = first + (threadIdx.x >> 5 & 3) * 16 + (lane >> 2);
      f32 c[BK / 2], o[W / 2], m[2] = {-INF_F, -INF_F}, l[2] = {0, 0}, shrink[2];
      u32 w[BK / 4];
#pragma unroll
      for (int i = 0; i < W / 2; i++) o[i] = 0;
      u32 q = tq + group * 64 * 128;
      barrier_wait(bar(bars, 4, 0), turn);
      barrier_wait(bar(bars, 0, n & 1), n >> 1 & 1);
      my_turn();
      scores(c, q, tk + (n & 1) * TILE);
      your_turn(end && work.tiles == 1);
      wgmma_wait<0>();
      settle(c);
      if (one) barrier_arrive(bar(bars, 1, n & 1));
      if (one && work.tiles == 1) barrier_arrive(bar(bars, 4, 1));
      weigh(p, c, m, l, shrink, row, first, 0, scale, mask);
      narrow(w, c);
      n++;
#pragma unroll 1
      for (i32 j = 1; j < work.tiles; j++, n++) {
        int stage = n & 1;
        barrier_wait(bar(bars, 0, stage), n >> 1 & 1);
        my_turn();
        scores(c, q, tk + stage * TILE);
        barrier_wait(bar(bars, 2, stage ^ 1), (n - 1) >> 1 & 1);
        values(o, w, tv + (stage ^ 1) * TILE);
        your_turn(end && j == work.tiles - 1);
        wgmma_wait<1>();
        settle(c);
        if (one) barrier_arrive(bar(bars, 1, stage));
        if (one && j == work.tiles - 1) barrier_arrive(bar(bars, 4, 1));
        weigh(p, c, m, l, shrink, row, first, j * BK, scale, mask);
        wgmma_wait<0>();
        settle(o);
        if (one) barrier_arrive(bar(bars, 3, stage ^ 1));
#pragma unroll
        for (int i = 0; i < W / 2; i++) o[i] *= shrink[i >> 1 & 1];
        narrow(w, c);
      }
      int stage = (n - 1) & 1;
      barrier_wait(bar(bars, 2, stage), (n - 1) >> 1 & 1);
      values(o, w, tv + stage * TILE);
      wgmma_wait<0>();
      settle(o);
      if (one) barrier_arrive(bar(bars, 3, stage));
      T* out = (T*)p.out + result_at(p, work.batch, p.rows, p.width);
      i64 down = row_step(p, p.width);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        l[h] += __shfl_xor_sync(~0u, l[h], 1);
        l[h] += __shfl_xor_sync(~0u, l[h], 2);
        f32 f = l[h] == 0.0f ? 0.0f : 1.0f / l[h]; // all keys are masked: 0
        if (row + h * 8 >= p.rows) continue;
        if (p.saved && (lane & 3) == 0) save(p, work.batch * p.rows + row + h * 8, m[h] * scale, l[h]);
        T* to = out + (row + h * 8) * down;
#pragma unroll
        for (int j = 0; j < W / 8; j++) {
          i32 col = j * 8 + (lane & 3) * 2;
          if (col + 1 < p.width && (p.width & 1) == 0) {
            *(u32*)(to + col) = pack(o[j * 4 + h * 2] * f, o[j * 4 + h * 2 + 1] * f, (T*)0);
          } else {
            if (col < p.width) put(to[col], o[j * 4 + h * 2] * f);
            if (col + 1 < p.width) put(to[col + 1], o[j * 4 + h * 2 + 1] * f);
          }
        }
      }
    }
  }

  static METHOD void run(const Attention& p) {
    __shared__ u64 barriers[10];
    u32 tq = ((u32)__cvta_generic_to_shared(room) + 1023) & ~1023u, bars = (u32)__cvta_generic_to_shared(barriers);
    if (threadIdx.x < 10) barrier_init(bars + threadIdx.x * 8, threadIdx.x == 9 || (threadIdx.x < 8 && threadIdx.x & 2) ? GROUPS : 128);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x >= GROUPS * 128) {
      if (GROUPS == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
      if (GROUPS == 3) asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
      produce(p, tq, bars);
    } else {
      if (GROUPS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
      if (GROUPS == 3) asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
      consume(p, tq, bars);
    }
  }
};

#define ATTEND(T, W, G, TURNS, NAME, MASK) \
  KERNEL __launch_bounds__(G * 128 + 128, 1) attention_wgmma##W##_##G##_##NAME##T(const __grid_constant__ Attention p) { Attend<T, W, G, 128, TURNS, MASK>::run(p); }
#define TYPE(T)                                                                                                                        \
  ATTEND(T, 64, 2, false, , false) ATTEND(T, 64, 3, false, , false) ATTEND(T, 128, 2, true, , false)                                   \
  ATTEND(T, 64, 2, false, masked_, true) ATTEND(T, 128, 2, true, masked_, true)
HALF_TYPES(TYPE)
