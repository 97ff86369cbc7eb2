// Attention and its gradients without storing the scores, so that working memory does not
// grow with the length. These kernels take every element type, layout and size; those of
// …_sm80.cu and …_sm90.cu are faster for half-precision types and, as a rule, for float32.
//
// A block of 16×16 threads owns BO rows of one side (queries, or keys), iterates over the
// rows of the other, BS at a time, and computes DC columns of the result. The forward pass
// keeps a running maximum, sum and result per query. The gradients compute the weights
// from the rows' statistics (see AttentionGrad). With the owned rows x1, x2 and the others
// y1, y2, which are q, g and k, v for dq, or k, v and q, g for dk and dv,
//
//	s = x1·y1ᵀ, d = x2·y2ᵀ, p = the weights, t = p·(d - Σ g·y), dx1 = t·y1, dx2 = p·y2
//
// No two blocks add to one sum, so that results repeat. Where memory allows, the kernel of
// the keys stores t, and dq is a product with it: see Stored.
#include "attention.cuh"

enum Mode { FORWARD, QUERIES, KEYS };

extern __shared__ __align__(128) char room[];

// Matrix is a matrix in memory.
template <class T> struct Matrix {
  const T* p;
  i64 down, across;
  i32 rows, cols;
  bool wide; // four columns may be loaded at once
};
template <class T> DEV Matrix<T> matrix(const void* p, i64 at, const i64* stride, i32 rows, i32 cols, bool wide) {
  Matrix<T> m = {(const T*)p + at, stride[0], stride[1], rows, cols, wide};
  return m;
}

// again reports whether some of BO rows must be computed again.
template <int BO> DEV bool again(const u32* notes, u64 batch, i32 first, i32 rows) {
  notes += batch * ((rows + 63) / 64);
  bool any = false;
  for (i32 r = first; r < first + BO && r < rows; r += 64) any |= notes[r / 64] != 0;
  return any;
}

