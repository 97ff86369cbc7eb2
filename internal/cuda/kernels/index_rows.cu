// Adding whole rows at indices, in an order that depends on the indices alone: the
// gradient of an embedding. The indices are sorted, stably, a few bits at a time;
// warps sum chunks of the sorted rows. A run of equal indices within one chunk is written
// at once; the parts of a longer run are added afterwards, in the order of the chunks. There
// are no atomic additions, so results repeat.
#include "locus.cuh"

#define DIGITS 512 // the most per pass
#define TILE 1024  // keys that a block ranks at a time
#define WARPS 8

DEV i64 index_at(const void* p, i32 wide, i64 i) { return wide ? ((const i64*)p)[i] : ((const i32*)p)[i]; }

// Radix is a pass that sorts (key, position) by as many bits of the key, from shift on.
// In the first pass keys is null: keys are the indices, and those out of range become limit.
struct Radix {
  const void* index;
  const u32 *keys, *order;
  u32 *keysOut, *orderOut;
  u32* counts; // [blocks][1 << bits]
  Flag* flag;
  i64 step; // stride of the indices
  u32 n, limit, span; // span: keys per block, a multiple of TILE
  i32 shift, bits, wide, op;
};

DEV u32 radix_key(const Radix& p, u32 i, bool report) {
  if (p.keys) return p.keys[i];
  i64 k = index_at(p.index, p.wide, (i64)i * p.step);
  if (k >= 0 && k < (i64)p.limit) return (u32)k;
  if (report) out_of_range(p.flag, p.op, k, p.limit);
  return p.limit;
}

// radix_count counts the keys of each block by digit.
KERNEL __launch_bounds__(256) radix_count(const __grid_constant__ Radix p) {
  __shared__ u32 counts[DIGITS];
  u32 digits = 1u << p.bits;
  for (u32 d = threadIdx.x; d < digits; d += blockDim.x) counts[d] = 0;
  __syncthreads();
  u32 lo = blockIdx.x * p.span, hi = p.n - lo < p.span ? p.n : lo + p.span;
  for (u32 i = lo + threadIdx.x; i < hi; i += blockDim.x)
    atomicAdd(&counts[radix_key(p, i, true) >> p.shift & (digits - 1)], 1u);
  __syncthreads();
  for (u32 d = threadIdx.x; d < digits; d += blockDim.x) p.counts[blockIdx.x * digits + d] = counts[d];
}

// radix_place moves each key to its place: after smaller digits, equal ones of earlier blocks,
// and earlier equal ones of its block.
KERNEL __launch_bounds__(256) radix_place(const __grid_constant__ Radix p) {
  __shared__ u32 next[DIGITS];         // where the block's next key of a digit goes
  __shared__ u32 seen[WARPS][DIGITS];  // in a tile: the keys of a digit in a warp, then those in earlier warps
  __shared__ u32 sums[WARPS];
  u32 digits = 1u << p.bits, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  // A thread handles two adjacent digits.
  u32 d0 = 2 * threadIdx.x, all[2] = {0, 0}, before[2] = {0, 0};
#pragma unroll
  for (int e = 0; e < 2; e++)
    if (d0 + e < digits) {
#pragma unroll 4
      for (u32 b = 0; b < gridDim.x; b++) {
        u32 c = p.counts[b * digits + d0 + e];
        all[e] += c;
        if (b < blockIdx.x) before[e] += c;
      }
    }
  u32 run = all[0] + all[1], mine = run;
#pragma unroll
  for (int k = 1; k < 32; k <<= 1) {
    u32 o = __shfl_up_sync(~0u, run, k);
    if (lane >= k) run += o;
  }
  if (lane == 31) sums[warp] = run;
  __syncthreads();
  u32 start = run - mine;
  for (u32 w = 0; w < warp; w++) start += sums[w];
  if (d0 < digits) next[d0] = start + before[0];
  if (d0 + 1 < digits) next[d0 + 1] = start + all[0] + before[1];

  u32 lo = blockIdx.x * p.span, hi = p.n - lo < p.span ? p.n : lo + p.span;
#pragma unroll 1
  for (u32 tile = lo; tile < hi; tile += TILE) {
    __syncthreads();
    for (u32 i = threadIdx.x; i < WARPS * DIGITS; i += blockDim.x) seen[i / DIGITS][i % DIGITS] = 0;
    __syncthreads();
    const int E = TILE / (WARPS * 32);
    u32 key[E], rank[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
      u32 i = tile + warp * (TILE / WARPS) + e * 32 + lane;
      bool in = i < hi;
      key[e] = in ? radix_key(p, i, false) : 0;
      u32 d = key[e] >> p.shift & (digits - 1);
      u32 peers = __ballot_sync(~0u, in);
#pragma unroll 1
      for (int b = 0; b < p.bits; b++) {
        u32 set = __ballot_sync(~0u, d >> b & 1);
        peers &= d >> b & 1 ? set : ~set;
      }
      u32 old = in ? seen[warp][d] : 0;
      __syncwarp();
      rank[e] = old + __popc(peers & ((1u << lane) - 1));
      if (in && (peers >> lane) == 1) seen[warp][d] = old + __popc(peers); // the last of them
      __syncwarp();
    }
    __syncthreads();
    for (u32 d = threadIdx.x; d < digits; d += blockDim.x) {
      u32 at = next[d];
#pragma unroll
      for (int w = 0; w < WARPS; w++) {
        u32 c = seen[w][d];
        seen[w][d] = at;
        at += c;
      }
      next[d] = at;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < E; e++) {
      u32 i = tile + warp * (TILE / WARPS) + e * 32 + lane;
      if (i >= hi) continue;
      u32 at = seen[warp][key[e] >> p.shift & (digits - 1)] + rank[e];
      p.keysOut[at] = key[e];
      p.orderOut[at] = p.order ? p.order[i] : i;
    }
  }
}

