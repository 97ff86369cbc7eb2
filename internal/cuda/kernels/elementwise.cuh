// The frame of every kernel that computes one element from one element of each
// operand. A thread computes V adjacent elements of the result, which is contiguous;
// how it loads those of the operands depends on their layouts.
#pragma once
#include "locus.cuh"

enum Mode {
  CONTIGUOUS, // in the order of the result, aligned: one wide load
  CONSTANT,   // a scalar, in bits
  ROW,        // the innermost axis is contiguous and a multiple of V: one wide load
  SPLAT,      // the innermost axis is broadcast and a multiple of V: one load
  SCATTERED,  // anything else
};

struct Elementwise {
  void* out;
  const void* in[3];
  u64 bits[3];
  u64 n;
  i32 mode[3];
  i32 find;      // some operand's offsets must be computed
  i32 scattered; // some operand's mode is SCATTERED
  i32 pad;
  Idx idx;
};

// wide loads V elements at i, or at off where the mode says so.
template <int K, class T, int V> DEV void wide(const Elementwise& p, u64 i, i64 off, T* r) {
  const T* in = (const T*)p.in[K];
  if (p.mode[K] == CONTIGUOUS || p.mode[K] == ROW) {
    *(Vec<T, V>*)r = *(const Vec<T, V>*)(in + (p.mode[K] == ROW ? off : (i64)i));
    return;
  }
  T c = p.mode[K] == CONSTANT ? *(const T*)&p.bits[K] : in[off];
#pragma unroll
  for (int j = 0; j < V; j++) r[j] = c;
}

template <int K, class T> DEV T single(const Elementwise& p, u64 i, i64 off) {
  return p.mode[K] == CONSTANT ? *(const T*)&p.bits[K] : ((const T*)p.in[K])[p.mode[K] == CONTIGUOUS ? (i64)i : off];
}

template <int N, int V, class O, class T0, class T1, class T2, class F> DEV void elementwise(const Elementwise& p, F f) {
  u64 base = (u64)blockIdx.x * blockDim.x * V;
  i64 off[3] = {0, 0, 0};
  if (!p.scattered && base + blockDim.x * V <= p.n) {
    u64 i = base + threadIdx.x * V;
    if (p.find) offsets<N>(p.idx, i, off);
    alignas(16) T0 a[V];
    alignas(16) T1 b[V];
    alignas(16) T2 c[V];
    wide<0, T0, V>(p, i, off[0], a);
    if (N > 1) wide<1, T1, V>(p, i, off[1], b);
    if (N > 2) wide<2, T2, V>(p, i, off[2], c);
    alignas(16) O r[V];
#pragma unroll
    for (int j = 0; j < V; j++) put(r[j], f(get(a[j]), N > 1 ? get(b[j]) : get(T1()), N > 2 ? get(c[j]) : get(T2())));
    *(Vec<O, V>*)((O*)p.out + i) = *(Vec<O, V>*)r;
    return;
  }
  // The last block and scattered operands: adjacent threads compute adjacent elements,
  // one at a time.
#pragma unroll 1
  for (int j = 0; j < V; j++) {
    u64 i = base + j * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    if (p.find) offsets<N>(p.idx, i, off);
    T0 a = single<0, T0>(p, i, off[0]);
    T1 b = N > 1 ? single<1, T1>(p, i, off[1]) : T1();
    T2 c = N > 2 ? single<2, T2>(p, i, off[2]) : T2();
    put(((O*)p.out)[i], f(get(a), get(b), get(c)));
  }
}

// The number of elements that a thread computes for an operand type T. Heavy functions
// take fewer: their code is long, and they are not limited by memory.
#define WIDE(T) LANES(T)
#define HEAVY(T) (sizeof(T) == 8 ? 1 : 2)
