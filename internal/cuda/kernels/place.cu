// Scatter, and the positions of cumulative extremes.
#include "locus.cuh"

// Storing elements at indices. The indices have been sorted (stably), and the thread that
// finds the last of a run of equal ones stores its element: the last one along the axis
// wins, without atomics. out holds a copy of x.
struct Place {
  void* out;
  const void *src, *index;
  const u32* order;  // [lines][len]: positions along the axis, sorted by index
  Flag* flag;
  u64 lines, len;
  i64 axis, limit;        // stride and size of the axis in out
  i64 indexStep, srcStep; // strides of the axis in index and src
  i32 op, wide;           // wide: indices are int64, else int32
  Idx line;               // strides: index, src, out
};

DEV i64 index_at(const void* p, i32 wide, i64 i) { return wide ? ((const i64*)p)[i] : ((const i32*)p)[i]; }

template <class T> DEV void scatter(const Place& p) {
  u64 g = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  u64 line = g / p.len, pos = g - line * p.len;
  if (line >= p.lines) return;
  const u32* order = p.order + line * p.len;
  i64 off[3];
  offsets<3>(p.line, line, off);
  i64 k = index_at(p.index, p.wide, off[0] + order[pos] * p.indexStep);
  if (k < 0 || k >= p.limit) {
    out_of_range(p.flag, p.op, k, p.limit);
    return;
  }
  if (pos + 1 < p.len && index_at(p.index, p.wide, off[0] + order[pos + 1] * p.indexStep) == k) return; // not the last of its run
  ((T*)p.out)[off[2] + k * p.axis] = ((const T*)p.src)[off[1] + order[pos] * p.srcStep];
}
#define SCATTER(T) KERNEL scatter_##T(const __grid_constant__ Place p) { scatter<T>(p); }
SCATTER(u8) SCATTER(u16) SCATTER(u32) SCATTER(u64)

// The position of the best element so far, along an axis.
struct Best {
  i64* out;
  const void* in;
  u64 lines, len;
  i64 inStep, outStep; // strides of the axis
  i32 smallest, pad;
  Idx line;            // strides: in, out
};

// At is an element and its position; -1 is none.
template <class A> struct At { A v; i64 at; };

// better returns later, which comes after best, if it is as good or NaN, otherwise best.
template <class A> DEV At<A> better(At<A> best, At<A> later, bool smallest) {
  if (later.at < 0) return best;
  if (best.at < 0 || later.v != later.v || (smallest ? later.v <= best.v : later.v >= best.v)) return later;
  return best;
}

template <class A> DEV At<A> from_lane(At<A> x, int by) {
  At<A> y;
  y.v = __shfl_up_sync(~0u, x.v, by);
  y.at = __shfl_up_sync(~0u, x.at, by);
  return y;
}

// Narrow integers are compared as int, which can be shuffled.
template <class T> struct Value { typedef typename Compute<T>::type type; };
template <> struct Value<u8> { typedef i32 type; };

// A thread per line: the axis is not the innermost, or short.
template <class T> DEV void best_lines(const Best& p) {
  typedef typename Value<T>::type A;
  u64 l = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (l >= p.lines) return;
  i64 off[2];
  offsets<2>(p.line, l, off);
  const T* in = (const T*)p.in + off[0];
  i64* out = p.out + off[1];
  At<A> best = {A(0), -1};
  for (u64 k = 0; k < p.len; k++) {
    At<A> x = {(A)get(in[k * p.inStep]), (i64)k};
    best = better(best, x, p.smallest);
    out[k * p.outStep] = best.at;
  }
}

// A block per line.
template <class T> DEV void best_block(const Best& p) {
  typedef typename Value<T>::type A;
  __shared__ At<A> warps[32];
  i64 off[2];
  offsets<2>(p.line, blockIdx.x, off);
  const T* in = (const T*)p.in + off[0];
  i64* out = p.out + off[1];
  At<A> carry = {A(0), -1};
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, count = blockDim.x >> 5;
#pragma unroll 1
  for (u64 base = 0; base < p.len; base += blockDim.x) {
    u64 k = base + threadIdx.x;
    At<A> run = {A(0), -1};
    if (k < p.len) {
      run.v = (A)get(in[k * p.inStep]);
      run.at = (i64)k;
    }
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      At<A> left = from_lane(run, d);
      if (lane >= d) run = better(left, run, p.smallest);
    }
    __syncthreads(); // warps of the previous round has been read
    if (lane == 31) warps[warp] = run;
    __syncthreads();
    At<A> before = carry;
    for (int w = 0; w < count; w++) {
      if (w == warp) run = better(before, run, p.smallest);
      before = better(before, warps[w], p.smallest);
    }
    carry = before;
    if (k < p.len) out[k * p.outStep] = run.at;
  }
}
#define BEST(T)                                                                            \
  KERNEL best_lines_##T(const __grid_constant__ Best p) { best_lines<T>(p); }              \
  KERNEL best_block_##T(const __grid_constant__ Best p) { best_block<T>(p); }
NUMBER_TYPES(BEST)
