// Indexing: gather, take, scatter_add, index_add, moves between layouts
// (concat, pad) and cumulative sums. Kernels that only move elements exist per element size.
#include "locus.cuh"

struct u128 { u64 lo, hi; };

// Index values may be int32 or int64.
DEV i64 index_at(const void* p, i32 wide, i64 i) { return wide ? ((const i64*)p)[i] : ((const i32*)p)[i]; }

struct Gather {
  void* out;
  const void *x, *index;
  Flag* flag;
  u64 n;
  i64 axis, limit; // stride and size of the axis in x
  i32 op, wide;
  Idx idx; // strides: index, x
};

template <class T> DEV void gather(const Gather& p) {
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  i64 off[2];
  offsets<2>(p.idx, i, off);
  i64 k = index_at(p.index, p.wide, off[0]);
  if (k < 0 || k >= p.limit) {
    out_of_range(p.flag, p.op, k, p.limit);
    ((T*)p.out)[i] = T();
    return;
  }
  ((T*)p.out)[i] = ((const T*)p.x)[off[1] + k * p.axis];
}
KERNEL gather_u8(const __grid_constant__ Gather p) { gather<u8>(p); }
KERNEL gather_u16(const __grid_constant__ Gather p) { gather<u16>(p); }
KERNEL gather_u32(const __grid_constant__ Gather p) { gather<u32>(p); }
KERNEL gather_u64(const __grid_constant__ Gather p) { gather<u64>(p); }
KERNEL gather_u128(const __grid_constant__ Gather p) { gather<u128>(p); }

// Contiguous rows of x, in units of 16 bytes: a warp moves 128 units of a row per load of the
// index, with four loads in flight. What is written is not read again soon, and should not
// evict x from the cache.
struct Rows {
  void* out;
  const void *x, *index;
  Flag* flag;
  u64 rows;
  i64 width, limit; // units of a row, rows of x
  i64 step, stride; // strides of the index, and of the rows of x (units)
  i32 op, wide;
};

DEV void store_streaming(u128* p, u128 v) { asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.lo), "l"(v.hi) : "memory"); }

KERNEL __launch_bounds__(256) gather_rows(const __grid_constant__ Rows p) {
  u64 row = (u64)blockIdx.x * 8 + (threadIdx.x >> 5);
  if (row >= p.rows) return;
  i64 k = index_at(p.index, p.wide, row * p.step);
  bool bad = k < 0 || k >= p.limit;
  int lane = threadIdx.x & 31;
  if (bad && lane == 0) out_of_range(p.flag, p.op, k, p.limit);
  const u128* x = (const u128*)p.x + k * p.stride;
  u128* out = (u128*)p.out + row * p.width;
  for (i64 c = (i64)blockIdx.y * 128 + lane; c < p.width; c += gridDim.y * 128) {
    u128 v[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (c + e * 32 < p.width) v[e] = bad ? u128() : x[c + e * 32];
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (c + e * 32 < p.width) store_streaming(out + c + e * 32, v[e]);
  }
}

struct Move { void* out; const void* in; u64 n; Idx idx; }; // strides: out, in

template <class T> DEV void move(const Move& p) {
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.n) return;
  i64 off[2];
  offsets<2>(p.idx, i, off);
  ((T*)p.out)[off[0]] = ((const T*)p.in)[off[1]];
}
KERNEL move_u8(const __grid_constant__ Move p) { move<u8>(p); }
KERNEL move_u16(const __grid_constant__ Move p) { move<u16>(p); }
KERNEL move_u32(const __grid_constant__ Move p) { move<u32>(p); }
KERNEL move_u64(const __grid_constant__ Move p) { move<u64>(p); }
KERNEL move_u128(const __grid_constant__ Move p) { move<u128>(p); }

// Concatenating contiguous pieces along an axis: piece i has outer rows of width[i] elements,
// from column start[i] on in the result, whose rows have pitch elements.
template <int N> struct Pieces {
  void* out;
  u64 outer, pitch;
  const void* in[N];
  u64 start[N], width[N];
};

template <class T, int N> DEV void join(const Pieces<N>& p) {
  u64 width = p.width[blockIdx.y];
  const T* in = (const T*)p.in[blockIdx.y];
  T* out = (T*)p.out + p.start[blockIdx.y];
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.outer * width; i += (u64)gridDim.x * blockDim.x) {
    u64 row = p.outer == 1 ? 0 : i / width;
    out[row * p.pitch + (i - row * width)] = in[i];
  }
}
#define JOIN(T)                                                                        \
  KERNEL join4_##T(const __grid_constant__ Pieces<4> p) { join<T>(p); }                \
  KERNEL join80_##T(const __grid_constant__ Pieces<80> p) { join<T>(p); }
