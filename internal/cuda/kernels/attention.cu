// softmax(scale·q·kᵀ + mask)·v without storing the scores: a block takes BQ
// queries and up to EC columns of v, goes over the keys 64 at a time, and keeps a
// running maximum, sum and result. Working memory does not grow with the length.
#include "locus.cuh"

struct Attention {
  void* out;
  const void *q, *k, *v, *mask;
  f64 scale;
  i32 rows, keys, depth, width; // L, S, D, E
  i32 causal, maskKind;         // 0: none, 1: float, 2: bool
  u64 batches;
  i32 wide, pad; // bits: q, k may be read four elements at a time
  i64 qs[2], ks[2], vs[2], ms[2]; // strides of the last two axes
  Idx batch, maskBatch;           // strides: q, k, v; and mask
};

#define BKEYS 64
template <class A, int BQ, int DC> struct Operands { A q[DC][BQ + 4], k[DC][BKEYS + 4]; };
template <class A, int BQ, int EC, int DC, int VC> struct Room {
  union {
    Operands<A, BQ, DC> s;
    A v[VC][EC + 4];
  };
  A p[BQ][BKEYS + 4];
};

template <class A, class F> DEV A half_warp(A v, F f) {
#pragma unroll
  for (int k = 8; k; k >>= 1) v = f(v, shuffle_xor(v, k));
  return v;
}

extern __shared__ __align__(128) char room[];

// fill copies ROWS rows (from first) and COLS columns (from c0) of a matrix to shared
// memory, transposed: to[column][row]. Neighbouring threads take neighbouring
// rows, so that they write to different banks; four columns are read at once where
// they lie together (wide).
template <class T, class A, int ROWS, int COLS, int PITCH> DEV void fill(A (*to)[PITCH], const T* m, const i64* stride, i32 first, i32 rows, i32 c0, i32 cols, bool wide) {
#pragma unroll 4
  for (int t = threadIdx.x; t < ROWS * COLS / 4; t += 256) {
    int r = t % ROWS, c = t / ROWS * 4;
    Vec<T, 4> v;
    i64 at = (i64)(first + r) * stride[0];
    if (wide && first + r < rows && c0 + c + 4 <= cols) {
      v = *(const Vec<T, 4>*)(m + at + c0 + c);
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++) v.v[e] = first + r < rows && c0 + c + e < cols ? m[at + (c0 + c + e) * stride[1]] : T();
    }
#pragma unroll
    for (int e = 0; e < 4; e++) to[c + e][r] = get(v.v[e]);
  }
}

