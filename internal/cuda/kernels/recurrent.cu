// The cells of recurrent networks: the part of a step between its two products, for all gates
// in one pass. See internal/op/recurrent.go for what each computes. The products are done by
// cuBLAS or gemm.cu.
#include "activation.cuh"

enum Kind { TANH_CELL, RELU_CELL, LSTM, GRU };

// Cell is a forward step. Matrices have a row per element of the batch.
struct Cell {
  void* z;                   // [rows][gates·h]: the input's contribution; overwritten by the gates if keep is set
  const void* s;             // [rows][gates·h]: the state's contribution
  const void *biasW, *biasU; // [gates·h], or null
  const void *h, *c;         // [rows][h]: state and cell before the step
  void *y, *cell, *last;     // [rows][h]: state and cell after the step; last: a second copy of the cell, or null
  void* hidden;              // GRU, [rows][h]: the state's part of the last gate, or null
  u64 n;                     // rows·h
  u32 size;                  // h
  i32 kind, keep, pad;
};

template <class T> DEV void cell(const Cell& p) {
  typedef typename Compute<T>::type A;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  u32 h = p.size;
  u64 row = i / h;
  u32 j = (u32)(i - row * h);
  int gates = p.kind == LSTM ? 4 : p.kind == GRU ? 3 : 1;
  T* z = (T*)p.z + row * gates * h + j;
  const T* s = (const T*)p.s + row * gates * h + j;
  const T *bw = (const T*)p.biasW + j, *bu = (const T*)p.biasU + j;
  bool biased = p.biasW != nullptr;
  // The contributions of input and state to gate k.
  auto in = [&](int k) -> A { A v = get(z[k * h]); return biased ? v + get(bw[k * h]) : v; };
  auto st = [&](int k) -> A { A v = get(s[k * h]); return biased ? v + get(bu[k * h]) : v; };
  T* y = (T*)p.y + i;
  if (p.kind == LSTM) {
    A gi = sigmoid(in(0) + st(0)), gf = sigmoid(in(1) + st(1)), gk = m_tanh(in(2) + st(2)), go = sigmoid(in(3) + st(3));
    A c = gf * get(((const T*)p.c)[i]) + gi * gk;
    put(*y, go * m_tanh(c));
    put(((T*)p.cell)[i], c);
    if (p.last) put(((T*)p.last)[i], c);
    if (p.keep) {
      put(z[0], gi);
      put(z[h], gf);
      put(z[2 * h], gk);
      put(z[3 * h], go);
    }
  } else if (p.kind == GRU) {
    A r = sigmoid(in(0) + st(0)), u = sigmoid(in(1) + st(1)), hidden = st(2), n = m_tanh(in(2) + r * hidden);
    put(*y, n + u * (get(((const T*)p.h)[i]) - n));
    if (p.keep) {
      put(z[0], r);
      put(z[h], u);
      put(z[2 * h], n);
      put(((T*)p.hidden)[i], hidden);
    }
  } else {
    A v = in(0) + st(0);
    put(*y, p.kind == TANH_CELL ? m_tanh(v) : relu(v));
  }
}

// CellGrad is a backward step: the gradients of the contributions of input and state.
struct CellGrad {
  const void *g, *next;          // [rows][h]: the gradients of the state, from outside and from the following step; null for the last
  const void *z, *hidden, *y;    // saved by this step
  const void *h, *c, *cell;      // state and cell before the step, and the cell after it
  const void* lastC;             // LSTM: the gradient of the last cell, for the last step; else null
  void *toState, *toInput;       // [rows][gates·h]; toInput only of a GRU
  void *keep, *cells;            // [rows][h], in the type that is computed in: what passes a GRU's gates, and the cell's gradient
  u64 n;
  u32 size;
  i32 kind;
};

template <class T> DEV void cell_grad(const CellGrad& p) {
  typedef typename Compute<T>::type A;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  u32 h = p.size;
  u64 row = i / h;
  u32 j = (u32)(i - row * h);
  int gates = p.kind == LSTM ? 4 : p.kind == GRU ? 3 : 1;
  u64 at = row * gates * h + j;
  const T* z = (const T*)p.z + at;
  T* to = (T*)p.toState + at;
  A d = get(((const T*)p.g)[i]);
  if (p.next) d += get(((const T*)p.next)[i]);
  if (p.kind == LSTM) {
    A gi = get(z[0]), gf = get(z[h]), gk = get(z[2 * h]), go = get(z[3 * h]);
    A t = m_tanh((A)get(((const T*)p.cell)[i]));
    A c = (p.lastC ? (A)get(((const T*)p.lastC)[i]) : ((const A*)p.cells)[i]) + d * go * (A(1) - t * t);
    put(to[0], c * gk * gi * (A(1) - gi));
    put(to[h], c * get(((const T*)p.c)[i]) * gf * (A(1) - gf));
    put(to[2 * h], c * gi * (A(1) - gk * gk));
    put(to[3 * h], d * t * go * (A(1) - go));
    ((A*)p.cells)[i] = c * gf;
  } else if (p.kind == GRU) {
    if (p.next) d += ((const A*)p.keep)[i];
    T* in = (T*)p.toInput + at;
    A r = get(z[0]), u = get(z[h]), n = get(z[2 * h]);
    A fresh = d * (A(1) - u) * (A(1) - n * n);
    A reset = fresh * get(((const T*)p.hidden)[i]) * r * (A(1) - r);
    A update = d * (get(((const T*)p.h)[i]) - n) * u * (A(1) - u);
    put(to[0], reset);
    put(to[h], update);
    put(to[2 * h], fresh * r);
    put(in[0], reset);
    put(in[h], update);
    put(in[2 * h], fresh);
    ((A*)p.keep)[i] = d * u;
  } else {
    A y = get(((const T*)p.y)[i]);
    if (p.kind == TANH_CELL) put(to[0], d * (A(1) - y * y));
    else put(to[0], y > A(0) ? d : A(0));
  }
}

// FirstState is the gradient of the first state, and of an LSTM's first cell.
struct FirstState {
  const void *next, *keep, *cells; // next: from the first step; keep: null but for a GRU
  void *h, *c;                     // c: null but for an LSTM
  u64 n;
};

template <class T> DEV void first_state(const FirstState& p) {
  typedef typename Compute<T>::type A;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  A d = get(((const T*)p.next)[i]);
  if (p.keep) d += ((const A*)p.keep)[i];
  put(((T*)p.h)[i], d);
  if (p.c) put(((T*)p.c)[i], ((const A*)p.cells)[i]);
}

#define CELLS(T)                                                                       \
  KERNEL cell_##T(const __grid_constant__ Cell p) { cell<T>(p); }                      \
  KERNEL cell_grad_##T(const __grid_constant__ CellGrad p) { cell_grad<T>(p); }        \
  KERNEL first_state_##T(const __grid_constant__ FirstState p) { first_state<T>(p); }
FLOAT_TYPES(CELLS)
