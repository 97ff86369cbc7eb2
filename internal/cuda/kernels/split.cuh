// Products of float32 on the tensor cores (mma.sync). Those multiply numbers with 11
// significant bits (TF32) and truncate their sums. So a number is split into the sum of
// two such numbers, which loses at most its last bit, and a product into three:
//
//	x·y = x.small·y.big + x.big·y.small + x.big·y.big
//
// The term that is left out is 2⁻²⁴ of the product. Sums on the tensor cores are kept
// short, and added to each other in float32, which rounds to nearest. So errors are those
// of sums in float32, as a test checks. Infinities, and numbers that round to infinity,
// become NaN in the split: the caller checks the results, and computes what is not finite
// again in plain float32.
#pragma once
#include "matrix.cuh"

template <int N> struct Split { u32 big[N], small[N]; };

// The larger part is x rounded to 11 bits, in integer arithmetic: the integer units are
// less busy than those of float32.
template <int N> DEV void split(Split<N>& to, int i, f32 x) {
  to.big[i] = (__float_as_uint(x) + 0x1000) & 0xffffe000;
  to.small[i] = __float_as_uint(__fadd_rn(x, -__uint_as_float(to.big[i])));
}

DEV void mma_tf32(f32* c, const u32* a, const u32* b) { MMA("m16n8k8.row.col.f32.tf32.tf32.f32"); }

// c += a·b, 16×8 by 8×8, the small products first. b is read from its element at on.
template <int N> DEV void mma(f32* c, const Split<4>& a, const Split<N>& b, int at) {
  mma_tf32(c, a.small, b.big + at);
  mma_tf32(c, a.big, b.small + at);
  mma_tf32(c, a.big, b.big + at);
}

// Tiles of W columns are padded by four in shared memory, so that neither ldmatrix nor
// reads of four columns of every second row cause bank conflicts.
template <int W> struct Rows {
  enum { PITCH = W + 4 };

  // load starts copying ROWS rows from first on; elements outside the matrix become 0.
  template <int ROWS, int THREADS> static METHOD void load(u32 tile, const f32* m, i64 stride, i32 first, i32 rows, i32 cols) {
    enum { CHUNKS = W / 4, DOWN = THREADS / CHUNKS };
    static_assert(ROWS % DOWN == 0, "every thread copies the same number");
    i32 r = threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS * 4, left = cols - c, size = left >= 4 ? 16 : left > 0 ? left * 4 : 0;
    const f32* from = m + (i64)(first + r) * stride + c;
    u32 to = tile + (r * PITCH + c) * 4;
#pragma unroll 4
    for (int i = 0; i < ROWS; i += DOWN) {
      bool there = size > 0 && first + r + i < rows;
      copy16(to + i * PITCH * 4, there ? from + i * stride : m, there ? size : 0);
    }
  }
  // The 16×8 block of a tile at (row, 8·step), as the left operand.
  static METHOD void left(Split<4>& a, u32 tile, int row, int step) {
    int lane = threadIdx.x & 31;
    u32 r[4];
    ldmatrix(r, tile + ((row + (lane & 15)) * PITCH + step * 8 + (lane >> 4) * 4) * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) split(a, e, __uint_as_float(r[e]));
  }
  // The same as the right operand of a product with the tile's transpose: two
  // blocks of 8 columns of the result, which are rows of the tile.
  static METHOD void right(Split<4>& b, u32 tile, int row, int step) {
    int lane = threadIdx.x & 31;
    u32 r[4];
    ldmatrix(r, tile + ((row + (lane & 7) + (lane >> 4) * 8) * PITCH + step * 8 + (lane >> 3 & 1) * 4) * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) split(b, e, __uint_as_float(r[e]));
  }
};

// dots computes c = x·yᵀ of 16 rows of x and J·8 rows of y, from their tiles. Sums on the
// tensor cores have SHORT·8 terms.
template <int W, int SHORT, int J> DEV void dots(f32 (&c)[J][4], u32 x, int row, u32 y) {
#pragma unroll
  for (int j = 0; j < J; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) c[j][e] = 0;
#pragma unroll(4 / SHORT)
  for (int d = 0; d < W / 8; d += SHORT) {
    f32 part[J][4] = {};
#pragma unroll
    for (int k = d; k < d + SHORT; k++) {
      Split<4> a;
      Rows<W>::left(a, x, row, k);
#pragma unroll
      for (int j = 0; j < J; j += 2) {
        Split<4> b;
        Rows<W>::right(b, y, j * 8, k);
        mma(part[j], a, b, 0);
        mma(part[j + 1], a, b, 2);
      }
    }
#pragma unroll
    for (int j = 0; j < J; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) c[j][e] += part[j][e];
  }
}

// as_left turns 16×8 results of a product into a left operand: columns 2t and 2t+1 take the
// places of t and t+4, and the rows of the right operand must do the same.
DEV void as_left(Split<4>& a, const f32 (&c)[4]) {
  split(a, 0, c[0]);
  split(a, 1, c[2]);
  split(a, 2, c[1]);
  split(a, 3, c[3]);
}

// below loads rows 2t and 2t+1 of the 8 from row on, 32 columns from col on, as right
// operands: column i of block j is column 4i+j, so that a thread's four are adjacent.
template <int W> DEV void below(Split<8>& b, const f32* tile, int row, int col) {
  int lane = threadIdx.x & 31;
  const f32* at = tile + (row + (lane & 3) * 2) * Rows<W>::PITCH + col + (lane >> 2) * 4;
  Vec<f32, 4> x = *(const Vec<f32, 4>*)at, y = *(const Vec<f32, 4>*)(at + Rows<W>::PITCH);
#pragma unroll
  for (int j = 0; j < 4; j++) {
    split(b, j * 2, x.v[j]);
    split(b, j * 2 + 1, y.v[j]);
  }
}

// store writes the part of a 16×W result that is inside the matrix, at (row, c0), in blocks
// of 32 columns in below's order, with step from row to row. It reports whether a result is
// not finite.
template <int W> DEV bool store(f32* out, i64 step, const f32 (&c)[W / 32][4][4], i32 row, i32 c0, i32 rows, i32 cols, f32 f0, f32 f1) {
  bool bad = false;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    if (row + h * 8 >= rows) continue;
    f32* to = out + (row + h * 8) * step;
    f32 f = h ? f1 : f0;
#pragma unroll
    for (int g = 0; g < W / 32; g++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        i32 col = c0 + g * 32 + (threadIdx.x & 3) * 8 + e * 4;
        Vec<f32, 4> v;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          v.v[j] = c[g][j][h * 2 + e] * f;
          bad |= !(fabsf(v.v[j]) < INF_F);
        }
        if (col + 4 <= cols && (cols & 3) == 0) {
          *(Vec<f32, 4>*)(to + col) = v;
        } else {
#pragma unroll
          for (int j = 0; j < 4; j++)
            if (col + j < cols) to[col + j] = v.v[j];
        }
      }
  }
  return bad;
}