JOIN(u8) JOIN(u16) JOIN(u32) JOIN(u64) JOIN(u128)

// A tiled transposition: the operand's contiguous axis is not the result's.
// Tiles of 32×32 elements of (b, a) go through shared memory, so that both loads and stores
// are coalesced.
struct Transpose {
  void* out;
  const void* in;
  i64 a, b;           // sizes: b innermost in the result, a innermost in the operand
  i64 outA, inB;      // stride of a in the result, of b in the operand
  i64 tilesB;
  Idx rest;           // the other axes; strides: out, in
};

template <class T> DEV void transpose(const Transpose& p) {
  __shared__ T tile[32][33];
  i64 off[2];
  offsets<2>(p.rest, blockIdx.y, off);
  i64 b0 = (i64)blockIdx.x % p.tilesB * 32, a0 = (i64)blockIdx.x / p.tilesB * 32;
  int x = threadIdx.x & 31, y = threadIdx.x >> 5;
  const T* in = (const T*)p.in + off[1];
  T* out = (T*)p.out + off[0];
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (b0 + y + j < p.b && a0 + x < p.a) tile[y + j][x] = in[(b0 + y + j) * p.inB + a0 + x];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (a0 + y + j < p.a && b0 + x < p.b) out[(a0 + y + j) * p.outA + b0 + x] = tile[x][y + j];
}
KERNEL transpose_u8(const __grid_constant__ Transpose p) { transpose<u8>(p); }
KERNEL transpose_u16(const __grid_constant__ Transpose p) { transpose<u16>(p); }
KERNEL transpose_u32(const __grid_constant__ Transpose p) { transpose<u32>(p); }
KERNEL transpose_u64(const __grid_constant__ Transpose p) { transpose<u64>(p); }

// Adding at indices, in the order of the source's elements, without atomics: the indices
// have been sorted (stably), and the thread that finds the first of a run of equal ones adds
// the whole run. out holds a copy of x.
struct Scatter {
  void* out;
  const void *src, *index;
  const u32* order;  // [lines][len]: positions along the axis, sorted by index
  Flag* flag;
  u64 lines, len, inner; // inner: elements that share an index
  i64 axis, limit;       // stride and size of the axis in out
  i64 indexStep, srcStep; // strides of the axis in index and src
  i32 op, wide;
  i32 lanes, pad;        // threads that share an index: a power of two, at most 32
  Idx line;  // strides: index, src, out
  Idx cell;  // of the inner elements; strides: src, out
};

template <class T> struct Acc { typedef typename Compute<T>::type type; };
template <> struct Acc<u8> { typedef u32 type; };
template <> struct Acc<i32> { typedef u32 type; };
template <> struct Acc<i64> { typedef u64 type; };

template <class T> DEV void scatter_add(const Scatter& p) {
  typedef typename Acc<T>::type A;
  u64 g = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / (u32)p.lanes;
  u32 lane = threadIdx.x & (p.lanes - 1);
  u64 line = p.lines == 1 ? 0 : g / p.len, pos = g - line * p.len;
  if (line >= p.lines || pos >= p.len) return;
  const u32* order = p.order + line * p.len;
  i64 off[3];
  offsets<3>(p.line, line, off);
  i64 k = index_at(p.index, p.wide, off[0] + order[pos] * p.indexStep);
  if (k < 0 || k >= p.limit) {
    if (lane == 0) out_of_range(p.flag, p.op, k, p.limit);
    return;
  }
  if (pos > 0 && index_at(p.index, p.wide, off[0] + order[pos - 1] * p.indexStep) == k) return; // not the first of its run
  u64 end = pos + 1;
  while (end < p.len && index_at(p.index, p.wide, off[0] + order[end] * p.indexStep) == k) end++;
  const T* src = (const T*)p.src + off[1];
  T* out = (T*)p.out + off[2] + k * p.axis;
  bool dense = p.cell.nd == 0 || p.cell.nd == 1 && p.cell.stride[0][0] == 1 && p.cell.stride[1][0] == 1;
#pragma unroll 4
  for (u64 cell = lane; cell < p.inner; cell += p.lanes) {
    i64 c[2] = {(i64)cell, (i64)cell};
    if (!dense) offsets<2>(p.cell, cell, c);
    A sum = (A)get(out[c[1]]);
    for (u64 i = pos; i < end; i++) sum += (A)get(src[order[i] * p.srcStep + c[0]]);
    put(out[c[1]], (typename Compute<T>::type)sum);
  }
}
#define SCATTER(T) KERNEL scatter_add_##T(const __grid_constant__ Scatter p) { scatter_add<T>(p); }
NUMBER_TYPES(SCATTER)

