// Products of float64 with the instruction of sm_80.
#include "gemm_f64.cuh"

struct M8 {
  enum { K = 4 };
  static METHOD void multiply(f64 (*acc)[4][2], f64 (*a)[4], f64 (*b)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(acc[i][j][0]), "+d"(acc[i][j][1]) : "d"(a[0][i]), "d"(b[0][j]));
  }
};
GEMM(gemm_mma, M8)
