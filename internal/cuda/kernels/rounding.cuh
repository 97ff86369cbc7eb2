// Arithmetic that must match another kernel bit for bit.
#pragma once
#include "locus.cuh"

// Products and sums that the compiler must not contract, or must contract exactly as it
// does in single ops: these kernels return the bits of single ops, which round after each.
DEV f32 times(f32 a, f32 b) { return __fmul_rn(a, b); }
DEV f64 times(f64 a, f64 b) { return __dmul_rn(a, b); }
DEV f32 plus(f32 a, f32 b) { return __fadd_rn(a, b); }
DEV f64 plus(f64 a, f64 b) { return __dadd_rn(a, b); }
DEV f32 times_plus(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
DEV f64 times_plus(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }

// blend rounds as the kernel of the op blend does.
template <class A> DEV A blend(A s0, A a, A s1, A b) { return times_plus(s0, a, times(s1, b)); }
