// Convolutions and the gradient of their input; see conv.cuh.
//
// Where a step of BK along k stays within one tap, that is if BK divides the number of
// channels, k iterates over taps, and within a tap over channels (BY_TAP): then a thread
// finds its pixel once per tap, and its loads differ by the channel alone. Otherwise a table
// in shared memory holds the channel and tap of each k.
//
// In the gradient of the input with a stride, each pixel is reached by few of the taps, and
// by the same ones as every pixel that is a multiple of the stride away. With BY_TAP, a
// block computes the pixels of one such phase and skips the other taps.
//
// The weight has been packed as [group][k][m]; the others may have any strides.
#include "conv.cuh"
#include "gemm.cuh"

enum { FORWARD, INPUT };

// The elements of a gathered operand that a thread loads; threads run along i.
template <class T, int B> struct Picked {
  enum { E = B * BK / GEMM_THREADS };
  METHOD int i() const { return threadIdx.x % B; }
  METHOD int k(int e) const { return threadIdx.x / B + e * (GEMM_THREADS / B); }
  template <class C> METHOD void keep(const T* r, C (*tile)[B + 4]) const {
#pragma unroll
    for (int e = 0; e < E; e++) tile[k(e)][i()] = (C)get(r[e]);
  }
};

template <class T, int KIND, int BM, int BN, bool BY_TAP> DEV void conv(const Conv& p) {
  typedef typename Compute<T>::type C;
  __shared__ __align__(16) char room[sizeof(Tiles<C, BM, BN>)];
  Tiles<C, BM, BN>& tiles = *(Tiles<C, BM, BN>*)room;
  i32 tilesM = (p.m + BM - 1) / BM;
  i32 m0 = blockIdx.x % tilesM * BM, n0 = blockIdx.x / tilesM * BN, group = blockIdx.y;
  i32 channels = KIND == FORWARD ? p.cin : p.cout;
  Picked<T, BN> pb;

  // The pixel of a column of the result, and whether there is one. The last phases start
  // first: as a rule they have the most taps.
  i32 phase = gridDim.z - 1 - blockIdx.z, phaseY = KIND == INPUT ? phase / p.phases[1] : 0, phaseX = KIND == INPUT ? phase % p.phases[1] : 0;
  auto pixel = [&](i32 n, i32& image, i32& y, i32& x) {
    image = quotient(n, p.pixels);
    i32 at = n - image * p.pixels.d;
    y = quotient(at, p.row);
    x = at - y * p.row.d;
    if (KIND == INPUT) {
      y = y * p.phases[0] + phaseY;
      x = x * p.phases[1] + phaseX;
      return n < p.n && y < p.h && x < p.wd;
    }
    return n < p.n;
  };
  i32 image, py, px;
  bool exists = pixel(n0 + pb.i(), image, py, px);
  const i64* steps = KIND == FORWARD ? p.xs : p.gs;
  const T* from = (KIND == FORWARD ? (const T*)p.x : (const T*)p.g) + (i64)group * channels * steps[1] + image * steps[0];
  if (KIND == FORWARD) {
    py = py * p.stride[0] - p.pad[0];
    px = px * p.stride[1] - p.pad[1];
  } else {
    py += p.pad[0];
    px += p.pad[1];
  }
  // find sets at to the offset in the image of this thread's pixel under a tap, and
  // returns false if that is outside.
  auto find = [&](i32 tapY, i32 tapX, i64& at) {
    i32 y, z;
    bool in = exists;
    if (KIND == FORWARD) {
      y = py + tapY;
      z = px + tapX;
      in = in && (u32)y < (u32)p.h && (u32)z < (u32)p.wd;
    } else {
      i32 fromY = py - tapY, fromX = px - tapX;
      y = quotient(fromY, p.strideY);
      z = quotient(fromX, p.strideX);
      in = in && fromY >= 0 && fromX >= 0 && y * p.stride[0] == fromY && z * p.stride[1] == fromX && y < p.oh && z < p.ow;
    }
    at = y * steps[2] + z * steps[3];
    return in;
  };

  Strided<T, BM, false> weight;
  weight.init((const T*)p.w + (i64)group * p.k * p.m, p.m, m0, p.m, 0, p.wide);
  const T* weight0 = weight.p;
  i32 end = p.k;

  // BY_TAP: the tap of the next step, and the offset that it reads from.
  i32 ky = 0, kx = -1, channel = 0;
  const T* next = from;
  bool in = false;
  // reached reports whether a tap reaches the pixels of this block.
  auto reached = [&](i32 y, i32 x) {
    if (KIND == FORWARD || p.phases[0] * p.phases[1] == 1) return true;
    i32 dy = phaseY + p.pad[0] - y * p.dilation[0], dx = phaseX + p.pad[1] - x * p.dilation[1];
    return dy % p.stride[0] == 0 && dx % p.stride[1] == 0;
  };
  i32 kh = p.taps.d / p.kw.d, kw = p.kw.d;
  auto advance = [&] { // to the next tap
    do {
      if (++kx == kw) {
        kx = 0;
        ky++;
      }
    } while (ky < kh && !reached(ky, kx));
    if (ky == kh) return; // that was the last
    weight.p = weight0 + (i64)(ky * kw + kx) * channels * p.m;
    i64 at;
    in = find(ky * p.dilation[0], kx * p.dilation[1], at);
    next = from + pb.k(0) * steps[1] + at;
  };
  if (BY_TAP) {
    i32 count = 0;
    for (i32 y = 0; y < kh; y++)
      for (i32 x = 0; x < kw; x++) count += reached(y, x);
    end = count * channels;
    advance();
  }
  // Otherwise: the channels and taps of the next TABLE values of k.
  enum { TABLE = BY_TAP ? 1 : 512 };
  struct Entry { i64 channel; i32 tapY, tapX; };
  __shared__ Entry table[TABLE];

  auto fetchB = [&](i32 k0, T* r) {
    if (BY_TAP) { // BK divides k, so no step goes beyond the end
#pragma unroll
      for (int e = 0; e < BN * BK / GEMM_THREADS; e++) {
        r[e] = T();
        if (in) r[e] = next[(pb.k(e) - pb.k(0)) * steps[1]];
      }
      next += BK * steps[1];
      channel += BK;
      if (channel == channels) {
        channel = 0;
        advance();
      }
    } else {
      if (k0 % TABLE == 0) { // uniform: all threads of the block get here
        __syncthreads();
        for (int i = threadIdx.x; i < TABLE; i += GEMM_THREADS) {
          i32 k = k0 + i, c = quotient(k, p.taps), tap = k - c * p.taps.d, row = quotient(tap, p.kw);
          const i32 NOWHERE = KIND == FORWARD ? -0x40000000 : 0x40000000;
          table[i].channel = c * steps[1];
          table[i].tapY = k < end ? row * p.dilation[0] : NOWHERE;
          table[i].tapX = (tap - row * kw) * p.dilation[1];
        }
        __syncthreads();
      }
#pragma unroll
      for (int e = 0; e < BN * BK / GEMM_THREADS; e++) {
        Entry t = table[(k0 + pb.k(e)) % TABLE];
        i64 at;
        r[e] = T();
        if (find(t.tapY, t.tapX, at)) r[e] = from[t.channel + at];
      }
    }
  };
  Sums<C, BM, BN> acc;
  multiply<T>(tiles, acc, 0, end, [&](i32 k, T* r) { weight.fetch(k, end, r); }, [&](const T* r, C(*t)[BM + 4]) { weight.keep(r, t); },
              fetchB, [&](const T* r, C(*t)[BN + 4]) { pb.keep(r, t); });
  i64 step = KIND == FORWARD ? (i64)p.oh * p.ow : (i64)p.h * p.wd; // from one m to the next
#pragma unroll
  for (int j = 0; j < BN / 16; j++) {
    i32 image, y, x;
    if (!pixel(n0 + acc.col(j), image, y, x)) continue;
    i64 base = ((i64)image * (KIND == FORWARD ? p.outputs : p.channels) + (i64)group * p.m) * step + (i64)y * (KIND == FORWARD ? p.ow : p.wd) + x;
#pragma unroll
    for (int i = 0; i < BM / 16; i++) {
      i32 m = m0 + acc.row(i);
      if (m < p.m) put(((T*)p.out)[base + m * step], acc.v[i][j]);
    }
  }
}

