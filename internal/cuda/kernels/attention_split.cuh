// What the kernels of float32 attention on the tensor cores share.
#pragma once
#include "attention.cuh"
#include "split.cuh"

// Place says which rows of which matrix a block starts with. Under a causal mask the blocks
// with the most work start first: the last queries, or the first keys, of all matrices.
struct Place {
  i32 block;
  u64 batch;

  METHOD Place(const Attention& p, bool queries) : block(blockIdx.x), batch(blockIdx.y) {
    if (!p.causal) return;
    u32 i = blockIdx.y * gridDim.x + blockIdx.x;
    block = i / gridDim.y;
    batch = i % gridDim.y;
    if (queries) block = gridDim.x - 1 - block;
  }
};

// again records whether any thread of a block of ROWS rows found a result that is not finite.
template <int ROWS> DEV void again(const Attention& p, u64 batch, i32 block, i32 rows, bool bad) {
  bad = __syncthreads_or(bad);
  i32 i = block * (ROWS / 64) + threadIdx.x, all = (rows + 63) / 64;
  if (threadIdx.x < ROWS / 64 && i < all) p.again[batch * all + i] = bad;
}