template <class T, int BO, int BS, int DC, int MODE> struct Simt {
  typedef typename Compute<T>::type A;
  enum { V = 16 / sizeof(A), OT = BO / 16, ST = BS / 16, CT = DC / 16, PITCH = DC + V, WEIGHTS = BS + V, GRAD = MODE >= QUERIES };
  static_assert(CT == V, "a thread's columns are one vector");
  A *x1, *x2, *y1, *y2, *p, *t; // in shared memory: [BO or BS][PITCH], [BO][WEIGHTS]
  int tx, ty;

  // fill copies rows and columns from (first, c0) on to shared memory; elements outside the matrix become 0.
  template <int ROWS> METHOD void fill(A* to, const Matrix<T>& m, i32 first, i32 c0) {
    enum { EACH = DC / 4, DOWN = 256 / EACH };
    int r = threadIdx.x / EACH, c = threadIdx.x % EACH * 4;
    const T* from = m.p + (i64)(first + r) * m.down;
    to += r * PITCH + c;
    if (m.wide && first + ROWS <= m.rows && c0 + DC <= m.cols) { // several loads in flight
      from += c0 + c;
#pragma unroll
      for (int i = 0; i < ROWS; i += DOWN * 4) {
        Vec<T, 4> v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (i + k * DOWN < ROWS) v[k] = *(const Vec<T, 4>*)(from + (i64)(i + k * DOWN) * m.down);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
          for (int e = 0; e < 4; e++)
            if (i + k * DOWN < ROWS) to[(i + k * DOWN) * PITCH + e] = get(v[k].v[e]);
      }
      return;
    }
#pragma unroll 1
    for (int i = 0; i < ROWS; i += DOWN)
#pragma unroll
      for (int e = 0; e < 4; e++)
        to[i * PITCH + e] = first + r + i < m.rows && c0 + c + e < m.cols ? get(from[(i64)i * m.down + (c0 + c + e) * m.across]) : A(0);
  }

  // dots adds products of owned rows ty, ty+16, … and other rows tx, tx+16, ….
  METHOD void dots(A (&c)[OT][ST], const A* x, const A* y) {
#pragma unroll 4
    for (int k = 0; k < DC; k += V) {
      Vec<A, V> b[ST]; // the smaller of the two sides
#pragma unroll
      for (int j = 0; j < ST; j++) b[j] = *(const Vec<A, V>*)(y + (tx + 16 * j) * PITCH + k);
#pragma unroll
      for (int i = 0; i < OT; i++) {
        Vec<A, V> a = *(const Vec<A, V>*)(x + (ty + 16 * i) * PITCH + k);
#pragma unroll
        for (int j = 0; j < ST; j++)
#pragma unroll
          for (int e = 0; e < V; e++) c[i][j] += a.v[e] * b[j].v[e];
      }
    }
  }
  // product computes x·yᵀ over all columns. If they are a single chunk, it is in shared
  // memory already; otherwise y holds the chunk from keep on afterwards.
  METHOD void product(A (&c)[OT][ST], A* x, const Matrix<T>& mx, i32 o0, A* y, const Matrix<T>& my, i32 s0, i32 keep) {
#pragma unroll
    for (int i = 0; i < OT; i++)
#pragma unroll
      for (int j = 0; j < ST; j++) c[i][j] = A(0);
    i32 c0 = 0;
    bool parts = mx.cols > DC;
#pragma unroll 1
    do {
      if (parts) bring<true>(x, mx, o0, y, my, s0, c0);
      dots(c, x, y);
      c0 += DC;
    } while (c0 < mx.cols);
    if (parts) bring<false>(x, mx, o0, y, my, s0, keep);
  }
  template <bool BOTH> METHOD void bring(A* x, const Matrix<T>& mx, i32 o0, A* y, const Matrix<T>& my, i32 s0, i32 c0) {
    __syncthreads();
    if (BOTH) fill<BO>(x, mx, o0, c0);
    fill<BS>(y, my, s0, c0);
    __syncthreads();
  }
  // add adds weights·y: columns CT·tx, … of owned rows.
  METHOD void add(A (&c)[OT][CT], const A* weights, const A* y) {
#pragma unroll 4
    for (int s = 0; s < BS; s += V) {
      Vec<A, CT> b[V];
#pragma unroll
      for (int e = 0; e < V; e++) b[e] = *(const Vec<A, CT>*)(y + (s + e) * PITCH + tx * CT);
#pragma unroll
      for (int i = 0; i < OT; i++) {
        Vec<A, V> a = *(const Vec<A, V>*)(weights + (ty + 16 * i) * WEIGHTS + s);
#pragma unroll
        for (int e = 0; e < V; e++)
#pragma unroll
          for (int j = 0; j < CT; j++) c[i][j] += a.v[e] * b[e].v[j];
      }
    }
  }
  METHOD void keep(A* to, const A (&c)[OT][ST]) {
#pragma unroll
    for (int i = 0; i < OT; i++)
#pragma unroll
      for (int j = 0; j < ST; j++) to[(ty + 16 * i) * WEIGHTS + tx + 16 * j] = c[i][j];
  }
  METHOD void store(const Attention& a, void* to, const A (&c)[OT][CT], u64 batch, i32 o0, i32 c0, i32 rows, i32 cols, A f) {
    T* out = (T*)to + result_at(a, batch, rows, cols);
    i64 step = row_step(a, cols);
#pragma unroll
    for (int i = 0; i < OT; i++)
#pragma unroll
      for (int j = 0; j < CT; j++) {
        i32 r = o0 + ty + 16 * i, col = c0 + tx * CT + j;
        if (r < rows && col < cols) put(out[r * step + col], c[i][j] * f);
      }
  }

  METHOD void run(const Attention& p_, const AttentionGrad* g) {
    const Attention& a = p_;
    x1 = (A*)room;
    x2 = x1 + BO * PITCH;
    y1 = GRAD ? x2 + BO * PITCH : x2;
    y2 = y1 + BS * PITCH;
    p = y2 + BS * PITCH;
    t = MODE == KEYS ? p + BO * WEIGHTS : p;
    tx = threadIdx.x & 15;
    ty = threadIdx.x >> 4;
    i32 o0 = (a.causal && MODE != KEYS ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BO, c0 = blockIdx.z * DC;
    A scale = (A)(a.scale * LOG2E);
    u64 last = GRAD ? g->last : a.batches;
    for (u64 batch = (GRAD ? g->first : 0) + blockIdx.y; batch < last; batch += gridDim.y) {
      if (a.again && !again<BO>(a.again, batch, o0, MODE == KEYS ? a.keys : a.rows)) continue;
      i64 off[3], offg[2] = {0, 0};
      offsets<3>(a.batch, batch, off);
      Matrix<T> q = matrix<T>(a.q, off[0], a.qs, a.rows, a.depth, a.wide & 1), k = matrix<T>(a.k, off[1], a.ks, a.keys, a.depth, a.wide & 2),
                v = matrix<T>(a.v, off[2], a.vs, a.keys, a.width, a.wide & 4), dy = v;
      if (GRAD) {
        offsets<2>(g->gy, batch, offg);
        dy = matrix<T>(g->g, offg[0], g->gs, a.rows, a.width, a.wide & 8);
      }
      A* stats = MODE == FORWARD ? 0 : (A*)g->stats + batch * a.rows * 2;
      const Matrix<T>&m1 = MODE == KEYS ? k : q, &m2 = MODE == KEYS ? v : dy, &n1 = MODE == KEYS ? q : k, &n2 = MODE == KEYS ? dy : v;
      i64 mask = a.maskKind ? offset(a.maskBatch, batch) : 0;
      i32 begin = MODE == KEYS && a.causal ? o0 / BS * BS : 0, end = MODE == KEYS ? a.rows : a.causal && o0 + BO < a.keys ? o0 + BO : a.keys;
      A m[OT], l[OT], r1[OT][CT], r2[OT][CT]; // forward: largest score and sum; queries: statistics
#pragma unroll
      for (int i = 0; i < OT; i++) {
        i32 row = o0 + ty + 16 * i;
        m[i] = MODE == QUERIES ? row < a.rows ? stats[row * 2] : A(INF_D) : A(-INF_D);
        l[i] = MODE == QUERIES && row < a.rows ? stats[row * 2 + 1] : A(0);
#pragma unroll
        for (int j = 0; j < CT; j++) r1[i][j] = r2[i][j] = A(0);
      }
      __syncthreads();
      if (a.depth <= DC) fill<BO>(x1, m1, o0, 0);
      if (GRAD && a.width <= DC) fill<BO>(x2, m2, o0, 0);
#pragma unroll 1
      for (i32 s0 = begin; s0 < end; s0 += BS) {
        __syncthreads();
        if (a.depth <= DC) fill<BS>(y1, n1, s0, 0);
        if (!GRAD || a.width <= DC) fill<BS>(y2, n2, s0, GRAD ? 0 : c0);
        __syncthreads();
        A s[OT][ST], d[OT][ST];
        product(s, x1, m1, o0, y1, n1, s0, c0);
        if (GRAD) product(d, x2, m2, o0, y2, n2, s0, c0);
#pragma unroll
        for (int i = 0; i < OT; i++)
#pragma unroll
          for (int j = 0; j < ST; j++) s[i][j] *= scale;
        // Most blocks have no masked score.
        if (a.maskKind || (MODE == KEYS ? o0 + BO : s0 + BS) > a.keys || (a.causal && (MODE == KEYS ? s0 < o0 + BO - 1 : s0 + BS - 1 > o0))) {
#pragma unroll
          for (int i = 0; i < OT; i++)
#pragma unroll
            for (int j = 0; j < ST; j++) {
              i32 owned = o0 + ty + 16 * i, other = s0 + tx + 16 * j, row = MODE == KEYS ? other : owned, col = MODE == KEYS ? owned : other;
              if (a.maskKind && row < a.rows && col < a.keys) s[i][j] += mask_at<T, A>(a, mask, row, col);
              if (col >= a.keys || (a.causal && col > row)) s[i][j] = A(-INF_D);
            }
        }
        if (GRAD) {
#pragma unroll
          for (int j = 0; j < ST; j++) {
            i32 other = s0 + tx + 16 * j;
            A lse = A(INF_D), less = A(0);
            if (MODE == KEYS && other < a.rows) {
              lse = stats[other * 2];
              less = stats[other * 2 + 1];
            }
#pragma unroll
            for (int i = 0; i < OT; i++) {
              s[i][j] = m_exp2(s[i][j] - (MODE == KEYS ? lse : m[i]));
              d[i][j] = s[i][j] == A(0) ? A(0) : s[i][j] * (d[i][j] - (MODE == KEYS ? less : l[i])); // a masked d may be infinite
            }
          }
        }
        if (MODE == KEYS && g->t && blockIdx.z == 0) {
#pragma unroll
          for (int i = 0; i < OT; i++)
#pragma unroll
            for (int j = 0; j < ST; j++) {
              i32 key = o0 + ty + 16 * i, row = s0 + tx + 16 * j;
              if (key < a.keys && row < g->pitch) kept<A>(*g, batch, key)[row] = d[i][j]; // past the last row too: dq loads four at a time
            }
        }
        if (GRAD) {
          if (MODE == KEYS) keep(p, s);
          keep(t, d);
          __syncthreads();
          add(r1, t, y1);
          if (MODE == KEYS) add(r2, p, y2);
        } else {
#pragma unroll
          for (int i = 0; i < OT; i++) {
            A best = m[i], sum = A(0);
#pragma unroll
            for (int j = 0; j < ST; j++) best = larger(best, s[i][j]);
#pragma unroll
            for (int w = 8; w; w >>= 1) best = larger(best, shuffle_xor(best, w));
            A from = best == A(-INF_D) ? A(0) : best, shrink = m_exp2(m[i] - from); // -∞: all keys so far are masked
#pragma unroll
            for (int j = 0; j < ST; j++) {
              s[i][j] = m_exp2(s[i][j] - from);
              sum += s[i][j];
            }
            l[i] = l[i] * shrink + sum;
            m[i] = best;
#pragma unroll
            for (int j = 0; j < CT; j++) r1[i][j] *= shrink;
          }
          keep(p, s);
          __syncthreads();
          add(r1, p, y2);
        }
      }
      if (!GRAD) {
#pragma unroll
        for (int i = 0; i < OT; i++) {
#pragma unroll
          for (int w = 8; w; w >>= 1) l[i] += shuffle_xor(l[i], w);
          i32 row = o0 + ty + 16 * i;
          if (a.saved && tx == 0 && blockIdx.z == 0 && row < a.rows) save(a, batch * a.rows + row, m[i], l[i]);
          A f = l[i] == A(0) ? A(0) : A(1) / l[i]; // all keys are masked: 0
#pragma unroll
          for (int j = 0; j < CT; j++) r1[i][j] *= f;
        }
      }
      if (MODE == FORWARD) store(a, a.out, r1, batch, o0, c0, a.rows, a.width, A(1));
      if (MODE == QUERIES) store(a, g->dq, r1, batch, o0, c0, a.rows, a.depth, (A)a.scale);
      if (MODE == KEYS) {
        store(a, g->dk, r1, batch, o0, c0, a.keys, a.depth, (A)a.scale);
        store(a, g->dv, r2, batch, o0, c0, a.keys, a.width, A(1));
      }
    }
  }
};

// Stored computes dq from the t that dkv has stored: a block of 16×16 threads computes 128
// rows and 64 columns, and iterates over the keys, 32 at a time. The operands of the next
// step are loaded while it computes.
struct Stored {
  enum { ROWS = 128, STEP = 32, COLS = 64 };
  typedef Vec<f32, 4> V4;
  V4 nextT[4], nextK[2];

  METHOD void bring(const AttentionGrad& g, u64 batch, const Matrix<f32>& k, i32 r0, i32 s0, i32 c0) {
    const Attention& a = g.a;
    V4 zero = {{0, 0, 0, 0}};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      i32 key = s0 + (threadIdx.x >> 5) + i * 8, row = r0 + (threadIdx.x & 31) * 4;
      nextT[i] = key < a.keys && row < a.rows && !(a.causal && key > row + 3) ? *(const V4*)(kept<f32>(g, batch, key) + row) : zero;
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (row + e >= a.rows || (a.causal && key > row + e)) nextT[i].v[e] = 0; // nothing was stored there
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      i32 key = s0 + (threadIdx.x >> 4) + i * 16, col = c0 + (threadIdx.x & 15) * 4;
      const f32* from = k.p + (i64)key * k.down + col * k.across;
      nextK[i] = zero;
      if (key >= k.rows) continue;
      if (k.wide && col + 4 <= k.cols) nextK[i] = *(const V4*)from;
      else
#pragma unroll
        for (int e = 0; e < 4; e++)
          if (col + e < k.cols) nextK[i].v[e] = from[e * k.across];
    }
  }

  METHOD void run(const AttentionGrad& g) {
    __shared__ __align__(16) f32 ts[STEP][ROWS], ks[STEP][COLS];
    const Attention& a = g.a;
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    i32 r0 = (a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * ROWS, c0 = blockIdx.z * COLS;
    i32 end = a.causal && r0 + ROWS < a.keys ? r0 + ROWS : a.keys;
    for (u64 batch = g.first + blockIdx.y; batch < g.last; batch += gridDim.y) {
      i64 off[3];
      offsets<3>(a.batch, batch, off);
      Matrix<f32> k = matrix<f32>(a.k, off[1], a.ks, a.keys, a.depth, a.wide & 2);
      f32 r[8][4];
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) r[i][j] = 0;
      bring(g, batch, k, r0, 0, c0);
#pragma unroll 1
      for (i32 s0 = 0; s0 < end; s0 += STEP) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++) *(V4*)&ts[(threadIdx.x >> 5) + i * 8][(threadIdx.x & 31) * 4] = nextT[i];
#pragma unroll
        for (int i = 0; i < 2; i++) *(V4*)&ks[(threadIdx.x >> 4) + i * 16][(threadIdx.x & 15) * 4] = nextK[i];
        __syncthreads();
        if (s0 + STEP < end) bring(g, batch, k, r0, s0 + STEP, c0);
#pragma unroll 8
        for (int s = 0; s < STEP; s++) {
          V4 x[2] = {*(const V4*)&ts[s][ty * 4], *(const V4*)&ts[s][64 + ty * 4]}, y = *(const V4*)&ks[s][tx * 4];
#pragma unroll
          for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) r[i][j] += x[i >> 2].v[i & 3] * y.v[j];
        }
      }
      __syncthreads();
      f32* dq = (f32*)g.dq + result_at(a, batch, a.rows, a.depth);
      i64 step = row_step(a, a.depth);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        i32 row = r0 + (i >> 2) * 64 + ty * 4 + (i & 3);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          i32 col = c0 + tx * 4 + j;
          if (row < a.rows && col < a.depth) dq[row * step + col] = r[i][j] * (f32)a.scale;
        }
      }
    }
  }
};

