// Products of float64 with an instruction of sm_90, which reaches the full rate there.
#include "gemm_f64.cuh"

struct M16 {
  enum { K = 8 };
  static METHOD void multiply(f64 (*acc)[4][2], f64 (*a)[4], f64 (*b)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2)
#pragma unroll
      for (int j = 0; j < 4; j++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+d"(acc[i][j][0]), "+d"(acc[i][j][1]), "+d"(acc[i + 1][j][0]), "+d"(acc[i + 1][j][1])
                     : "d"(a[0][i]), "d"(a[0][i + 1]), "d"(a[1][i]), "d"(a[1][i + 1]), "d"(b[0][j]), "d"(b[1][j]));
  }
};
GEMM(gemm_mma16, M16)
