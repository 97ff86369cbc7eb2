// Hopper's tensor cores (wgmma) for the kernels of attention: products of 64 rows per
// warpgroup, with tiles in the 128-byte swizzle.
#pragma once
#include "attention.cuh"
#include "matrix.cuh"

// SS: d = a·bᵀ (+ d) with a and b in shared memory, both contiguous along k. RS: d += a·b
// with a in registers and b contiguous across k. 16 steps of k, 64×N results.
#define WGMMA_SS_64(type) \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
               "}, %32, %33, p, 1, 1, 0, 0;}" : \
               "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) \
               : "l"(a), "l"(b), "r"(add))
#define WGMMA_SS_128(type) \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
               "}, %64, %65, p, 1, 1, 0, 0;}" : \
               "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
               "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
               "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
               "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
               "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) \
               : "l"(a), "l"(b), "r"(add))
#define WGMMA_RS_64(type) \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
               "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;}" : \
               "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))
#define WGMMA_RS_128(type) \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
               "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;}" : \
               "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
               "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
               "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
               "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
               "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))
DEV void wgmma(f32 (&d)[32], u64 a, u64 b, i32 add, f16*) { WGMMA_SS_64("f16"); }
DEV void wgmma(f32 (&d)[32], u64 a, u64 b, i32 add, bf16*) { WGMMA_SS_64("bf16"); }
DEV void wgmma(f32 (&d)[32], const u32* a, u64 b, f16*) { WGMMA_RS_64("f16"); }
DEV void wgmma(f32 (&d)[32], const u32* a, u64 b, bf16*) { WGMMA_RS_64("bf16"); }
DEV void wgmma(f32 (&d)[64], u64 a, u64 b, i32 add, f16*) { WGMMA_SS_128("f16"); }
DEV void wgmma(f32 (&d)[64], u64 a, u64 b, i32 add, bf16*) { WGMMA_SS_128("bf16"); }
DEV void wgmma(f32 (&d)[64], const u32* a, u64 b, f16*) { WGMMA_RS_128("f16"); }
DEV void wgmma(f32 (&d)[64], const u32* a, u64 b, bf16*) { WGMMA_RS_128("bf16"); }

// settle keeps the compiler from touching the accumulators before the tensor cores are done.
template <int N> DEV void settle(f32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
DEV void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// A tile has W/64 panels of ROWS rows of 128 bytes. These are the descriptors of a tile
// that is contiguous along k, and across k.
DEV u64 along(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
template <int ROWS> DEV u64 across(u32 at) { return (u64)((at & 0x3ffff) >> 4) | (u64)(ROWS * 8) << 16 | 64ull << 32 | 1ull << 62; }

// load starts copying ROWS rows from first on to a tile, by 128 threads; elements outside
// the matrix become 0.
template <class T, int ROWS, int W> DEV void load(u32 tile, const T* m, i64 stride, i32 first, i32 rows, i32 cols) {
  enum { CHUNKS = W / 8, DOWN = 128 / CHUNKS };
  i32 row = (threadIdx.x & 127) / CHUNKS, chunk = threadIdx.x % CHUNKS, left = cols - chunk * 8;
  i32 size = left >= 8 ? 16 : left > 0 ? left * 2 : 0;
  u32 to = tile + (chunk >> 3) * ROWS * 128 + row * 128 + (((chunk & 7) ^ (row & 7)) << 4);
  const T* from = m + (i64)(first + row) * stride + (left > 0 ? chunk * 8 : 0);
#pragma unroll
  for (int i = 0; i < ROWS / DOWN; i++) {
    bool there = first + row + i * DOWN < rows;
    copy16(to + i * DOWN * 128, there ? from + i * DOWN * stride : m, there ? size : 0);
  }
}

// A barrier counts arrivals; its phases alternate between parity 0 and 1.
DEV void barrier_init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
DEV void barrier_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEV void barrier_wait(u32 bar, u32 parity) {
  asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @p bra done; bra again; done: }" ::"r"(bar), "r"(parity) : "memory");
}
DEV void copies_arrived(u32 bar) { // of this thread: the tensor cores may read them
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  barrier_arrive(bar);
}
