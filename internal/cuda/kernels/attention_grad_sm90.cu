// The gradients of attention on Hopper's tensor cores, for float16 and bfloat16
// with heads of up to 128: see attention_grad_sm80.cu for the method.
//
// Two warpgroups own 64 rows each of x1 and x2, which are in shared memory; a third loads
// tiles of 64 rows of y1 and y2 (and for keys their statistics), three stages of them. The
// scores of the next tile are queued behind the sums of the present one, where there are
// enough registers. Blocks are persistent: each takes one piece of work after another.
#include "attention_wgmma.cuh"

extern __shared__ __align__(1024) char room[];

template <class T, int W, bool KEYS, bool MASK> struct Grad {
  enum { BO = 128, BS = 64, STAGES = 3, TILE = BS * W * 2, OWN = BO * W * 2, STAGE = 2 * TILE + 1024, AHEAD = !KEYS || W == 64 };

  // Barriers: a tile is full, a tile is free (STAGES of each); the owned rows are full, are free.
  static METHOD u32 there(u32 bars, int stage) { return bars + stage * 8; }
  static METHOD u32 free(u32 bars, int stage) { return bars + (STAGES + stage) * 8; }
  static METHOD u32 owned(u32 bars, int free) { return bars + (2 * STAGES + free) * 8; }

  // Work is a block of owned rows of one matrix, and the range of the other rows.
  // Under a causal mask the blocks with the most work come first.
  struct Work {
    i32 o0, begin, end;
    u64 batch;
    METHOD Work(const Attention& p, u32 i) {
      u32 blocks = ((KEYS ? p.keys : p.rows) + BO - 1) / BO;
      if (p.causal) {
        batch = i % (u32)p.batches;
        o0 = (KEYS ? i / (u32)p.batches : blocks - 1 - i / (u32)p.batches) * BO;
      } else {
        batch = i / blocks;
        o0 = i % blocks * BO;
      }
      begin = KEYS && p.causal ? o0 / BS * BS : 0;
      end = KEYS ? p.rows : p.causal && o0 + BO < p.keys ? o0 + BO : p.keys;
    }
    static METHOD u32 count(const Attention& p) { return ((KEYS ? p.keys : p.rows) + BO - 1) / BO * (u32)p.batches; }
  };

  static METHOD void produce(const AttentionGrad& g, u32 x1, u32 stages, u32 bars) {
    const Attention& p = g.a;
    u32 turn = 0, parity = 0;
    int stage = 0, last = -1;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < Work::count(p); i += gridDim.x) {
      Work work(p, i);
      if (work.begin >= work.end) continue;
      i64 off[3], offg[2];
      offsets<3>(p.batch, work.batch, off);
      offsets<2>(g.gy, work.batch, offg);
      const T *q = (const T*)p.q + off[0], *k = (const T*)p.k + off[1], *v = (const T*)p.v + off[2], *dy = (const T*)g.g + offg[0];
      const f32* stats = (const f32*)g.stats + work.batch * p.rows * 2;
      barrier_wait(owned(bars, 1), turn ^ 1);
      turn ^= 1;
      load<T, BO, W>(x1, KEYS ? k : q, KEYS ? p.ks[0] : p.qs[0], work.o0, KEYS ? p.keys : p.rows, p.depth);
      load<T, BO, W>(x1 + OWN, KEYS ? v : dy, KEYS ? p.vs[0] : g.gs[0], work.o0, KEYS ? p.keys : p.rows, p.width);
      bool first = true;
#pragma unroll 1
      for (i32 s0 = work.begin; s0 < work.end; s0 += BS) {
        u32 tile = stages + stage * STAGE;
        barrier_wait(free(bars, stage), parity ^ 1);
        load<T, BS, W>(tile, KEYS ? q : k, KEYS ? p.qs[0] : p.ks[0], s0, KEYS ? p.rows : p.keys, p.depth);
        load<T, BS, W>(tile + TILE, KEYS ? dy : v, KEYS ? g.gs[0] : p.vs[0], s0, KEYS ? p.rows : p.keys, p.width);
        if (KEYS && (threadIdx.x & 127) < BS) {
          i32 r = s0 + (threadIdx.x & 127);
          asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(tile + 2 * TILE + (threadIdx.x & 127) * 8), "l"(stats + (r < p.rows ? (i64)r * 2 : 0)), "r"(r < p.rows ? 8 : 0));
        }
        asm volatile("cp.async.commit_group;");
        if (last >= 0) {
          asm volatile("cp.async.wait_group 1;");
          copies_arrived(there(bars, last));
        }
        if (first) { // the owned rows must not wait for a second tile
          asm volatile("cp.async.wait_group 0;");
          copies_arrived(there(bars, stage));
          barrier_arrive(owned(bars, 0));
          last = -1;
        } else {
          last = stage;
        }
        first = false;
        if (++stage == STAGES) {
          stage = 0;
          parity ^= 1;
        }
      }
      if (last >= 0) {
        asm volatile("cp.async.wait_group 0;");
        copies_arrived(there(bars, last));
        last = -1;
      }
    }
  }

  static METHOD void product(f32 (&c)[BS / 2], u32 x, u32 y) {
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < W / 16; d++) wgmma(c, along(x + (d >> 2) * BO * 128) + (d & 3) * 2, along(y + (d >> 2) * BS * 128) + (d & 3) * 2, d != 0, (T*)0);
    wgmma_commit();
  }
  static METHOD void add(f32 (&o)[W / 2], const u32 (&w)[BS / 4], u32 y) {
#pragma unroll
    for (int r = 0; r < BS / 16; r++) wgmma(o, &w[r * 4], across<BS>(y) + r * 128, (T*)0);
  }
  static METHOD void narrow(u32 (&w)[BS / 4], const f32 (&c)[BS / 2]) {
#pragma unroll
    for (int i = 0; i < BS / 4; i++) w[i] = pack(c[i * 2], c[i * 2 + 1], (T*)0);
  }
  static METHOD void store(const Attention& p, void* to, const f32 (&c)[W / 2], u64 batch, i32 row, i32 rows, i32 cols, f32 f) {
T* first = (T*)to + result_at(p, batch, rows, cols);
    i64 step = row_step(p, cols);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (row + h * 8 >= rows) continue;
      T* out = first + (row + h * 8) * step;
#pragma unroll
      for (int j = 0; j < W / 8; j++) {
        i32 col = j * 8 + (threadIdx.x & 3) * 2;
        if (col + 1 < cols && (cols & 1) == 0) {
          *(u32*)(out + col) = pack(c[j * 4 + h * 2] * f, c[j * 4 + h * 2 + 1] * f, (T*)0);
        } else {
          if (col < cols) put(out[col], c[j * 4 + h * 2] * f);
          if (col + 1 < cols) put(out[col + 1], c[j * 4 + h * 2 + 1] * f);
        }
      }
    }
  }

  // The statistics of the rows that a thread's results i belong to.
  struct Stats {
    Vec<f32, 2> own[2];
    u32 tile;
    METHOD Vec<f32, 2> of(int i) const {
      if (!KEYS) return own[i >> 1 & 1];
      Vec<f32, 2> v;
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.v[0]), "=f"(v.v[1]) : "r"(tile + ((i >> 2) * 8 + (threadIdx.x & 3) * 2 + (i & 1)) * 8));
      return v;
    }
  };

  static METHOD void weigh(const Attention& p, f32 (&s)[BS / 2], const Stats& stats, i32 owned, i32 first, i32 s0, f32 scale, i64 mask) {
    bool check = MASK || (!KEYS && s0 + BS > p.keys) || (p.causal && (KEYS ? s0 < first + 63 : s0 + BS - 1 > first));
    if (check) {
#pragma unroll
      for (int i = 0; i < BS / 2; i++) {
        i32 mine = owned + (i >> 1 & 1) * 8, other = s0 + (i >> 2) * 8 + (threadIdx.x & 3) * 2 + (i & 1);
        i32 row = KEYS ? other : mine, col = KEYS ? mine : other;
        s[i] *= scale;
        if (MASK && row < p.rows && col < p.keys) s[i] += mask_at<T, f32>(p, mask, row, col);
        if (col >= p.keys || (p.causal && col > row)) s[i] = -INF_F;
      }
      scale = 1;
    }
#pragma unroll
    for (int i = 0; i < BS / 2; i++) s[i] = power2(s[i] * scale - stats.of(i).v[0]);
  }

  static METHOD void consume(const AttentionGrad& g, u32 x1, u32 stages, u32 bars) {
    const Attention& p = g.a;
    int group = threadIdx.x >> 7, lane = threadIdx.x & 31, stage = 0;
    u32 turn = 0, parity = 0, x = x1 + group * 64 * 128;
    bool one = (threadIdx.x & 127) == 0;
    f32 scale = (f32)(p.scale * LOG2E);
#pragma unroll 1
    for (u32 i = blockIdx.x; i < Work::count(p); i += gridDim.x) {
      Work work(p, i);
      i32 first = work.o0 + group * 64, row = first + (threadIdx.x >> 5 & 3) * 16 + (lane >> 2);
      i64 mask = MASK ? offset(p.maskBatch, work.batch) : 0;
      f32 s[BS / 2], d[BS / 2], a1[W / 2], a2[W / 2];
      u32 w[BS / 4], t[BS / 4];
#pragma unroll
      for (int i = 0; i < W / 2; i++) a1[i] = a2[i] = 0;
      Stats stats;
#pragma unroll
      for (int h = 0; h < 2 && !KEYS; h++) {
        Vec<f32, 2> none = {{INF_F, 0.0f}};
        stats.own[h] = row + h * 8 < p.rows ? *((const Vec<f32, 2>*)g.stats + work.batch * p.rows + row + h * 8) : none;
      }
      if (work.begin < work.end) {
        barrier_wait(owned(bars, 0), turn);
        turn ^= 1;
      }
      int last = -1;
#pragma unroll 1
      for (i32 s0 = work.begin; s0 < work.end; s0 += BS) {
        u32 y = stages + stage * STAGE;
        stats.tile = y + 2 * TILE;
        barrier_wait(there(bars, stage), parity);
        product(s, x, y);
        product(d, x + OWN, y + TILE);
        wgmma_wait<1>(); // the sums of the previous tile, and s
        settle(s);
        if (AHEAD && one && last >= 0) barrier_arrive(free(bars, last));
        weigh(p, s, stats, row, first, s0, scale, mask);
        wgmma_wait<0>();
        settle(d);
        if (one && s0 + BS >= work.end) barrier_arrive(owned(bars, 1));
#pragma unroll
        for (int i = 0; i < BS / 2; i++) d[i] = s[i] * (d[i] - stats.of(i).v[1]);
        if (KEYS) narrow(w, s);
        narrow(t, d);
        wgmma_begin();
        if (KEYS) add(a2, w, y + TILE);
        add(a1, t, y);
        wgmma_commit();
        if (!AHEAD) {
          wgmma_wait<0>();
          if (one) barrier_arrive(free(bars, stage));
        }
        last = stage;
        if (++stage == STAGES) {
          stage = 0;
          parity ^= 1;
        }
      }
      wgmma_wait<0>();
      settle(a1);
      if (KEYS) settle(a2);
      if (AHEAD && one && last >= 0) barrier_arrive(free(bars, last));
      store(p, KEYS ? g.dk : g.dq, a1, work.batch, row, KEYS ? p.keys : p.rows, p.depth, (f32)p.scale);
      if (KEYS) store(p, g.dv, a2, work.batch, row, p.keys, p.width, 1.0f);
    }
  }

  static METHOD void run(const AttentionGrad& g) {
    __shared__ u64 barriers[2 * STAGES + 2];
    u32 x1 = ((u32)__cvta_generic_to_shared(room) + 1023) & ~1023u, stages = x1 + 2 * OWN, bars = (u32)__cvta_generic_to_shared(barriers);
    if (threadIdx.x < 2 * STAGES + 2) barrier_init(bars + threadIdx.x * 8, threadIdx.x < STAGES || threadIdx.x == 2 * STAGES ? 128 : 2);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x >= 256) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
      produce(g, x1, stages, bars);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
      consume(g, x1, stages, bars);
    }
  }
};

#define GRAD(T, W, NAME, MASK)                                                                                                                                \
  KERNEL __launch_bounds__(384, 1) attention_wgmma_dq##W##_##NAME##T(const __grid_constant__ AttentionGrad g) { Grad<T, W, false, MASK>::run(g); }            \
  KERNEL __launch_bounds__(384, 1) attention_wgmma_dkv##W##_##NAME##T(const __grid_constant__ AttentionGrad g) { Grad<T, W, true, MASK>::run(g); }
#define TYPE(T) GRAD(T, 64, , false) GRAD(T, 128, , false) GRAD(T, 64, masked_, true) GRAD(T, 128, masked_, true)
HALF_TYPES(TYPE)
