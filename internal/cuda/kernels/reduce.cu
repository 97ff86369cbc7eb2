// Reductions. A reducer says what is kept while elements go by (State), how an
// element joins, how two states merge and what comes out at the end; three
// kernels use it:
//
//	row     a warp or a block makes one result: the elements of a result lie together
//	column  a thread makes one result: neighbouring results lie together
//	finish  merges the states of a result that several blocks worked on
//
// The order of merging depends on shapes alone, so results are repeatable.
#include "locus.cuh"

struct Reduce {
  const void* in;
  void* out;
  void* partial; // states [splits][outs], if there is more than one split
  u64 outs, len; // results, and elements of each
  u64 chunk;     // elements of a split
  i32 splits, threads; // threads of one result in the row kernel: 32 or the block
  i32 wide, pad; // the row kernel may load LANES(T) elements at once
  Idx kept, red;
};

template <class T> struct Acc { typedef typename Compute<T>::type type; };
template <> struct Acc<u8> { typedef u32 type; };
template <> struct Acc<i32> { typedef u32 type; }; // wraps
template <> struct Acc<i64> { typedef u64 type; };
template <class T> struct Ord { typedef typename Compute<T>::type type; };
template <> struct Ord<u8> { typedef u32 type; };
template <> struct Ord<b8> { typedef u32 type; };

template <class T> struct Sum {
  typedef typename Acc<T>::type State;
  typedef T Out;
  DEV State none() { return 0; }
  DEV State join(State s, T v, i64) { return s + (State)get(v); }
  DEV State merge(State a, State b) { return a + b; }
  DEV void finish(T& out, State s) { put(out, (typename Compute<T>::type)s); }
};

template <class T> struct Norm {
  typedef typename Compute<T>::type State;
  typedef T Out;
  DEV State none() { return 0; }
  DEV State join(State s, T v, i64) { State x = get(v); return s + x * x; }
  DEV State merge(State a, State b) { return a + b; }
  DEV void finish(T& out, State s) { put(out, m_sqrt(s)); }
};

template <class T> struct Prod {
  typedef typename Acc<T>::type State;
  typedef T Out;
  DEV State none() { return 1; }
  DEV State join(State s, T v, i64) { return s * (State)get(v); }
  DEV State merge(State a, State b) { return a * b; }
  DEV void finish(T& out, State s) { put(out, (typename Compute<T>::type)s); }
};

// The least and the greatest value of a type.
DEV void limits(u32& lo, u32& hi) { lo = 0; hi = ~0u; }
DEV void limits(i32& lo, i32& hi) { lo = 1 << 31; hi = ~lo; }
DEV void limits(i64& lo, i64& hi) { lo = 1ll << 63; hi = ~lo; }
DEV void limits(f32& lo, f32& hi) { hi = INF_F; lo = -hi; }
DEV void limits(f64& lo, f64& hi) { hi = INF_D; lo = -hi; }

template <class T> struct Max {
  typedef typename Ord<T>::type State;
  typedef T Out;
  DEV State none() { State lo, hi; limits(lo, hi); return lo; }
  DEV State join(State s, T v, i64) { return larger(s, (State)get(v)); }
  DEV State merge(State a, State b) { return larger(a, b); }
  DEV void finish(T& out, State s) { put(out, (typename Compute<T>::type)s); }
};

template <class T> struct Min {
  typedef typename Ord<T>::type State;
  typedef T Out;
  DEV State none() { State lo, hi; limits(lo, hi); return hi; }
  DEV State join(State s, T v, i64) { return smaller(s, (State)get(v)); }
  DEV State merge(State a, State b) { return smaller(a, b); }
  DEV void finish(T& out, State s) { put(out, (typename Compute<T>::type)s); }
};

