// Stable sorting of positions by key: argsort, and the order in which values are scattered.
// Keys of any type become u64 with the same order; blocks sort runs of RUN keys in shared
// memory, and passes over all runs merge two into one.
#include "locus.cuh"

#define RUN 1024

struct Keys {
  const void* in;
  u64* keys; // [lines][len]
  u32* order;
  u64 lines, len;
  i64 step; // stride of the axis
  i32 reverse, pad;
  Idx line;
};

// Keys with the order of the numbers: -0 and 0 are equal, NaN is the largest.
DEV u64 key(b8 v) { return v.x != 0; }
DEV u64 key(u8 v) { return v; }
DEV u64 key(i32 v) { return (u64)((i64)v) ^ 1ull << 63; }
DEV u64 key(i64 v) { return (u64)v ^ 1ull << 63; }
DEV u64 key(f32 v) {
  if (v != v) return ~0ull >> 1;
  u32 b = __float_as_uint(v + 0.0f);
  return b >> 31 ? ~b : b | 1u << 31;
}
DEV u64 key(f64 v) {
  if (v != v) return ~0ull;
  u64 b = (u64)__double_as_longlong(v + 0.0);
  return b >> 63 ? ~b : b | 1ull << 63;
}
DEV u64 key(f16 v) { return key(get(v)); }
DEV u64 key(bf16 v) { return key(get(v)); }

#define KEYS(T)                                                                  \
  KERNEL sort_keys_##T(const __grid_constant__ Keys p) {                         \
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;                          \
    if (i >= p.lines * p.len) return;                                            \
    u64 line = i / p.len, k = i % p.len;                                         \
    u64 x = key(((const T*)p.in)[offset(p.line, line) + (i64)k * p.step]);       \
    p.keys[i] = p.reverse ? ~x : x;                                              \
    p.order[i] = (u32)k;                                                         \
  }
ALL_TYPES(KEYS)

struct Sort {
  const u64* keys;
  const u32* order;
  u64* keysOut;
  u32* orderOut;
  u64 lines, len, run; // run: length of the sorted runs that are merged
  u64 blocks;          // blocks per line
};

// Sorts runs of RUN keys, each by a block: a bitonic network on (key, position).
KERNEL sort_runs(const __grid_constant__ Sort p) {
  __shared__ u64 ks[RUN];
  __shared__ u32 os[RUN];
  u64 line = blockIdx.x / p.blocks, first = blockIdx.x % p.blocks * RUN;
  u64 base = line * p.len + first;
  int n = p.len - first < RUN ? (int)(p.len - first) : RUN;
  for (int i = threadIdx.x; i < RUN; i += blockDim.x) {
    ks[i] = i < n ? p.keys[base + i] : ~0ull;
    os[i] = i < n ? p.order[base + i] : ~0u;
  }
  __syncthreads();
#pragma unroll 1
  for (int size = 2; size <= RUN; size <<= 1)
#pragma unroll 1
    for (int d = size >> 1; d; d >>= 1) {
      for (int t = threadIdx.x; t < RUN / 2; t += blockDim.x) {
        int i = 2 * t - (t & (d - 1)), j = i + d;
        bool up = (i & size) == 0;
        u64 a = ks[i], b = ks[j];
        u32 x = os[i], y = os[j];
        bool greater = a > b || (a == b && x > y);
        if (greater == up) {
          ks[i] = b; ks[j] = a;
          os[i] = y; os[j] = x;
        }
      }
      __syncthreads();
    }
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    p.keysOut[base + i] = ks[i];
    p.orderOut[base + i] = os[i];
  }
}

// Merges pairs of runs: each element finds its place by counting the elements of the other
// run that precede it. Equal keys keep the order of the runs.
KERNEL sort_merge(const __grid_constant__ Sort p) {
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.lines * p.len) return;
  u64 line = i / p.len, k = i % p.len;
  const u64* keys = p.keys + line * p.len;
  u64 run = k / p.run, pair = run & ~1ull, own = run * p.run;
  bool second = run & 1;
  u64 lo = (second ? pair : run + 1) * p.run, hi = lo + p.run;
  if (lo > p.len) lo = p.len;
  if (hi > p.len) hi = p.len;
  u64 start = lo, x = keys[k];
  while (lo < hi) {
    u64 mid = (lo + hi) >> 1;
    if (keys[mid] < x || (second && keys[mid] == x)) lo = mid + 1;
    else hi = mid;
  }
  u64 at = line * p.len + pair * p.run + (k - own) + (lo - start);
  p.keysOut[at] = x;
  p.orderOut[at] = p.order[i];
}

struct Positions { i64* out; const u32* order; u64 lines, len; i64 step; Idx line; };

KERNEL sort_positions(const __grid_constant__ Positions p) {
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.lines * p.len) return;
  u64 line = i / p.len, k = i % p.len;
  p.out[offset(p.line, line) + (i64)k * p.step] = p.order[i];
}
