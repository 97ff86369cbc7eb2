// Blocks that share a result: each stores its part, and the one that finishes last merges
// them, in an order that does not depend on which one it is.
#pragma once
#include "locus.cuh"

// state reads what another block may have written: it bypasses the L1 cache.
template <class S> DEV S state(const S* p) {
  union { S s; u32 w[sizeof(S) / 4]; } r;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(S) / 4); i++) r.w[i] = ((const volatile u32*)p)[i];
  return r.s;
}

// last reports, to all threads of a block, whether the others of the n blocks with the
// same blockIdx.x have stored their states. If so, the counter is 0 again.
DEV bool last(u32* arrived, u32 n) {
  __shared__ bool yes;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) yes = atomicInc(arrived + blockIdx.x, n - 1) == n - 1;
  __syncthreads();
  __threadfence();
  return yes;
}