// The same without sorting: everybody adds at once. The order of sums is not fixed, which
// shows in the last bits of floating-point numbers and not at all in whole ones.
template <class T, class A> DEV void scatter_atomic(const Scatter& p) {
  u64 g = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / (u32)p.lanes;
  u32 lane = threadIdx.x & (p.lanes - 1);
  u64 line = p.lines == 1 ? 0 : g / p.len, pos = g - line * p.len;
  if (line >= p.lines || pos >= p.len) return;
  i64 off[3];
  offsets<3>(p.line, line, off);
  i64 k = index_at(p.index, p.wide, off[0] + pos * p.indexStep);
  if (k < 0 || k >= p.limit) {
    if (lane == 0) out_of_range(p.flag, p.op, k, p.limit);
    return;
  }
  const T* src = (const T*)p.src + off[1] + pos * p.srcStep;
  T* out = (T*)p.out + off[2] + k * p.axis;
  bool dense = p.cell.nd == 0 || p.cell.nd == 1 && p.cell.stride[0][0] == 1 && p.cell.stride[1][0] == 1;
#pragma unroll 4
  for (u64 cell = lane; cell < p.inner; cell += p.lanes) {
    i64 c[2] = {(i64)cell, (i64)cell};
    if (!dense) offsets<2>(p.cell, cell, c);
    atomicAdd((A*)(out + c[1]), (A)src[c[0]]);
  }
}
#define SCATTER_ATOMIC(T, A) KERNEL scatter_atomic_##T(const __grid_constant__ Scatter p) { scatter_atomic<T, A>(p); }
SCATTER_ATOMIC(f32, f32) SCATTER_ATOMIC(f64, f64) SCATTER_ATOMIC(i32, i32) SCATTER_ATOMIC(i64, unsigned long long)

// Cumulative sums along an axis. line has the strides of in and out.
struct Scan {
  void* out;
  const void* in;
  u64 lines, len;
  i64 inStep, outStep; // strides of the axis
  i32 reverse, pad;
  Idx line;
};

// A thread per line: the axis is not the innermost.
template <class T> DEV void scan_lines(const Scan& p) {
  typedef typename Acc<T>::type A;
  u64 l = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (l >= p.lines) return;
  i64 off[2];
  offsets<2>(p.line, l, off);
  const T* in = (const T*)p.in + off[0];
  T* out = (T*)p.out + off[1];
  A sum = 0;
#pragma unroll 4
  for (u64 k = 0; k < p.len; k++) {
    i64 r = p.reverse ? p.len - 1 - k : k;
    sum += (A)get(in[r * p.inStep]);
    put(out[r * p.outStep], (typename Compute<T>::type)sum);
  }
}

// A block per line.
template <class T> DEV void scan_block(const Scan& p) {
  typedef typename Acc<T>::type A;
  __shared__ A warps[33];
  i64 off[2];
  offsets<2>(p.line, blockIdx.x, off);
  const T* in = (const T*)p.in + off[0];
  T* out = (T*)p.out + off[1];
  A carry = 0;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, count = blockDim.x >> 5;
  const int E = 4; // adjacent elements per thread
#pragma unroll 1
  for (u64 base = 0; base < p.len; base += blockDim.x * E) {
    u64 first = base + threadIdx.x * E;
    A v[E];
    A sum = 0;
#pragma unroll
    for (int e = 0; e < E; e++) {
      u64 k = first + e;
      i64 r = p.reverse ? p.len - 1 - k : k;
      sum += k < p.len ? (A)get(in[r * p.inStep]) : A(0);
      v[e] = sum;
    }
    A run = sum;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      A o = __shfl_up_sync(~0u, run, d);
      if (lane >= d) run += o;
    }
    __syncthreads();
    if (lane == 31) warps[warp] = run;
    __syncthreads();
    if (warp == 0) {
      A w = lane < count ? warps[lane] : A(0);
#pragma unroll
      for (int d = 1; d < 32; d <<= 1) {
        A o = __shfl_up_sync(~0u, w, d);
        if (lane >= d) w += o;
      }
      if (lane < count) warps[lane] = w;
    }
    __syncthreads();
    A left = __shfl_up_sync(~0u, run, 1);
    A before = carry + (warp > 0 ? warps[warp - 1] : A(0)) + (lane > 0 ? left : A(0));
#pragma unroll
    for (int e = 0; e < E; e++) {
      u64 k = first + e;
      i64 r = p.reverse ? p.len - 1 - k : k;
      if (k < p.len) put(out[r * p.outStep], (typename Compute<T>::type)(before + v[e]));
    }
    carry += warps[count - 1];
  }
}
#define SCAN(T)                                                                            \
  KERNEL scan_lines_##T(const __grid_constant__ Scan p) { scan_lines<T>(p); }              \
  KERNEL scan_block_##T(const __grid_constant__ Scan p) { scan_block<T>(p); }
NUMBER_TYPES(SCAN)
