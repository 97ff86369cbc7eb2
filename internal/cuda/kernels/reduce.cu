// Reductions. A reducer defines a state, how an element joins it, how two states merge, and
// the final result. Three kernels use it:
//
//	row     a warp or a block computes one result, whose elements are contiguous
//	column  a thread computes one result of a few elements
//	tile    a block computes adjacent results, each warp from a part of their elements
//
// Where several blocks share a result (row and tile), each stores its state, and the one
// that finishes last merges them: one launch, whatever the shape. The order of merging
// depends on shapes alone, so results repeat.
#include "arrive.cuh"

struct Reduce {
  const void* in;
  void* out;
  void* partial; // states [splits][outs], if there is more than one split
  u32* arrived;  // blocks that have stored their state, per blockIdx.x; 0 between launches
  u64 outs, len; // results, and elements per result
  u64 chunk;     // elements per split
  i32 splits, threads; // threads per result in the row kernel: 32, or the whole block
  i32 wide, pad; // LANES(T) elements may be loaded at once: of a result in the row kernel, of adjacent results in the tile kernel
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

// How a reducer joins N elements that were loaded together: each has a state of its own, so
// that they do not depend on each other.
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

// One state for all N: where states are large, or where there are enough elements in flight anyway.
template <class R, class T, int N> struct Single {
  typename R::State s;
  METHOD void init() { s = R::none(); }
  METHOD void join(const T* v, i64 r) {
#pragma unroll
    for (int j = 0; j < N; j++) s = R::join(s, v[j], r + j);
  }
  METHOD typename R::State total() { return s; }
};
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
    u64 step = (u64)lanes * V, whole = end - (end - begin) % V;
    if (line) { // several loads in flight
      const int Q = sizeof(S) > 8 ? 2 : 4;
#pragma unroll 1
      for (u64 r = begin + (u64)lane * V; r < whole; r += Q * step) {
        Vec<T, V> v[Q];
#pragma unroll
        for (int q = 0; q < Q; q++)
          if (r + q * step < whole) v[q] = *(const Vec<T, V>*)(in + r + q * step);
#pragma unroll
        for (int q = 0; q < Q; q++)
          if (r + q * step < whole) acc.join(v[q].v, r + q * step);
      }
      if (whole + lane < end) s = R::join(s, in[whole + lane], whole + lane); // fewer than V are left
    } else { // whose innermost axis is a multiple of V
#pragma unroll 1
      for (u64 r = begin + (u64)lane * V; r < whole; r += step) {
        Vec<T, V> v = *(const Vec<T, V>*)(in + offset(p.red, r));
        acc.join(v.v, r);
      }
    }
    s = R::merge(acc.total(), s);
  } else {
    i64 step = line ? p.red.stride[0][0] : 0;
#pragma unroll 1
    for (u64 r = begin + lane; r < end; r += lanes) s = R::join(s, in[line ? (i64)r * step : offset(p.red, r)], r);
  }
  auto merge = [](S a, S b) { return R::merge(a, b); };
  s = warp ? warp_reduce(s, merge) : block_reduce(s, R::none(), (S*)room, merge);
  typename R::Out* out = (typename R::Out*)p.out + o;
  if (p.splits == 1) {
    if (lane == 0) R::finish(*out, s);
    return;
  }
  S* partial = (S*)p.partial + o;
  if (lane == 0) partial[blockIdx.y * p.outs] = s;
  if (!last(p.arrived, p.splits)) return;
  s = R::none();
#pragma unroll 2
  for (int k = threadIdx.x; k < p.splits; k += blockDim.x) s = R::merge(s, state(partial + k * p.outs));
  s = block_reduce(s, R::none(), (S*)room, merge);
  if (threadIdx.x == 0) R::finish(*out, s);
}

template <class R, class T> DEV void reduce_col(const Reduce& p) {
  typedef typename R::State S;
  u64 o = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= p.outs) return;
  const T* in = (const T*)p.in + offset(p.kept, o);
  S s = R::none();
  if (p.red.nd <= 1) {
    i64 step = p.red.stride[0][0];
#pragma unroll 8
    for (u64 r = 0; r < p.len; r++, in += step) s = R::join(s, *in, r);
  } else {
#pragma unroll 1
    for (u64 r = 0; r < p.len; r++) s = R::join(s, in[offset(p.red, r)], r);
  }
  R::finish(((typename R::Out*)p.out)[o], s);
}