// The largest element m so far, and the sum of e^(x-m).
template <class T> struct LogSumExp {
  typedef typename Compute<T>::type A;
  struct State { A m, s; };
  typedef T Out;
  DEV State none() { State r = {A(-INF_D), A(0)}; return r; }
  DEV State join(State s, T v, i64) {
    A x = get(v);
    if (x == s.m) s.s += A(1); // infinities too
    else if (x < s.m) s.s += m_exp(x - s.m);
    else { s.s = s.s * m_exp(s.m - x) + A(1); s.m = x; }
    return s;
  }
  DEV State merge(State a, State b) {
    if (a.m == b.m) { a.s += b.s; return a; }
    if (a.m < b.m) { State t = a; a = b; b = t; }
    a.s += b.s * m_exp(b.m - a.m);
    return a;
  }
  DEV void finish(T& out, State s) {
    bool inf = s.m == A(INF_D) || s.m == A(-INF_D);
    put(out, s.s == s.s && inf ? s.m : s.m + m_log(s.s));
  }
};

template <class T, bool LARGEST> struct Arg {
  typedef typename Ord<T>::type A;
  struct State { i64 i; A v; };
  typedef i64 Out;
  DEV State none() { State s; s.i = -1; s.v = 0; return s; }
  DEV bool better(const State& a, const State& b) { // a before b
    if (b.i < 0 || a.i < 0) return b.i < 0;
    bool na = a.v != a.v, nb = b.v != b.v;
    if (na || nb) return na && (!nb || a.i < b.i);
    return (LARGEST ? a.v > b.v : a.v < b.v) || (a.v == b.v && a.i < b.i);
  }
  DEV State join(State s, T v, i64 i) { State t; t.i = i; t.v = (A)get(v); return better(t, s) ? t : s; }
  DEV State merge(State a, State b) { return better(a, b) ? a : b; }
  DEV void finish(i64& out, State s) { out = s.i; }
};
template <class T> struct ArgMax : Arg<T, true> {};
template <class T> struct ArgMin : Arg<T, false> {};

// How a reducer takes N elements that were loaded together.
template <class R, class T, int N> struct Joiner {
  typedef typename R::State S;
  S acc[N];
  METHOD void init() {
#pragma unroll
    for (int j = 0; j < N; j++) acc[j] = R::none();
  }
  METHOD void join(const T* v, i64 r) {
#pragma unroll
    for (int j = 0; j < N; j++) acc[j] = R::join(acc[j], v[j], r + j);
  }
  METHOD S total() {
    S s = acc[0];
#pragma unroll
    for (int j = 1; j < N; j++) s = R::merge(s, acc[j]);
    return s;
  }
};

// log Σ eˣ moves its maximum once for all of them.
template <class T, int N> struct Joiner<LogSumExp<T>, T, N> {
  typedef typename Compute<T>::type A;
  typedef typename LogSumExp<T>::State S;
  S s;
  METHOD void init() { s = LogSumExp<T>::none(); }
  METHOD void join(const T* v, i64) {
    A m = s.m;
#pragma unroll
    for (int j = 0; j < N; j++) m = larger(m, get(v[j]));
    if (m == A(INF_D) || m == A(-INF_D)) { // differences of infinities are NaN
#pragma unroll 1
      for (int j = 0; j < N; j++) s = LogSumExp<T>::join(s, v[j], 0);
      return;
    }
    A t = s.s * m_exp(s.m - m);
#pragma unroll
    for (int j = 0; j < N; j++) t += m_exp(get(v[j]) - m);
    s.m = m;
    s.s = t;
  }
  METHOD S total() { return s; }
};

template <class R, class S> DEV void deliver(const Reduce& p, u64 o, u32 split, S s) {
  if (p.splits == 1) R::finish(((typename R::Out*)p.out)[o], s);
  else ((S*)p.partial)[split * p.outs + o] = s;
}

