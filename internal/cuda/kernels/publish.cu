// A few bytes for the host: a kernel that writes them where the host looks is there
// sooner than a copy, which another engine of the card makes.
#include "locus.cuh"

struct Publish {
  const u8* from;
  u8* to;
  u32* done; // in memory of the host, as is to: gets the ticket when all bytes are there
  u32 ticket, n;
};

KERNEL publish(const __grid_constant__ Publish p) { // by one warp
  for (u32 i = threadIdx.x; i < p.n; i += 32) p.to[i] = p.from[i];
  __threadfence_system();
  __syncwarp();
  if (threadIdx.x == 0) *(volatile u32*)p.done = p.ticket;
}