#define KIND_OF(NAME, KIND, BY_TAP, T, BM, BN) \
  KERNEL __launch_bounds__(GEMM_THREADS, 2) NAME##_##BM##x##BN##_##T(const __grid_constant__ Conv p) { conv<T, KIND, BM, BN, BY_TAP>(p); }
#define CONV(T, BM, BN)                                          \
  KIND_OF(conv2d, FORWARD, false, T, BM, BN)                     \
  KIND_OF(conv2d_by_tap, FORWARD, true, T, BM, BN)               \
  KIND_OF(conv2d_grad_input, INPUT, false, T, BM, BN)            \
  KIND_OF(conv2d_grad_input_by_tap, INPUT, true, T, BM, BN)
#define TILES(T) CONV(T, 64, 64) CONV(T, 64, 128) CONV(T, 128, 128)
TILES(f32) HALF_TYPES(TILES) CONV(f64, 64, 64)

// The gradient of an input with few channels, which would leave most rows of a tile empty.
// A thread computes all channels of FEW_ROWS pixels, one below the other in the same phase,
// so that a weight, which it loads from shared memory for all channels at once, serves them
// all. n counts images, groups of rows, and columns of a phase. Output channels are handled
// a few at a time, so that what the next tap reads of them is still in the cache.
enum { FEW = 4, FEW_ROWS = 4, FEW_OUTPUTS = 16, FEW_ROOM = 32 << 10, FEW_TAPS = 1024 };
template <class T> DEV void few(const Conv& p) {
  typedef typename Compute<T>::type C;
  enum { WEIGHTS = FEW_ROOM / sizeof(Vec<C, FEW>) };
  __shared__ Vec<C, FEW> weights[WEIGHTS]; // [tap][output channel]
  __shared__ i32 tapsY[FEW_TAPS], tapsX[FEW_TAPS], counts[2];
  i32 group = blockIdx.y, phaseY = blockIdx.z / p.phases[1], phaseX = blockIdx.z % p.phases[1];
  i32 kw = p.kw.d, kh = p.taps.d / kw;
  // The taps that reach this phase.
  if (threadIdx.x < 2) {
    i32 axis = threadIdx.x, count = 0, *taps = axis == 0 ? tapsY : tapsX;
    for (i32 k = 0; k < (axis == 0 ? kh : kw); k++)
      if (((axis == 0 ? phaseY : phaseX) + p.pad[axis] - k * p.dilation[axis]) % p.stride[axis] == 0) taps[count++] = k;
    counts[axis] = count;
  }
  __syncthreads();
  i32 countY = counts[0], countX = counts[1], taps = countY * countX;

  i32 n = blockIdx.x * blockDim.x + threadIdx.x;
  bool exists = n < p.n;
  i32 image = quotient(n, p.pixels), at = n - image * p.pixels.d, rows = quotient(at, p.row);
  i32 py = rows * FEW_ROWS * p.phases[0] + phaseY, px = (at - rows * p.row.d) * p.phases[1] + phaseX;
  exists = exists && px < p.wd;
  const T* w = (const T*)p.w + (i64)group * p.cout * p.m * p.taps.d; // in the layout of the op, contiguous
  const T* g = (const T*)p.g + (i64)group * p.cout * p.gs[1] + image * p.gs[0];
  C sum[FEW_ROWS][FEW] = {};
  i32 room = taps > 0 && WEIGHTS / taps < FEW_OUTPUTS ? WEIGHTS / taps : FEW_OUTPUTS;
  for (i32 o0 = 0; o0 < p.cout; o0 += room) {
    i32 some = p.cout - o0 < room ? p.cout - o0 : room;
    __syncthreads();
    for (i32 i = threadIdx.x; i < taps * some; i += blockDim.x) {
      i32 tap = i / some, o = i - tap * some, y = tap / countX;
      const T* from = w + (i64)(o0 + o) * p.m * p.taps.d + tapsY[y] * kw + tapsX[tap - y * countX];
#pragma unroll
      for (int c = 0; c < FEW; c++) weights[i].v[c] = c < p.m ? (C)get(from[c * p.taps.d]) : C(0);
    }
    __syncthreads();
    if (!exists) continue;
    for (i32 i = 0, tap = 0; i < countY; i++) {
      i32 y = (py + p.pad[0] - tapsY[i] * p.dilation[0]) / p.stride[0]; // exact
      bool in[FEW_ROWS];
#pragma unroll
      for (int r = 0; r < FEW_ROWS; r++) in[r] = (u32)(y + r) < (u32)p.oh;
      for (i32 j = 0; j < countX; j++, tap++) {
        i32 x = (px + p.pad[1] - tapsX[j] * p.dilation[1]) / p.stride[1];
        if ((u32)x >= (u32)p.ow) continue;
        const T* from = g + o0 * p.gs[1] + y * p.gs[2] + x * p.gs[3];
        const Vec<C, FEW>* weight = weights + tap * some;
#pragma unroll 4
        for (i32 o = 0; o < some; o++, from += p.gs[1]) {
          Vec<C, FEW> f = weight[o];
#pragma unroll
          for (int r = 0; r < FEW_ROWS; r++) {
            C v = in[r] ? (C)get(from[r * p.gs[2]]) : C(0);
#pragma unroll
            for (int c = 0; c < FEW; c++) sum[r][c] += v * f.v[c];
          }
        }
      }
    }
  }
  if (!exists) return;
  i64 step = (i64)p.h * p.wd;
#pragma unroll
  for (int r = 0; r < FEW_ROWS; r++) {
    i32 y = py + r * p.phases[0];
    if (y >= p.h) continue;
    T* out = (T*)p.out + ((i64)image * p.channels + (i64)group * p.m) * step + (i64)y * p.wd + px;
#pragma unroll
    for (int c = 0; c < FEW; c++)
      if (c < p.m) put(out[c * step], sum[r][c]);
  }
}

