// The kernels of reductions. A reducer defines a state, how an element joins it, how two states merge, and
// the final result. Three kernels use it:
//
//	row     a warp or a block computes one result, whose elements are contiguous
//	column  a thread computes one result of a few elements
//	tile    a block computes adjacent results, each warp from a part of their elements
//
// Where several blocks share a result (row and tile), each stores its state, and the one
// that finishes last merges them: one launch, whatever the shape. The order of merging
// depends on shapes alone, so results repeat.
//
// Elements come from a source, which loads them and then says what they are: Memory, or
// one that computes them from several tensors and stores them on the way. A kernel asks for
// each element once.
#pragma once
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

// Memory is the source of elements that a tensor has.
template <class T> struct Memory {
  const T* in;
  enum { LOADS = 4 }; // in flight in the row kernel
  template <int N> struct Raw { Vec<T, N> v; };
  template <int N> METHOD Raw<N> load(i64 at) const { return {*(const Vec<T, N>*)(in + at)}; }
  template <int N> METHOD Vec<T, N> use(i64, const Raw<N>& r) const { return r.v; }
};

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
// one is the element at an offset.
template <class T, class From> DEV T one(const From& from, i64 at) { return from.use(at, from.template load<1>(at)).v[0]; }

template <class R, class T, class From> DEV void reduce_row(const Reduce& p, From from) {
  typedef typename R::State S;
  __shared__ __align__(16) char room[33 * sizeof(S)];
  bool warp = p.threads == 32;
  u64 o = warp ? (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : blockIdx.x;
  if (o >= p.outs) return;
  int lane = warp ? threadIdx.x & 31 : threadIdx.x, lanes = warp ? 32 : blockDim.x;
  i64 in = offset(p.kept, o);
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  S s = R::none();
  const int V = LANES(T);
  bool line = p.red.nd <= 1;
  if (p.wide) {
    Joiner<R, T, V> acc;
    acc.init();
    u64 step = (u64)lanes * V, whole = end - (end - begin) % V;
    if (line) { // several loads in flight
      const int Q = sizeof(S) > 8 ? 2 : From::LOADS;
#pragma unroll 1
      for (u64 r = begin + (u64)lane * V; r < whole; r += Q * step) {
        typename From::template Raw<V> v[Q];
#pragma unroll
        for (int q = 0; q < Q; q++)
          if (r + q * step < whole) v[q] = from.template load<V>(in + r + q * step);
#pragma unroll
        for (int q = 0; q < Q; q++)
          if (r + q * step < whole) acc.join(from.use(in + r + q * step, v[q]).v, r + q * step);
      }
      if (whole + lane < end) s = R::join(s, one<T>(from, in + whole + lane), whole + lane); // fewer than V are left
    } else { // whose innermost axis is a multiple of V
#pragma unroll 1
      for (u64 r = begin + (u64)lane * V; r < whole; r += step) {
        i64 at = in + offset(p.red, r);
        acc.join(from.use(at, from.template load<V>(at)).v, r);
      }
    }
    s = R::merge(acc.total(), s);
  } else {
    i64 step = line ? p.red.stride[0][0] : 0;
#pragma unroll 1
    for (u64 r = begin + lane; r < end; r += lanes) s = R::join(s, one<T>(from, in + (line ? (i64)r * step : offset(p.red, r))), r);
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

template <class R, class T, class From> DEV void reduce_col(const Reduce& p, From from) {
  typedef typename R::State S;
  u64 o = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= p.outs) return;
  i64 in = offset(p.kept, o);
  S s = R::none();
  if (p.red.nd <= 1) {
    i64 step = p.red.stride[0][0];
#pragma unroll 8
    for (u64 r = 0; r < p.len; r++, in += step) s = R::join(s, one<T>(from, in), r);
  } else {
#pragma unroll 1
    for (u64 r = 0; r < p.len; r++) s = R::join(s, one<T>(from, in + offset(p.red, r)), r);
  }
  R::finish(((typename R::Out*)p.out)[o], s);
}

// A block of 8 warps computes the 32·V results from 32·V·blockIdx.x on: a lane V of them, a
// warp every eighth group of 4 elements.
#define TILE_LANES(T) (LANES(T) > 4 ? 4 : LANES(T))
template <class R, class T, int V, class From> DEV void tile(const Reduce& p, From from, char* room) {
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
    i64 in = offset(p.kept, o);
    if (p.red.nd <= 1) {
      i64 step = p.red.stride[0][0];
      u64 r = begin + warp * E;
#pragma unroll 1
      for (; r + E <= end; r += 8 * E) {
        typename From::template Raw<V> raw[E];
        Vec<T, V> v[E];
#pragma unroll
        for (int e = 0; e < E; e++) raw[e] = from.template load<V>(in + (i64)(r + e) * step);
#pragma unroll
        for (int e = 0; e < E; e++) v[e] = from.use(in + (i64)(r + e) * step, raw[e]);
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
        i64 at = in + (i64)r * step;
        Vec<T, V> v = from.use(at, from.template load<V>(at));
#pragma unroll
        for (int j = 0; j < V; j++) acc[j].s = R::join(acc[j].s, v.v[j], r);
      }
    } else {
#pragma unroll 1
      for (u64 r = begin + warp; r < end; r += 8) {
        i64 at = in + offset(p.red, r);
        Vec<T, V> v = from.use(at, from.template load<V>(at));
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

template <class R, class T, class From> DEV void reduce_tile(const Reduce& p, From from) {
  __shared__ __align__(16) char room[8 * 32 * TILE_LANES(T) * sizeof(typename R::State)];
  if (p.wide) tile<R, T, TILE_LANES(T)>(p, from, room);
  else tile<R, T, 1>(p, from, room);
}