template <class R, class T> DEV void reduce_row(const Reduce& p) {
  typedef typename R::State S;
  __shared__ __align__(16) char room[33 * sizeof(S)];
  bool warp = p.threads == 32;
  u64 o = warp ? (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : blockIdx.x;
  if (o >= p.outs) return;
  int lane = warp ? threadIdx.x & 31 : threadIdx.x, lanes = warp ? 32 : blockDim.x;
  const T* in = (const T*)p.in + offset(p.kept, o);
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  S s = R::none();
  const int V = LANES(T);
  bool line = p.red.nd <= 1;
  if (p.wide) {
    Joiner<R, T, V> acc;
    acc.init();
    u64 r = begin + (u64)lane * V;
    u64 step = (u64)lanes * V;
    if (line) { // four loads on their way at once
#pragma unroll 1
      for (; r + 3 * step + V <= end; r += 4 * step) {
        Vec<T, V> v[4];
#pragma unroll
        for (int q = 0; q < 4; q++) v[q] = *(const Vec<T, V>*)(in + r + q * step);
#pragma unroll
        for (int q = 0; q < 4; q++) acc.join(v[q].v, r + q * step);
      }
    }
#pragma unroll 1
    for (; r + V <= end; r += step) {
      Vec<T, V> v = *(const Vec<T, V>*)(in + (line ? (i64)r : offset(p.red, r)));
      acc.join(v.v, r);
    }
#pragma unroll 1
    for (; r < end; r++) s = R::join(s, in[line ? (i64)r : offset(p.red, r)], r); // one thread has a tail
    s = R::merge(acc.total(), s);
  } else {
    i64 step = line ? p.red.stride[0][0] : 0;
#pragma unroll 1
    for (u64 r = begin + lane; r < end; r += lanes) s = R::join(s, in[line ? (i64)r * step : offset(p.red, r)], r);
  }
  auto merge = [](S a, S b) { return R::merge(a, b); };
  s = warp ? warp_reduce(s, merge) : block_reduce(s, R::none(), (S*)room, merge);
  if (lane == 0) deliver<R>(p, o, blockIdx.y, s);
}

template <class R, class T> DEV void reduce_col(const Reduce& p) {
  typedef typename R::State S;
  u64 o = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= p.outs) return;
  const T* in = (const T*)p.in + offset(p.kept, o);
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  S s = R::none();
  if (p.red.nd <= 1) {
    i64 step = p.red.stride[0][0];
    in += (i64)begin * step;
#pragma unroll 8
    for (u64 r = begin; r < end; r++, in += step) s = R::join(s, *in, r);
  } else {
#pragma unroll 1
    for (u64 r = begin; r < end; r++) s = R::join(s, in[offset(p.red, r)], r);
  }
  deliver<R>(p, o, blockIdx.y, s);
}

template <class R> DEV void reduce_finish(const Reduce& p) {
  typedef typename R::State S;
  __shared__ __align__(16) char room[33 * sizeof(S)];
  const S* in = (const S*)p.partial;
  S s = R::none();
  if (p.threads == 1) { // a thread for each result
    u64 o = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= p.outs) return;
#pragma unroll 4
    for (int k = 0; k < p.splits; k++) s = R::merge(s, in[k * p.outs + o]);
    R::finish(((typename R::Out*)p.out)[o], s);
    return;
  }
  u64 o = blockIdx.x;
  for (int k = threadIdx.x; k < p.splits; k += blockDim.x) s = R::merge(s, in[k * p.outs + o]);
  s = block_reduce(s, R::none(), (S*)room, [](S a, S b) { return R::merge(a, b); });
  if (threadIdx.x == 0) R::finish(((typename R::Out*)p.out)[o], s);
}

#define REDUCE(name, R, T)                                                                  \
  KERNEL name##_row_##T(const __grid_constant__ Reduce p) { reduce_row<R<T>, T>(p); }       \
  KERNEL name##_col_##T(const __grid_constant__ Reduce p) { reduce_col<R<T>, T>(p); }       \
  KERNEL name##_finish_##T(const __grid_constant__ Reduce p) { reduce_finish<R<T>>(p); }
#define FLOATS(name, R) REDUCE(name, R, f16) REDUCE(name, R, bf16) REDUCE(name, R, f32) REDUCE(name, R, f64)
#define INTS(name, R) REDUCE(name, R, u8) REDUCE(name, R, i32) REDUCE(name, R, i64)
FLOATS(sum, Sum) INTS(sum, Sum)
FLOATS(prod, Prod) INTS(prod, Prod)
FLOATS(max, Max) INTS(max, Max) REDUCE(max, Max, b8)
FLOATS(min, Min) INTS(min, Min) REDUCE(min, Min, b8)
FLOATS(logsumexp, LogSumExp)
FLOATS(norm, Norm)
FLOATS(argmax, ArgMax) INTS(argmax, ArgMax)
FLOATS(argmin, ArgMin) INTS(argmin, ArgMin)
