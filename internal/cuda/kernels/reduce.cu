// Reductions: see reduce.cuh for the kernels.
#include "reduce.cuh"

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

// The larger of two numbers; of a number and NaN, the number.
DEV f32 larger_number(f32 a, f32 b) { return fmaxf(a, b); }
DEV f64 larger_number(f64 a, f64 b) { return fmax(a, b); }

// e^x of a difference from a maximum: x is at most 0, and the result is added to a sum in
// which the maximum itself contributes 1, so the error relative to 1 is what matters.
DEV f32 exp_below(f32 x) {
  f32 r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x * 1.4426950408889634f));
  return r;
}
DEV f64 exp_below(f64 x) { return exp(x); }

// The largest element m so far, and the sum of e^(x-m).
template <class T> struct LogSumExp {
  typedef typename Compute<T>::type A;
  struct State { A m, s; };
  typedef T Out;
  DEV State none() { State r = {A(-INF_D), A(0)}; return r; }
  DEV State join(State s, T v, i64) {
    A x = get(v);
    if (x == s.m) s.s += A(1); // infinities too
    else if (x < s.m) s.s += exp_below(x - s.m);
    else { s.s = s.s * exp_below(s.m - x) + A(1); s.m = x; }
    return s;
  }
  DEV State merge(State a, State b) {
    if (a.m == b.m) { a.s += b.s; return a; }
    if (a.m < b.m) { State t = a; a = b; b = t; }
    a.s += b.s * exp_below(b.m - a.m);
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

template <class T, int N> struct Joiner<ArgMax<T>, T, N> : Single<ArgMax<T>, T, N> {};
template <class T, int N> struct Joiner<ArgMin<T>, T, N> : Single<ArgMin<T>, T, N> {};

// log Σ eˣ updates its maximum once for all N. NaN is never the maximum, but makes the sum
// NaN.
template <class T, int N> struct Single<LogSumExp<T>, T, N> {
  typedef typename Compute<T>::type A;
  typedef typename LogSumExp<T>::State S;
  S s;
  METHOD void init() { s = LogSumExp<T>::none(); }
  METHOD void join(const T* v, i64) {
    A m = s.m;
#pragma unroll
    for (int j = 0; j < N; j++) m = larger_number(m, get(v[j]));
    // The difference of infinities would be NaN. If m is infinite, so is the result, and all
    // that matters of the sum is whether it is NaN.
    A from = m == A(INF_D) || m == A(-INF_D) ? A(0) : m;
    A t = s.s * exp_below(s.m - from);
#pragma unroll
    for (int j = 0; j < N; j++) t += exp_below(get(v[j]) - from);
    s.m = m;
    s.s = t;
  }
  METHOD S total() { return s; }
};
template <class T, int N> struct Joiner<LogSumExp<T>, T, N> : Single<LogSumExp<T>, T, N> {};

// Adds the partial sums of several blocks of another kernel: partial is [splits][outs], and
// a thread computes one result.
template <class T> DEV void sum_parts(const Reduce& p) {
  typedef Sum<T> R;
  u64 o = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= p.outs) return;
  typename R::State s = R::none();
#pragma unroll 4
  for (int k = 0; k < p.splits; k++) s = R::merge(s, ((const typename R::State*)p.partial)[k * p.outs + o]);
  R::finish(((T*)p.out)[o], s);
}
// Where there are many parts, a single thread would wait for one load after another: MANY
// threads share the parts of a result, each every MANY-th, and their sums are added in order.
#define MANY 32
template <class T> DEV void sum_many(const Reduce& p) {
  typedef Sum<T> R;
  __shared__ typename R::State room[MANY][33];
  int at = threadIdx.x & 31, share = threadIdx.x >> 5;
  u64 o = (u64)blockIdx.x * 32 + at;
  typename R::State s = R::none();
  if (o < p.outs) {
#pragma unroll 4
    for (int k = share; k < p.splits; k += MANY) s = R::merge(s, ((const typename R::State*)p.partial)[k * p.outs + o]);
  }
  room[share][at] = s;
  __syncthreads();
  if (share > 0 || o >= p.outs) return;
  for (int k = 1; k < MANY; k++) s = R::merge(s, room[k][at]);
  R::finish(((T*)p.out)[o], s);
}
#define PARTS(T)                                                          \
  KERNEL sum_parts_##T(const __grid_constant__ Reduce p) { sum_parts<T>(p); } \
  KERNEL __launch_bounds__(32 * MANY) sum_parts_many_##T(const __grid_constant__ Reduce p) { sum_many<T>(p); }
NUMBER_TYPES(PARTS)

// The bound is how many threads a block of the row kernel may have.
#define REDUCE(name, R, T, bound)                                                                                \
  KERNEL __launch_bounds__(bound) name##_row_##T(const __grid_constant__ Reduce p) { reduce_row<R<T>, T>(p, Memory<T>{(const T*)p.in}); }   \
  KERNEL name##_col_##T(const __grid_constant__ Reduce p) { reduce_col<R<T>, T>(p, Memory<T>{(const T*)p.in}); }                            \
  KERNEL __launch_bounds__(256) name##_tile_##T(const __grid_constant__ Reduce p) { reduce_tile<R<T>, T>(p, Memory<T>{(const T*)p.in}); }
#define FLOAT(T, name, R, b) REDUCE(name, R, T, b)
#define FLOATS(name, R, b) FLOAT_TYPES_WITH(FLOAT, name, R, b)
#define INTS(name, R, b) REDUCE(name, R, u8, b) REDUCE(name, R, i32, b) REDUCE(name, R, i64, b)
FLOATS(sum, Sum, 1024) INTS(sum, Sum, 1024)
FLOATS(prod, Prod, 1024) INTS(prod, Prod, 1024)
FLOATS(max, Max, 1024) INTS(max, Max, 1024) REDUCE(max, Max, b8, 1024)
FLOATS(min, Min, 1024) INTS(min, Min, 1024) REDUCE(min, Min, b8, 1024)
FLOATS(logsumexp, LogSumExp, 512)
FLOATS(norm, Norm, 1024)
FLOATS(argmax, ArgMax, 512) INTS(argmax, ArgMax, 512)
FLOATS(argmin, ArgMin, 512) INTS(argmin, ArgMin, 512)
