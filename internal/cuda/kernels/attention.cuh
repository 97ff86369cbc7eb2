// What the kernels of attention share: their parameters.
#pragma once
#include "locus.cuh"

struct Attention {
  void* out;
  const void *q, *k, *v, *mask;
  f64 scale;
  i32 rows, keys, depth, width; // L, S, D, E
  i32 causal, maskKind;         // 0: none, 1: float, 2: bool
  u64 batches;
  i32 wide, pad; // bits: q, k, v, g may be read four elements at a time
  i64 qs[2], ks[2], vs[2], ms[2]; // strides of the last two axes
  Idx batch, maskBatch;           // strides: q, k, v; and mask
};

// The gradients dq, dk and dv for the gradient g of the result y. Rows have
// their statistics in stats: the logarithm (to base 2) of the sum that the weights were divided
// by, infinite if nothing is seen, and Σ g·y.
struct AttentionGrad {
  Attention a;
  const void *g, *y;
  void *dq, *dk, *dv, *stats;
  i64 gs[2], ys[2];
  Idx gy; // strides: g, y
};

#define LOG2E 1.4426950408889634

// 2 to the power of x by the special function unit, for weights in half precision.
DEV f32 power2(f32 x) { f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }

// mask_at gives what the mask adds to a score, in units of the exponent of 2.
template <class T, class A> DEV A mask_at(const Attention& p, i64 base, i32 row, i32 col) {
  i64 at = base + row * p.ms[0] + col * p.ms[1];
  if (p.maskKind == 1) return get(((const T*)p.mask)[at]) * (A)LOG2E;
  return ((const u8*)p.mask)[at] ? A(0) : A(-INF_D);
}