// RowSums is out = x, with the rows of src added at the sorted keys. Rows are in units of 16
// bytes. out holds x already, unless uniform is set: then all of x is one number, which is
// read from x.
struct RowSums {
  void* out;
  const void *x, *src;
  const u32 *keys, *order;
  void* partial; // [chunks][2][width units]: a chunk's part of the run that it begins with, and of the one that it ends with
  u32 n, limit, len, chunks;  // len: rows of a chunk
  i64 width, outStride, srcStride; // units
  i32 uniform, pad;
};

template <class T> struct alignas(16) Unit {
  typedef typename Compute<T>::type A;
  static const int N = 16 / sizeof(T);
  A v[N];
  METHOD void zero() {
#pragma unroll
    for (int e = 0; e < N; e++) v[e] = A(0);
  }
  METHOD void add(const Vec<T, N>& x) {
#pragma unroll
    for (int e = 0; e < N; e++) v[e] += (A)get(x.v[e]);
  }
  METHOD void add(const Unit& x) {
#pragma unroll
    for (int e = 0; e < N; e++) v[e] += x.v[e];
  }
};

// row_done writes the row of a key: that of x plus the sum.
template <class T> DEV void row_done(const RowSums& p, u32 key, i64 c, const Unit<T>& sum) {
  typedef Vec<T, Unit<T>::N> V;
  if (c >= p.width || key >= p.limit) return;
  V* at = (V*)p.out + key * p.outStride + c;
  V r;
  if (p.uniform) {
#pragma unroll
    for (int e = 0; e < Unit<T>::N; e++) r.v[e] = *(const T*)p.x;
  } else {
    r = *at;
  }
#pragma unroll
  for (int e = 0; e < Unit<T>::N; e++) put(r.v[e], get(r.v[e]) + sum.v[e]);
  *at = r;
}

template <class T> DEV Unit<T>* partial_at(const RowSums& p, u32 chunk, u32 which, i64 c) {
  return (Unit<T>*)p.partial + ((u64)chunk * 2 + which) * p.width + c;
}

template <class T> DEV void row_sums(const RowSums& p) {
  typedef Vec<T, Unit<T>::N> V;
  u32 chunk = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (chunk >= p.chunks) return;
  i64 c = (i64)blockIdx.y * 32 + lane;
  u32 lo = chunk * p.len, hi = p.n - lo < p.len ? p.n : lo + p.len;
  u32 cur = p.keys[lo];
  bool head = lo > 0 && p.keys[lo - 1] == cur; // the run began in another chunk
  Unit<T> sum;
  sum.zero();
#pragma unroll 1
  for (u32 i = lo; i < hi; i += 32) {
    u32 key = 0, row = 0, m = hi - i < 32 ? hi - i : 32;
    if (lane < m) {
      key = p.keys[i + lane];
      row = p.order[i + lane];
    }
    const int U = 8;
#pragma unroll 1
    for (u32 j = 0; j < m; j += U) {
      V v[U];
#pragma unroll
      for (int u = 0; u < U; u++) {
        u32 r = __shfl_sync(~0u, row, (j + u) & 31);
        if (j + u < m && c < p.width) v[u] = ((const V*)p.src)[r * p.srcStride + c];
      }
#pragma unroll
      for (int u = 0; u < U; u++) {
        u32 k = __shfl_sync(~0u, key, (j + u) & 31);
        if (j + u >= m) continue;
        if (k != cur) {
          if (!head) row_done<T>(p, cur, c, sum);
          else if (c < p.width) *partial_at<T>(p, chunk, 0, c) = sum;
          cur = k;
          head = false;
          sum.zero();
        }
        if (c < p.width) sum.add(v[u]);
      }
    }
  }
  if (!head && !(hi < p.n && p.keys[hi] == cur)) row_done<T>(p, cur, c, sum);
  else if (c < p.width) *partial_at<T>(p, chunk, head ? 0 : 1, c) = sum;
}

// row_joins adds the parts of runs that begin in one chunk and continue in the next.
template <class T> DEV void row_joins(const RowSums& p) {
  u32 chunk = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (chunk + 1 >= p.chunks) return;
  i64 c = (i64)blockIdx.y * 32 + (threadIdx.x & 31);
  u32 lo = chunk * p.len, hi = lo + p.len, cur = p.keys[hi - 1];
  if (p.keys[hi] != cur || lo > 0 && p.keys[lo - 1] == cur || c >= p.width) return;
  Unit<T> sum = *partial_at<T>(p, chunk, 1, c);
  const int U = 4;
#pragma unroll 1
  for (u32 j = chunk + 1;; j += U) {
    Unit<T> v[U];
    bool more[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      more[u] = j + u < p.chunks && p.keys[(u64)(j + u) * p.len] == cur;
      if (more[u]) v[u] = *partial_at<T>(p, j + u, 0, c);
    }
#pragma unroll
    for (int u = 0; u < U; u++)
      if (more[u]) sum.add(v[u]);
    if (!more[U - 1]) break;
  }
  row_done<T>(p, cur, c, sum);
}

#define ROWS(T)                                                                                        \
  KERNEL __launch_bounds__(256) row_sums_##T(const __grid_constant__ RowSums p) { row_sums<T>(p); }     \
  KERNEL __launch_bounds__(256) row_joins_##T(const __grid_constant__ RowSums p) { row_joins<T>(p); }
FLOAT_TYPES(ROWS)