template <class T, int BQ, int EC, int DC, int VC> DEV void attend(const Attention& p) {
  typedef typename Compute<T>::type A;
  typedef Room<A, BQ, EC, DC, VC> R;
  const int QT = BQ / 16, ET = EC / 16; // a thread's rows, and columns of the result
  R& s = *(R*)room;
  int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  i32 q0 = blockIdx.x * BQ, e0 = blockIdx.z * EC;
  for (u64 batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
    i64 off[3];
    offsets<3>(p.batch, batch, off);
    const T *q = (const T*)p.q + off[0], *k = (const T*)p.k + off[1], *v = (const T*)p.v + off[2];
    i64 maskAt = p.maskKind ? offset(p.maskBatch, batch) : 0;
    A m[QT], l[QT], o[QT][ET];
#pragma unroll
    for (int i = 0; i < QT; i++) {
      m[i] = A(-INF_D);
      l[i] = A(0);
#pragma unroll
      for (int j = 0; j < ET; j++) o[i][j] = A(0);
    }
    i32 last = p.causal && q0 + BQ < p.keys ? q0 + BQ : p.keys;
#pragma unroll 1
    for (i32 k0 = 0; k0 < last; k0 += BKEYS) {
      alignas(32) A c[QT][4];
#pragma unroll
      for (int i = 0; i < QT; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) c[i][j] = A(0);
#pragma unroll 1
      for (i32 d0 = 0; d0 < p.depth; d0 += DC) {
        __syncthreads();
        fill<T, A, BQ, DC, BQ + 4>(s.s.q, q, p.qs, q0, p.rows, d0, p.depth, p.wide & 1);
        fill<T, A, BKEYS, DC, BKEYS + 4>(s.s.k, k, p.ks, k0, p.keys, d0, p.depth, p.wide & 2);
        __syncthreads();
#pragma unroll 8
        for (int d = 0; d < DC; d++) {
          alignas(32) A a[QT];
          alignas(32) A b[4];
          *(Vec<A, QT>*)a = *(const Vec<A, QT>*)&s.s.q[d][ty * QT];
          *(Vec<A, 4>*)b = *(const Vec<A, 4>*)&s.s.k[d][tx * 4];
#pragma unroll
          for (int i = 0; i < QT; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) c[i][j] += a[i] * b[j];
        }
      }
#pragma unroll
      for (int i = 0; i < QT; i++) {
        i32 row = q0 + ty * QT + i;
        A best = A(-INF_D);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          i32 col = k0 + tx * 4 + j;
          A x = c[i][j] * (A)p.scale;
          bool hidden = col >= p.keys || row >= p.rows || (p.causal && col > row);
          if (!hidden && p.maskKind) {
            i64 at = maskAt + row * p.ms[0] + col * p.ms[1];
            if (p.maskKind == 1) x += get(((const T*)p.mask)[at]);
            else hidden = !((const u8*)p.mask)[at];
          }
          c[i][j] = hidden ? A(-INF_D) : x;
          best = larger(best, c[i][j]);
        }
        best = larger(m[i], half_warp(best, [](A x, A y) { return larger(x, y); }));
        bool none = best == A(-INF_D); // nothing to see yet
        A shrink = none ? A(1) : m_exp(m[i] - best), sum = A(0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          c[i][j] = none ? A(0) : m_exp(c[i][j] - best);
          sum += c[i][j];
        }
        *(Vec<A, 4>*)&s.p[ty * QT + i][tx * 4] = *(const Vec<A, 4>*)c[i];
        l[i] = l[i] * shrink + half_warp(sum, [](A x, A y) { return x + y; });
        m[i] = best;
#pragma unroll
        for (int j = 0; j < ET; j++) o[i][j] *= shrink;
      }
#pragma unroll 1
      for (int v0 = 0; v0 < BKEYS; v0 += VC) {
        __syncthreads();
        for (int t = threadIdx.x; t < VC * EC; t += 256) {
          int r = t / EC, e = t % EC;
          s.v[r][e] = k0 + v0 + r < p.keys && e0 + e < p.width ? get(v[(k0 + v0 + r) * p.vs[0] + (e0 + e) * p.vs[1]]) : A(0);
        }
        __syncthreads();
#pragma unroll 2
        for (int r0 = 0; r0 < VC; r0 += 4) {
          alignas(32) A a[QT][4];
#pragma unroll
          for (int i = 0; i < QT; i++) *(Vec<A, 4>*)a[i] = *(const Vec<A, 4>*)&s.p[ty * QT + i][v0 + r0];
#pragma unroll
          for (int r = 0; r < 4; r++) {
            alignas(32) A b[ET];
#pragma unroll
            for (int j = 0; j < ET; j += 4) *(Vec<A, 4>*)&b[j] = *(const Vec<A, 4>*)&s.v[r0 + r][tx * 4 + j * 16];
#pragma unroll
            for (int i = 0; i < QT; i++)
#pragma unroll
              for (int j = 0; j < ET; j++) o[i][j] += a[i][r] * b[j];
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < QT; i++) {
      i32 row = q0 + ty * QT + i;
      if (row >= p.rows) continue;
      A f = l[i] == A(0) ? A(0) : A(1) / l[i];
#pragma unroll
      for (int j = 0; j < ET; j++) {
        i32 e = e0 + (j >> 2) * 64 + tx * 4 + (j & 3);
        if (e < p.width) put(((T*)p.out)[((i64)batch * p.rows + row) * p.width + e], o[i][j] * f);
      }
    }
  }
}

#define ATTEND(T, BQ, DC, VC)                                                                                                          \
  KERNEL __launch_bounds__(256) attention64_##T(const __grid_constant__ Attention p) { attend<T, BQ, 64, DC, VC>(p); }                 \
  KERNEL __launch_bounds__(256) attention128_##T(const __grid_constant__ Attention p) { attend<T, BQ, 128, DC, VC>(p); }
ATTEND(f16, 64, 64, 64) ATTEND(bf16, 64, 64, 64) ATTEND(f32, 64, 64, 64) ATTEND(f64, 32, 16, 16)
