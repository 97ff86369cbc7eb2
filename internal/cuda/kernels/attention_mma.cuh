// Tiles in shared memory and products on the tensor cores (mma.sync), for the
// kernels of attention.
#pragma once
#include "attention.cuh"
#include "matrix.cuh"

// A tile has rows of W elements, whose 16-byte chunks are permuted so that neither the
// copies nor ldmatrix cause bank conflicts.
template <int W> DEV u32 at(int row, int chunk) { return row * W * 2 + ((chunk ^ (W % 64 ? row >> 1 & 3 : row & 7)) << 4); }

// Loader copies rows of a matrix to tiles of ROWS rows; a thread copies the same chunk of
// each of its rows.
template <class T, int ROWS, int W, int THREADS> struct Loader {
  enum { CHUNKS = W / 8, DOWN = THREADS / CHUNKS, COPIES = (ROWS + DOWN - 1) / DOWN };
  const T* p;
  i64 stride;
  i32 rows, row, size; // rows that exist; the first of this thread; bytes of its chunk
  u32 to;

  METHOD void init(const T* m, i64 ld, i32 count, i32 cols) {
    row = threadIdx.x / CHUNKS;
    i32 chunk = threadIdx.x % CHUNKS, left = cols - chunk * 8;
    p = m + (left > 0 ? chunk * 8 : 0);
    stride = ld;
    rows = row < DOWN ? count : 0;
    size = left >= 8 ? 16 : left > 0 ? left * 2 : 0;
    to = at<W>(row, chunk);
  }
  // load starts copying the rows from first on; elements outside the matrix become 0.
  METHOD void load(u32 tile, i32 first) {
    const T* from = p + (i64)(first + row) * stride;
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
      bool there = first + row + i * DOWN < rows;
      if ((THREADS % CHUNKS == 0 && ROWS % DOWN == 0) || (row < DOWN && row + i * DOWN < ROWS)) // the permutation repeats every 8 rows
        copy16(DOWN % 8 ? tile + at<W>(row + i * DOWN, threadIdx.x % CHUNKS) : tile + to + i * DOWN * W * 2, there ? from + i * DOWN * stride : p, there ? size : 0);
    }
  }
};

// The 16×16 block of a tile at (row, 16·step), as the left operand.
template <int W> DEV void left_operand(u32* r, u32 tile, int row, int step) {
  int lane = threadIdx.x & 31, quad = lane >> 3;
  ldmatrix(r, tile + at<W>(row + (lane & 7) + (quad & 1) * 8, step * 2 + (quad >> 1)));
}
// The same as the right operand of a product with the tile's transpose: columns
// of the result are rows of the tile.
template <int W> DEV void right_operand(u32* r, u32 tile, int row, int step) {
  int lane = threadIdx.x & 31, quad = lane >> 3;
  ldmatrix(r, tile + at<W>(row + (lane & 7) + (quad >> 1) * 8, step * 2 + (quad & 1)));
}
// The 16×16 block at (row, 16·step) as the right operand of a product with the tile.
template <int W> DEV void right_transposed(u32* r, u32 tile, int row, int step) {
  int lane = threadIdx.x & 31, quad = lane >> 3;
  ldmatrix_transposed(r, tile + at<W>(row + (lane & 7) + (quad & 1) * 8, step * 2 + (quad >> 1)));
}
// as_left turns two adjacent 16×8 results into a left operand of 16×16.
template <class T> DEV void as_left(u32* a, const f32 (*c)[4]) {
  a[0] = pack(c[0][0], c[0][1], (T*)0);
  a[1] = pack(c[0][2], c[0][3], (T*)0);
  a[2] = pack(c[1][0], c[1][1], (T*)0);
  a[3] = pack(c[1][2], c[1][3], (T*)0);
}

// store writes the rows of a 16×W result that are inside the matrix, W/8 blocks of 8 columns.
// step is the distance between rows.
template <class T, int W> DEV void store(T* out, i64 step, const f32 (*c)[4], i32 row, i32 rows, i32 cols, f32 f0, f32 f1) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    if (row + h * 8 >= rows) continue;
    T* to = out + (row + h * 8) * step;
    f32 f = h ? f1 : f0;
#pragma unroll
    for (int j = 0; j < W / 8; j++) {
      i32 col = j * 8 + (threadIdx.x & 3) * 2;
      if (col + 1 < cols && (cols & 1) == 0) {
        *(u32*)(to + col) = pack(c[j][h * 2] * f, c[j][h * 2 + 1] * f, (T*)0);
      } else {
        if (col < cols) put(to[col], c[j][h * 2] * f);
        if (col + 1 < cols) put(to[col + 1], c[j][h * 2 + 1] * f);
      }
    }
  }
}
