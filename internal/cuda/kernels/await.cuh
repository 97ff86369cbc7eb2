// Blocks that wait for each other, which all blocks of a launch must be running for.
#pragma once
#include "arrive.cuh"

// pause lets other warps of the multiprocessor run for a while.
DEV void pause() { asm volatile("nanosleep.u32 40;"); }

// await returns when one of the n blocks with the same blockIdx.x, all of which call it and
// run at once, has called it with done. What that one has stored before can then be read by
// state. It takes two counters for each blockIdx.x, 0 between launches: whether it is done,
// and, gridDim.x behind, how many blocks know.
DEV void await(bool done, u32* counters, u32 n) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    volatile u32* there = counters + blockIdx.x;
    if (done) *there = 1;
    else while (*there == 0) pause();
    __threadfence();
    if (atomicInc(counters + gridDim.x + blockIdx.x, n - 1) == n - 1) *there = 0;
  }
  __syncthreads();
}