#define FEW_CHANNELS(T) KERNEL __launch_bounds__(256) conv2d_grad_input_few_##T(const __grid_constant__ Conv p) { few<T>(p); }
FLOAT_TYPES(FEW_CHANNELS)

// A convolution with few output channels per group, likewise: a thread computes F of them
// for FEW_ROWS pixels, one below the other. The weight has the layout of the op, contiguous.
template <class T, int F> DEV void few_outputs(const Conv& p) {
  typedef typename Compute<T>::type C;
  enum { WEIGHTS = FEW_ROOM / sizeof(Vec<C, F>) };
  __shared__ Vec<C, F> weights[WEIGHTS]; // [channel][tap]
  i32 group = blockIdx.y, m0 = blockIdx.z * F, taps = p.taps.d, kw = p.kw.d, kh = taps / kw;
  i32 n = blockIdx.x * blockDim.x + threadIdx.x;
  bool exists = n < p.n;
  i32 image = quotient(n, p.pixels), at = n - image * p.pixels.d, rows = quotient(at, p.row);
  i32 py = rows * FEW_ROWS, px = at - rows * p.row.d, x0 = px * p.stride[1] - p.pad[1];
  const T* w = (const T*)p.w + ((i64)group * p.m + m0) * p.k;
  const T* x = (const T*)p.x + (i64)group * p.cin * p.xs[1] + image * p.xs[0];
  C sum[FEW_ROWS][F] = {};
  i32 room = WEIGHTS / taps; // channels, at least one
  for (i32 c0 = 0; c0 < p.cin; c0 += room) {
    i32 some = p.cin - c0 < room ? p.cin - c0 : room;
    __syncthreads();
    for (i32 i = threadIdx.x; i < some * taps; i += blockDim.x)
#pragma unroll
      for (int f = 0; f < F; f++) weights[i].v[f] = m0 + f < p.m ? (C)get(w[(i64)f * p.k + c0 * taps + i]) : C(0);
    __syncthreads();
    if (!exists) continue;
    const Vec<C, F>* weight = weights;
    for (i32 c = 0; c < some; c++) {
      const T* channel = x + (c0 + c) * p.xs[1];
      for (i32 ky = 0; ky < kh; ky++) {
        bool in[FEW_ROWS];
        i32 y = py * p.stride[0] - p.pad[0] + ky * p.dilation[0];
#pragma unroll
        for (int r = 0; r < FEW_ROWS; r++) in[r] = py + r < p.oh && (u32)(y + r * p.stride[0]) < (u32)p.h;
        const T* row = channel + y * p.xs[2];
#pragma unroll 4
        for (i32 kx = 0; kx < kw; kx++, weight++) {
          i32 z = x0 + kx * p.dilation[1];
          bool here = (u32)z < (u32)p.wd;
          Vec<C, F> v = *weight;
#pragma unroll
          for (int r = 0; r < FEW_ROWS; r++) {
            C e = here && in[r] ? (C)get(row[r * p.stride[0] * p.xs[2] + z * p.xs[3]]) : C(0);
#pragma unroll
            for (int f = 0; f < F; f++) sum[r][f] += e * v.v[f];
          }
        }
      }
    }
  }
  if (!exists) return;
  i64 step = (i64)p.oh * p.ow;
#pragma unroll
  for (int r = 0; r < FEW_ROWS; r++) {
    if (py + r >= p.oh) continue;
    T* out = (T*)p.out + ((i64)image * p.outputs + (i64)group * p.m + m0) * step + (i64)(py + r) * p.ow + px;
#pragma unroll
    for (int f = 0; f < F; f++)
      if (m0 + f < p.m) put(out[f * step], sum[r][f]);
  }
}

#define FEW_RESULTS(T)                                                                                                    \
  KERNEL __launch_bounds__(256) conv2d_few_##T(const __grid_constant__ Conv p) { few_outputs<T, FEW>(p); }                \
  KERNEL __launch_bounds__(256) conv2d_one_##T(const __grid_constant__ Conv p) { few_outputs<T, 1>(p); }
FLOAT_TYPES(FEW_RESULTS)
