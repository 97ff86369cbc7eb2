// Rows that are kept in registers: each is held by a warp, which needs no shared memory for
// its sums, or by a block.
#pragma once
#include "locus.cuh"

// The most vectors that a thread holds.
#define HELD 8

template <class A> DEV A plus(A x, A y) { return x + y; }

template <bool WARP, class A> DEV A total(A v, A* room) { return WARP ? warp_reduce(v, plus<A>) : block_reduce(v, A(0), room, plus<A>); }

// moments sets the mean, unless rms is set, and m2, the sum of squared differences from it,
// of a row of len elements, of which a thread holds vectors from first on, step apart.
template <bool WARP, class T, int V, int H, class A> DEV void moments(const Vec<T, V> (&x)[H], int first, int step, int len, A n, i32 rms, A* room, A& mean, A& m2) {
  A sum = A(0);
  m2 = A(0);
  if (!rms) {
#pragma unroll
    for (int h = 0; h < H; h++)
      if (first + h * step < len)
#pragma unroll
        for (int j = 0; j < V; j++) sum += get(x[h].v[j]);
    mean = total<WARP>(sum, room) / n;
  }
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len)
#pragma unroll
      for (int j = 0; j < V; j++) {
        A c = get(x[h].v[j]) - mean;
        m2 += c * c;
      }
  m2 = total<WARP>(m2, room);
}