// The statistics of the rows: a warp handles one at a time.
template <class T> DEV void row_sums(const AttentionGrad& g) {
  typedef typename Compute<T>::type A;
  int lane = threadIdx.x & 31;
  u64 rows = g.a.batches * g.a.rows;
  for (u64 i = blockIdx.x * 8ull + (threadIdx.x >> 5); i < rows; i += gridDim.x * 8ull) {
    u64 batch = i / g.a.rows;
    i64 r = i - batch * g.a.rows, off[2];
    offsets<2>(g.gy, batch, off);
    A sum = A(0);
    for (i32 e = lane; e < g.a.width; e += 32)
      sum += get(((const T*)g.g)[off[0] + r * g.gs[0] + e * g.gs[1]]) * get(((const T*)g.y)[off[1] + r * g.ys[0] + e * g.ys[1]]);
    sum = warp_reduce(sum, [](A x, A y) { return x + y; });
    if (lane == 0) {
      ((A*)g.stats)[i * 2] = ((const A*)g.a.saved)[i] * (A)LOG2E;
      ((A*)g.stats)[i * 2 + 1] = sum;
    }
  }
}

#define ATTEND(T, SIZE, BLOCKS, BO, BS, DC) \
  KERNEL __launch_bounds__(256, BLOCKS) attention_##SIZE##T(const __grid_constant__ Attention p) { Simt<T, BO, BS, DC, FORWARD> x; x.run(p, 0); }
