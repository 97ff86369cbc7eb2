// What the kernels of attention share: their parameters.
#pragma once
#include "locus.cuh"

struct Attention {
  void* out;
  const void *q, *k, *v, *mask;
  void* saved; // the logarithm of each row's Σe^score, +Inf if all keys are masked; or null
  u32* again;  // per 64 rows of each matrix, whether attention.cu must compute them again; or null
  f64 scale;
  i32 rows, keys, depth, width; // L, S, D, E
  i32 causal, maskKind;         // 0: none, 1: float, 2: bool
  u64 batches;
  i32 wide;         // bits: q, k, v, g may be loaded four elements at a time
  i32 heads, parts; // how results lie: see row_step
  i32 pad;
  i64 qs[2], ks[2], vs[2], ms[2]; // strides of the last two axes
  Idx batch, maskBatch;           // strides: q, k, v; and mask
};

// The gradients dq, dk and dv for the gradient g of the result y. stats has two numbers per
// row, which the first kernel computes: what attention saved, to base 2, and Σ g·y.
struct AttentionGrad {
  Attention a; // saved is read
  const void *g, *y;
  void *dq, *dk, *dv, *stats;
  i64 gs[2], ys[2];
  Idx gy; // strides: g, y
  // Only in attention.cu: the matrices of this launch, [first, last), and where dkv stores
  // t for dq, or null: size elements per matrix and, without a causal mask, pitch elements,
  // a multiple of 64, per key.
  u64 first, last;
  void* t;
  i64 size, pitch;
};

// The results of a matrix are its rows one after the other, and those of the next matrix
// follow: with heads and parts 1. With more heads, what belongs to a row lies head by head,
// and in gradients so do those of q, k and v, with parts 3.
DEV i64 row_step(const Attention& p, i32 cols) { return (i64)p.heads * p.parts * cols; }

// result_at is where the results of a matrix begin.
DEV i64 result_at(const Attention& p, u64 batch, i32 rows, i32 cols) {
  u32 outer = (u32)batch / (u32)p.heads; // a division of 64 bits takes registers
  return (i64)outer * rows * row_step(p, cols) + (i64)((u32)batch - outer * p.heads) * cols;
}

#define LOG2E 1.4426950408889634
#define LN2 0.6931471805599453

// save stores what the gradient needs of a row, from the largest score m, which is to base
// 2, and the sum l of the weights relative to it.
template <class A> DEV void save(const Attention& p, u64 row, A m, A l) {
  ((A*)p.saved)[row] = l == A(0) ? A(INF_D) : (m + m_log2(l)) * (A)LN2;
}

// power2 returns 2 to the power of x by the special function unit, for weights in half precision.
DEV f32 power2(f32 x) { f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }

// mask_at returns what the mask adds to a score, to base 2.
template <class T, class A> DEV A mask_at(const Attention& p, i64 base, i32 row, i32 col) {
  i64 at = base + row * p.ms[0] + col * p.ms[1];
  if (p.maskKind == 1) return get(((const T*)p.mask)[at]) * (A)LOG2E;
  return ((const u8*)p.mask)[at] ? A(0) : A(-INF_D);
}

// kept returns where the t of a key are stored, by query. Under a causal mask, these are
// only the queries from the first key of the block of 64 on: the others see none of it.
template <class A> DEV A* kept(const AttentionGrad& g, u64 batch, i32 key) {
  A* t = (A*)g.t + (batch - g.first) * g.size;
  if (!g.a.causal) return t + key * g.pitch;
  i64 from = key & ~63, block = key >> 6, rows = g.pitch - from;
  return t + (block * g.pitch - (block - 1) * block / 2 * 64) * 64 + (key - from) * rows - from;
}
