// A tiled matrix product without tensor cores, for any element type and any way of loading
// the operands: products and convolutions share it.
//
// A block of 256 threads computes BM×BN results in steps of 8 along k: while one pair of
// tiles is multiplied from shared memory, the next is loaded into registers. Each thread
// computes results in groups of 4×4.
#pragma once
#include "locus.cuh"

#define BK 8
#define GEMM_THREADS 256

// The type of sums: integers wrap, so their arithmetic is unsigned.
template <class T> struct Total { typedef typename Compute<T>::type type; };
template <> struct Total<u8> { typedef u32 type; };
template <> struct Total<i32> { typedef u32 type; };
template <> struct Total<i64> { typedef u64 type; };

// Strided loads one tile after another of a matrix whose rows (or, if ALONG_K is false,
// columns) are contiguous: element (i, k) is at i·ld + k (or k·ld + i).
template <class T, int B, bool ALONG_K> struct Strided {
  enum { E = B * BK / GEMM_THREADS }; // elements that a thread loads
  const T* p;
  i64 step;   // from one tile to the next
  i32 count;  // elements that exist across the tile
  bool wide;

  METHOD int i() const { return ALONG_K ? threadIdx.x / (BK / E) : threadIdx.x % (B / E) * E; }
  METHOD int k() const { return ALONG_K ? threadIdx.x % (BK / E) * E : threadIdx.x / (B / E); }
  METHOD void init(const void* matrix, i64 ld, i64 first, i64 rows, i32 k0, i32 wide_) {
    wide = wide_;
    i64 left = rows - first - i();
    count = left > E ? E : left < 0 ? 0 : (i32)left;
    p = (const T*)matrix + (ALONG_K ? (first + i()) * ld + k0 + k() : (i64)(k0 + k()) * ld + first + i());
    step = ALONG_K ? BK : BK * ld;
  }
  // fetch loads the tile at k0; successive calls load successive tiles.
  METHOD void fetch(i32 k0, i32 end, T* r) {
    i32 left = end - k0 - k();
    i32 n = ALONG_K ? (count == 0 || left < 0 ? 0 : left > E ? E : left) : left > 0 ? count : 0;
    if (wide && n == E) {
      *(Vec<T, E>*)r = *(const Vec<T, E>*)p;
    } else {
#pragma unroll
      for (int e = 0; e < E; e++) r[e] = e < n ? p[e] : T();
    }
    p += step;
  }
  template <class C> METHOD void keep(const T* r, C (*tile)[B + 4]) const {
#pragma unroll
    for (int e = 0; e < E; e++)
      if (ALONG_K) tile[k() + e][i()] = (C)get(r[e]);
      else tile[k()][i() + e] = (C)get(r[e]);
  }
};

template <class C, int BM, int BN> struct Tiles {
  C a[2][BK][BM + 4];
  C b[2][BK][BN + 4];
};

template <class C, int BM, int BN> struct Sums {
  C v[BM / 16][BN / 16];
  // Row and column in the tile of v[i][j].
  METHOD int row(int i) { return (i >> 2) * 64 + (threadIdx.x >> 4) * 4 + (i & 3); }
  METHOD int col(int j) { return (j >> 2) * 64 + (threadIdx.x & 15) * 4 + (j & 3); }
};

// multiply sets acc to the product of the rows that fetchA and the columns that fetchB load,
// for k from begin to end.
template <class T, class C, int BM, int BN, class FA, class KA, class FB, class KB>
DEV void multiply(Tiles<C, BM, BN>& s, Sums<C, BM, BN>& acc, i32 begin, i32 end, FA fetchA, KA keepA, FB fetchB, KB keepB) {
  alignas(16) T ra[BM * BK / GEMM_THREADS];
  alignas(16) T rb[BN * BK / GEMM_THREADS];
#pragma unroll
  for (int i = 0; i < BM / 16; i++)
#pragma unroll
    for (int j = 0; j < BN / 16; j++) acc.v[i][j] = C(0);
  if (begin >= end) return;
  fetchA(begin, ra);
  fetchB(begin, rb);
  keepA(ra, s.a[0]);
  keepB(rb, s.b[0]);
  __syncthreads();
  int cur = 0;
#pragma unroll 1
  for (i32 k0 = begin; k0 < end; k0 += BK) {
    bool more = k0 + BK < end;
    if (more) {
      fetchA(k0 + BK, ra);
      fetchB(k0 + BK, rb);
    }
#pragma unroll
    for (int k = 0; k < BK; k++) {
      C a[BM / 16], b[BN / 16];
#pragma unroll
      for (int q = 0; q < BM / 64; q++) *(Vec<C, 4>*)&a[q * 4] = *(const Vec<C, 4>*)&s.a[cur][k][q * 64 + (threadIdx.x >> 4) * 4];
#pragma unroll
      for (int q = 0; q < BN / 64; q++) *(Vec<C, 4>*)&b[q * 4] = *(const Vec<C, 4>*)&s.b[cur][k][q * 64 + (threadIdx.x & 15) * 4];
#pragma unroll
      for (int i = 0; i < BM / 16; i++)
#pragma unroll
        for (int j = 0; j < BN / 16; j++) acc.v[i][j] += a[i] * b[j];
    }
    if (more) {
      cur ^= 1;
      keepA(ra, s.a[cur]);
      keepB(rb, s.b[cur]);
      __syncthreads();
    }
  }
}
