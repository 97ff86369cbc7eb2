// Kernels on images that are stored channels last: rows are pixels, and a thread handles N
// adjacent channels. A block's threads form a grid: wide of them, a power of two, share a
// row and take its channels.
#pragma once
#include "arrive.cuh"

#define PIXEL_THREADS 512

// A thread's place in the grid: its first channel, and its row in the block.
template <int N> struct Spot {
  i32 tx, ty, down, channel;
  bool mine;
  METHOD Spot(i32 wide, i32 channels, u32 block) {
    tx = threadIdx.x & (wide - 1);
    ty = threadIdx.x / wide;
    down = PIXEL_THREADS / wide;
    channel = (block * wide + tx) * N;
    mine = channel < channels; // then the next N - 1 exist too
  }
};

// over_rows sums the N values of every thread over the block's rows. Each of the first
// wide·N threads gets the sum of one channel, which is that of which().
template <int N> DEV i32 which(i32 wide) { return (threadIdx.x & (wide - 1)) * N + (threadIdx.x / wide) % N; }
template <class A, int N> DEV A over_rows(i32 wide, const A* v, A* room) {
  i32 columns = wide * N, parts = PIXEL_THREADS / columns; // each part of the threads sums N rows
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; j++) room[j * PIXEL_THREADS + threadIdx.x] = v[j];
  __syncthreads();
  i32 tx = threadIdx.x & (wide - 1), j = (threadIdx.x / wide) % N, part = threadIdx.x / columns;
  A s = A(0);
#pragma unroll
  for (int k = 0; k < N; k++) s += room[j * PIXEL_THREADS + (part * N + k) * wide + tx];
  __syncthreads();
  room[threadIdx.x] = s;
  __syncthreads();
  s = A(0);
  if ((i32)threadIdx.x < columns)
    for (i32 k = 0; k < parts; k++) s += room[k * columns + threadIdx.x];
  return s;
}

// over_parts does the same where every thread has one value, of channel which().
template <class A, int N> DEV A over_parts(i32 wide, A v, A* room) {
  i32 columns = wide * N, parts = PIXEL_THREADS / columns;
  __syncthreads();
  room[threadIdx.x] = v;
  __syncthreads();
  v = A(0);
  if ((i32)threadIdx.x < columns)
    for (i32 k = 0; k < parts; k++) v += room[k * columns + threadIdx.x];
  return v;
}

// from returns to every thread the value of one of the first wide·N threads.
template <class A, int N> DEV A from(i32 wide, A v, i32 thread, A* room) {
  __syncthreads();
  if ((i32)threadIdx.x < wide * N) room[threadIdx.x] = v;
  __syncthreads();
  return room[thread];
}

// stored reads what another block has stored, past the L1 cache, in one load.
template <class S> DEV S stored(const S* p) {
  static_assert(sizeof(S) == 4 || sizeof(S) == 8 || sizeof(S) == 16, "one number or two");
  union { S s; u32 w[4]; } r;
  if (sizeof(S) == 4)
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(r.w[0]) : "l"(p) : "memory");
  if (sizeof(S) == 8)
    asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(r.w[0]), "=r"(r.w[1]) : "l"(p) : "memory");
  if (sizeof(S) == 16)
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p) : "memory");
  return r.s;
}

// each_partial calls f with the index and the value of elements part, part + parts, … below n
// of a list, step elements apart, that other blocks have written. Eight loads are in flight
// at a time: one after the other, they would take longer than everything before them.
#define UNDER_WAY 8
template <class S, class F> DEV void each_partial(const S* list, u64 step, i32 n, i32 part, i32 parts, F f) {
#pragma unroll 1
  for (i32 k = part; k < n; k += parts * UNDER_WAY) {
    S v[UNDER_WAY];
#pragma unroll
    for (int q = 0; q < UNDER_WAY; q++) {
      i32 i = k + q * parts;
      v[q] = stored(list + (u64)(i < n ? i : n - 1) * step);
    }
#pragma unroll
    for (int q = 0; q < UNDER_WAY; q++)
      if (k + q * parts < n) f(k + q * parts, v[q]);
  }
}

// Two are two sums of a channel.
template <class A> struct alignas(2 * sizeof(A)) Two { A a, b; };