// A block of 8 warps computes the 32·V results from 32·V·blockIdx.x on: a lane V of them, a
// warp every eighth group of 4 elements.
#define TILE_LANES(T) (LANES(T) > 4 ? 4 : LANES(T))
template <class R, class T, int V> DEV void tile(const Reduce& p, char* room) {
  typedef typename R::State S;
  S(*states)[32 * V] = (S(*)[32 * V])room; // per warp; the j-th result of lane l is j·32 + l
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u64 first = (u64)blockIdx.x * 32 * V, o = first + lane * V;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  const int E = 4;
  Single<R, T, E> acc[V];
#pragma unroll
  for (int j = 0; j < V; j++) acc[j].init();
  if (o < p.outs) {
    const T* in = (const T*)p.in + offset(p.kept, o);
    if (p.red.nd <= 1) {
      i64 step = p.red.stride[0][0];
      u64 r = begin + warp * E;
#pragma unroll 1
      for (; r + E <= end; r += 8 * E) {
        Vec<T, V> v[E];
#pragma unroll
        for (int e = 0; e < E; e++) v[e] = *(const Vec<T, V>*)(in + (i64)(r + e) * step);
#pragma unroll
        for (int j = 0; j < V; j++) {
          T c[E];
#pragma unroll
          for (int e = 0; e < E; e++) c[e] = v[e].v[j];
          acc[j].join(c, r);
        }
      }
#pragma unroll 1
      for (; r < end; r++) { // one warp has a tail
        Vec<T, V> v = *(const Vec<T, V>*)(in + (i64)r * step);
#pragma unroll
        for (int j = 0; j < V; j++) acc[j].s = R::join(acc[j].s, v.v[j], r);
      }
    } else {
#pragma unroll 1
      for (u64 r = begin + warp; r < end; r += 8) {
        Vec<T, V> v = *(const Vec<T, V>*)(in + offset(p.red, r));
#pragma unroll
        for (int j = 0; j < V; j++) acc[j].s = R::join(acc[j].s, v.v[j], r);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < V; j++) states[warp][j * 32 + lane] = acc[j].total();
  // Now a thread per result; those of a warp are adjacent.
  int c = threadIdx.x;
  bool mine = c < 32 * V && first + c < p.outs;
  auto merged = [&]() {
    __syncthreads();
    S s = R::none();
    if (mine)
#pragma unroll 2
      for (int w = 0; w < 8; w++) s = R::merge(s, states[w][c % V * 32 + c / V]);
    return s;
  };
  S s = merged();
  if (p.splits > 1) {
    S* partial = (S*)p.partial;
    if (mine) partial[blockIdx.y * p.outs + first + c] = s;
    if (!last(p.arrived, p.splits)) return;
#pragma unroll 1
    for (int j = 0; j < V; j++) { // a warp merges every eighth split
      S t = R::none();
      if (o < p.outs)
#pragma unroll(sizeof(S) > 8 ? 2 : 4)
        for (int k = warp; k < p.splits; k += 8) t = R::merge(t, state(partial + k * p.outs + o + j));
      states[warp][j * 32 + lane] = t;
    }
    s = merged();
  }
  if (mine) R::finish(((typename R::Out*)p.out)[first + c], s);
}

template <class R, class T> DEV void reduce_tile(const Reduce& p) {
  __shared__ __align__(16) char room[8 * 32 * TILE_LANES(T) * sizeof(typename R::State)];
  if (p.wide) tile<R, T, TILE_LANES(T)>(p, room);
  else tile<R, T, 1>(p, room);
}

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
  KERNEL __launch_bounds__(bound) name##_row_##T(const __grid_constant__ Reduce p) { reduce_row<R<T>, T>(p); }   \
  KERNEL name##_col_##T(const __grid_constant__ Reduce p) { reduce_col<R<T>, T>(p); }                            \
  KERNEL __launch_bounds__(256) name##_tile_##T(const __grid_constant__ Reduce p) { reduce_tile<R<T>, T>(p); }
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
