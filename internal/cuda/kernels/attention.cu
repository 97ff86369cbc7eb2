// Attention and its gradients without storing the scores: working memory does
// not grow with the length. These kernels take every element type, layout and
// size; those of …_sm80.cu and …_sm90.cu serve half types faster.
//
// A block of 16×16 threads owns BO rows of one side (queries, or keys) and goes over the
// rows of the other, BS at a time; it makes DC columns of the result. Forward it
// keeps a running maximum, sum and result for each query. The gradients take the
// weights from the statistics of the rows (see AttentionGrad): with the owned rows x1, x2
// and the others y1, y2, which are q, g and k, v for dq, or k, v and q, g for dk and dv,
//
//	s = x1·y1ᵀ, d = x2·y2ᵀ, p = the weights, t = p·(d - Σ g·y), dx1 = t·y1, dx2 = p·y2
//
// No two blocks add to one sum, so that results repeat.
#include "attention.cuh"

enum Mode { FORWARD, STATS, QUERIES, KEYS };

extern __shared__ __align__(128) char room[];

// A matrix as it lies in memory.
template <class T> struct Matrix {
  const T* p;
  i64 down, across;
  i32 rows, cols;
  bool wide; // four columns may be read at once
};
template <class T> DEV Matrix<T> matrix(const void* p, i64 at, const i64* stride, i32 rows, i32 cols, bool wide) {
  Matrix<T> m = {(const T*)p + at, stride[0], stride[1], rows, cols, wide};
  return m;
}

template <class T, int BO, int BS, int DC, int MODE> struct Simt {
  typedef typename Compute<T>::type A;
  enum { V = 16 / sizeof(A), OT = BO / 16, ST = BS / 16, CT = DC / 16, PITCH = DC + V, WEIGHTS = BS + V, GRAD = MODE >= QUERIES };
  static_assert(CT == V, "a thread's columns are one vector");
  A *x1, *x2, *y1, *y2, *p, *t; // in shared memory: [BO or BS][PITCH], [BO][WEIGHTS]
  int tx, ty;

  // fill copies rows and columns from (first, c0) on to shared memory; what does not exist becomes 0.
  template <int ROWS> METHOD void fill(A* to, const Matrix<T>& m, i32 first, i32 c0) {
    enum { EACH = DC / 4, DOWN = 256 / EACH };
    int r = threadIdx.x / EACH, c = threadIdx.x % EACH * 4;
    const T* from = m.p + (i64)(first + r) * m.down;
    to += r * PITCH + c;
    if (m.wide && first + ROWS <= m.rows && c0 + DC <= m.cols) { // several reads on their way at once
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
      Vec<A, V> a[OT];
#pragma unroll
      for (int i = 0; i < OT; i++) a[i] = *(const Vec<A, V>*)(x + (ty + 16 * i) * PITCH + k);
#pragma unroll
      for (int j = 0; j < ST; j++) {
        Vec<A, V> b = *(const Vec<A, V>*)(y + (tx + 16 * j) * PITCH + k);
#pragma unroll
        for (int i = 0; i < OT; i++)
#pragma unroll
          for (int e = 0; e < V; e++) c[i][j] += a[i].v[e] * b.v[e];
      }
    }
  }
  // product is x·yᵀ over all columns. Those of the first chunk are in shared memory
  // if there is no other; afterwards the chunk from keep on is there in y.
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
      Vec<A, V> a[OT];
#pragma unroll
      for (int i = 0; i < OT; i++) a[i] = *(const Vec<A, V>*)(weights + (ty + 16 * i) * WEIGHTS + s);
#pragma unroll
      for (int e = 0; e < V; e++) {
        Vec<A, CT> b = *(const Vec<A, CT>*)(y + (s + e) * PITCH + tx * CT);
#pragma unroll
        for (int i = 0; i < OT; i++)
#pragma unroll
          for (int j = 0; j < CT; j++) c[i][j] += a[i].v[e] * b.v[j];
      }
    }
  }
  METHOD void keep(A* to, const A (&c)[OT][ST]) {
#pragma unroll
    for (int i = 0; i < OT; i++)
#pragma unroll
      for (int j = 0; j < ST; j++) to[(ty + 16 * i) * WEIGHTS + tx + 16 * j] = c[i][j];
  }
  METHOD void store(void* out, const A (&c)[OT][CT], u64 batch, i32 o0, i32 c0, i32 rows, i32 cols, A f) {
#pragma unroll
    for (int i = 0; i < OT; i++)
#pragma unroll
      for (int j = 0; j < CT; j++) {
        i32 r = o0 + ty + 16 * i, col = c0 + tx * CT + j;
        if (r < rows && col < cols) put(((T*)out)[((i64)batch * rows + r) * cols + col], c[i][j] * f);
      }
  }

  METHOD void run(const Attention& p_, const AttentionGrad* g) {
    const Attention& a = p_;
    x1 = (A*)room;
    x2 = x1 + BO * PITCH;
    y1 = GRAD ? x2 + BO * PITCH : x2;
    y2 = y1 + BS * PITCH;
    p = y2 + (MODE == STATS ? 0 : BS * PITCH);
    t = MODE == KEYS ? p + BO * WEIGHTS : p;
    tx = threadIdx.x & 15;
    ty = threadIdx.x >> 4;
    i32 o0 = (a.causal && MODE != KEYS ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BO, c0 = blockIdx.z * DC;
    A scale = (A)(a.scale * LOG2E);
    for (u64 batch = blockIdx.y; batch < a.batches; batch += gridDim.y) {
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
        if (MODE == FORWARD || (GRAD && a.width <= DC)) fill<BS>(y2, n2, s0, MODE == FORWARD ? c0 : 0);
        __syncthreads();
        A s[OT][ST], d[OT][ST];
        product(s, x1, m1, o0, y1, n1, s0, c0);
        if (GRAD) product(d, x2, m2, o0, y2, n2, s0, c0);
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
            i32 owned = o0 + ty + 16 * i, row = MODE == KEYS ? other : owned, col = MODE == KEYS ? owned : other;
            A x = s[i][j] * scale;
            if (a.maskKind && row < a.rows && col < a.keys) x += mask_at<T, A>(a, mask, row, col);
            if (col >= a.keys || (a.causal && col > row)) x = A(-INF_D);
            if (GRAD) {
              s[i][j] = m_exp2(x - (MODE == KEYS ? lse : m[i]));
              d[i][j] = s[i][j] * (d[i][j] - (MODE == KEYS ? less : l[i]));
            } else {
              s[i][j] = x;
            }
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
            A from = best == A(-INF_D) ? A(0) : best, shrink = m_exp2(m[i] - from); // -∞: nothing seen yet
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
        }
        if (MODE == FORWARD) {
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
          if (MODE == STATS && tx == 0 && row < a.rows) stats[row * 2] = l[i] == A(0) ? A(INF_D) : m[i] + m_log2(l[i]);
          A f = l[i] == A(0) ? A(0) : A(1) / l[i]; // nothing seen: 0
#pragma unroll
          for (int j = 0; j < CT; j++) r1[i][j] *= f;
        }
      }
      if (MODE == FORWARD) store(a.out, r1, batch, o0, c0, a.rows, a.width, A(1));
      if (MODE == QUERIES) store(g->dq, r1, batch, o0, c0, a.rows, a.depth, (A)a.scale);
      if (MODE == KEYS) {
        store(g->dk, r1, batch, o0, c0, a.keys, a.depth, (A)a.scale);
        store(g->dv, r2, batch, o0, c0, a.keys, a.width, A(1));
      }
    }
  }
};

