// What kernels on the tensor cores share: asynchronous copies to shared memory, loads from
// there to registers, and the products of mma.sync.
#pragma once
#include "locus.cuh"

DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// copy16 starts copying 16 bytes, of which the first size exist; the others become zero.
DEV void copy16(u32 to, const void* from, int size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size));
}
DEV void ldmatrix(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
DEV void ldmatrix_transposed(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
#define MMA(shape)                                                                                                    \
  asm volatile("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                     \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
DEV void mma(f32* c, const u32* a, const u32* b, f16*) { MMA("m16n8k16.row.col.f32.f16.f16.f32"); }
DEV void mma(f32* c, const u32* a, const u32* b, bf16*) { MMA("m16n8k16.row.col.f32.bf16.bf16.f32"); }

// pack puts two numbers into one register, as the tensor cores read them.
DEV u32 pack(f32 lo, f32 hi, f16*) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEV u32 pack(f32 lo, f32 hi, bf16*) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