#define GRAD(T, SIZE, BLOCKS, BO, BS, DC)                                                                                                                    \
  KERNEL __launch_bounds__(256, BLOCKS) attention_dq_##SIZE##T(const __grid_constant__ AttentionGrad g) { Simt<T, BO, BS, DC, QUERIES> x; x.run(g.a, &g); }   \
  KERNEL __launch_bounds__(256, BLOCKS) attention_dkv_##SIZE##T(const __grid_constant__ AttentionGrad g) { Simt<T, BO, BS, DC, KEYS> x; x.run(g.a, &g); }
#define SMALL(T, DC) ATTEND(T, small_, 1, 32, 32, DC) GRAD(T, small_, 1, 32, 32, DC)
#define SUMS(T) KERNEL attention_sums_##T(const __grid_constant__ AttentionGrad g) { row_sums<T>(g); }
HALF_TYPES_WITH(SMALL, 64) SMALL(f32, 64) SMALL(f64, 32)
ATTEND(f32, large_, 1, 128, 128, 64) ATTEND(f32, , 2, 128, 64, 64) GRAD(f32, , 2, 64, 64, 64)
FLOAT_TYPES(SUMS)
KERNEL __launch_bounds__(256, 2) attention_dq_stored_f32(const __grid_constant__ AttentionGrad g) { Stored x; x.run(g); }