// Σ g·y of each row: a warp takes one after the other.
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
    if (lane == 0) ((A*)g.stats)[i * 2 + 1] = sum;
  }
}

#define ATTEND(T, SIZE, BLOCKS, BF, BS, BO, BS2, DC)                                                                                                              \
  KERNEL __launch_bounds__(256, BLOCKS) attention_##SIZE##T(const __grid_constant__ Attention p) { Simt<T, BF, BS, DC, FORWARD> x; x.run(p, 0); }                 \
  KERNEL __launch_bounds__(256, BLOCKS) attention_stats_##SIZE##T(const __grid_constant__ AttentionGrad g) { Simt<T, BF, BS, DC, STATS> x; x.run(g.a, &g); }      \
  KERNEL __launch_bounds__(256, BLOCKS) attention_dq_##SIZE##T(const __grid_constant__ AttentionGrad g) { Simt<T, BO, BS2, DC, QUERIES> x; x.run(g.a, &g); }      \
  KERNEL __launch_bounds__(256, BLOCKS) attention_dkv_##SIZE##T(const __grid_constant__ AttentionGrad g) { Simt<T, BO, BS2, DC, KEYS> x; x.run(g.a, &g); }
#define SUMS(T) KERNEL attention_sums_##T(const __grid_constant__ AttentionGrad g) { row_sums<T>(g); }
ATTEND(f16, small_, 1, 32, 32, 32, 32, 64) ATTEND(bf16, small_, 1, 32, 32, 32, 32, 64) ATTEND(f32, small_, 1, 32, 32, 32, 32, 64) ATTEND(f64, small_, 1, 32, 32, 32, 32, 32)
ATTEND(f32, , 2, 128, 64, 64, 64, 64)
SUMS(f16) SUMS(bf16) SUMS(f32) SUMS(f64)
