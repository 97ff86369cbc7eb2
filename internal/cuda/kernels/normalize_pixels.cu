// Batch normalization, and its gradient, of images that are stored channels last: rows are
// pixels, whose channels are contiguous. A thread handles N adjacent channels of every n-th
// pixel of a chunk, so that a warp loads whole cache lines. Chunks store their sums, which
// the last block of the channels merges; a second kernel computes the result. The order of
// every sum depends on shapes alone.
#include "activation.cuh"
#include "normalize.cuh"
#include "pixels.cuh"

struct Pixels {
  void* out;
  const void *g, *x, *weight, *bias; // g: gradients only; weight and bias may be missing
  const void* res;                   // what is added to the result; may be missing
  void *mean, *rstd;                 // results of the op, or operands of its gradient
  void *batch_mean, *var;            // results, for programs; may be missing
  const void *old_mean, *old_var;    // running statistics that these become; may be missing
  i64 old_steps[2];                  // their strides
  f64 momentum;
  void *gw, *gb;                     // gradients of weight and bias; may be missing
  void *partial, *sums;              // [chunks][channels][2], and [channels][2]: mean and rstd, or means of g and g·x̂
  u32* arrived;                      // blocks of the same channels that have stored their sums; 0 between launches
  u64 rows, chunk;                   // pixels: in all, and per chunk
  f64 eps;
  i64 xs, gs, rs;                    // strides of pixels in x, g and res; the result is contiguous
  i64 ws, bs;                        // strides of weight and bias
  i32 channels, chunks, wide, act;   // wide: threads of a block per pixel, a power of two; act: 1 is ReLU, 2 ReLU6, 0 none
};

template <class A> DEV bool finite(A v) { return v - v == A(0); }

// The mean of each channel of a chunk and the squared differences from it. A thread sums
// differences from its first pixel, so that one pass is enough and no digits are lost.
template <class T, int N> DEV void pixel_sums(const Pixels& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[PIXEL_THREADS * N];
  Spot<N> at(p.wide, p.channels, blockIdx.x);
  i32 columns = p.wide * N;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.rows ? begin + p.chunk : p.rows;
  A shift[N], s1[N], s2[N];
#pragma unroll
  for (int j = 0; j < N; j++) shift[j] = s1[j] = s2[j] = A(0);
  i64 first = begin + at.ty;
  u64 count = at.mine && first < (i64)end ? (end - first + at.down - 1) / at.down : 0;
  const T* x = (const T*)p.x + first * p.xs + at.channel;
  if (count > 0) {
    Vec<T, N> v = *(const Vec<T, N>*)x;
#pragma unroll
    for (int j = 0; j < N; j++) {
      A k = get(v.v[j]);
      shift[j] = finite(k) ? k : A(0);
    }
  }
#pragma unroll 4
  for (u64 i = 0; i < count; i++) {
    Vec<T, N> v = *(const Vec<T, N>*)(x + (i64)i * at.down * p.xs);
#pragma unroll
    for (int j = 0; j < N; j++) {
      A d = get(v.v[j]) - shift[j];
      s1[j] += d;
      s2[j] += d * d;
    }
  }
  A n = (A)count, sum[N];
#pragma unroll
  for (int j = 0; j < N; j++) sum[j] = n * shift[j] + s1[j];
  A mean = over_rows<A, N>(p.wide, sum, room) / (A)(end - begin);
#pragma unroll
  for (int j = 0; j < N; j++) {
    A m = from<A, N>(p.wide, mean, j * p.wide + at.tx, room), d = A(0), m2 = A(0);
    if (count > 0) {
      d = shift[j] + s1[j] / n - m;
      m2 = s2[j] - s1[j] * (s1[j] / n);
      if (m2 < A(0)) m2 = A(0); // a rounding error
    }
    sum[j] = m2 + n * d * d;
  }
  A m2 = over_rows<A, N>(p.wide, sum, room);
  i32 c = blockIdx.x * columns + which<N>(p.wide);
  bool own = (i32)threadIdx.x < columns && c < p.channels;
  A* partial = (A*)p.partial;
  if (own) {
    partial[(blockIdx.y * (u64)p.channels + c) * 2] = mean;
    partial[(blockIdx.y * (u64)p.channels + c) * 2 + 1] = m2;
  }
  if (!last(p.arrived, p.chunks)) return;
  i32 part = threadIdx.x / columns, parts = PIXEL_THREADS / columns;
  bool mine = c < p.channels;
  // Again as differences, from the mean of the first chunk.
  const Two<A>* sums = (const Two<A>*)p.partial + c;
  A first_mean = A(0), t1 = A(0), t2 = A(0);
  if (mine) {
    first_mean = state(&sums->a);
    if (!finite(first_mean)) first_mean = A(0);
    each_partial(sums, (u64)p.channels, p.chunks, part, parts, [&](i32 k, Two<A> v) {
      A m = k + 1 < p.chunks ? (A)p.chunk : (A)(p.rows - (u64)k * p.chunk), d = v.a - first_mean;
      t1 += m * d;
      t2 += v.b + m * d * d;
    });
  }
  t1 = over_parts<A, N>(p.wide, t1, room);
  t2 = over_parts<A, N>(p.wide, t2, room);
  mean = first_mean + t1 / (A)p.rows;
  m2 = t2 - t1 * (t1 / (A)p.rows);
  if (m2 < A(0)) m2 = A(0);
  if (own) {
    A rstd = A(1) / m_sqrt(m2 / (A)p.rows + (A)p.eps);
    keep<T>(p, c, p.rows, mean, rstd, m2);
    ((A*)p.sums)[c * 2] = mean;
    ((A*)p.sums)[c * 2 + 1] = rstd;
  }
}

// Channel holds the statistics and parameters of a thread's N channels.
template <class T, int N> struct Channel {
  typedef typename Compute<T>::type A;
  A mean[N], rstd[N], w[N], b[N];
  METHOD Channel(const Pixels& p, i32 c, const A* stats) { // mean and rstd from stats, or each from its own list
#pragma unroll
    for (int j = 0; j < N; j++) {
      mean[j] = stats ? stats[(c + j) * 2] : ((const A*)p.mean)[c + j];
      rstd[j] = stats ? stats[(c + j) * 2 + 1] : ((const A*)p.rstd)[c + j];
      w[j] = p.weight ? get(((const T*)p.weight)[(c + j) * p.ws]) : A(1);
      b[j] = p.bias ? get(((const T*)p.bias)[(c + j) * p.bs]) : A(0);
    }
  }
  METHOD A hat(int j, A x) const { return times(x - mean[j], rstd[j]); }
  // The result before activation or sum, rounded as if it were stored.
  METHOD A value(int j, A x) const { return get(make<T>(times_plus(hat(j, x), w[j], b[j]))); }
};

template <class T, int N> DEV void pixel_apply(const Pixels& p) {
  typedef typename Compute<T>::type A;
  Spot<N> at(p.wide, p.channels, blockIdx.x);
  if (!at.mine) return;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.rows ? begin + p.chunk : p.rows;
  Channel<T, N> ch(p, at.channel, (const A*)p.sums);
  const T *x = (const T*)p.x + at.channel, *res = (const T*)p.res + at.channel;
  T* out = (T*)p.out + at.channel;
#pragma unroll 4
  for (u64 i = begin + at.ty; i < end; i += at.down) {
    Vec<T, N> v = *(const Vec<T, N>*)(x + (i64)i * p.xs), r, y;
    if (p.res) r = *(const Vec<T, N>*)(res + (i64)i * p.rs);
#pragma unroll
    for (int j = 0; j < N; j++) {
      A a = ch.value(j, get(v.v[j]));
      if (p.res) a = get(make<T>(plus(a, get(r.v[j]))));
      if (p.act == 1) a = relu(a);
      if (p.act == 2) a = relu6(a);
      put(y.v[j], a);
    }
    *(Vec<T, N>*)(out + (i64)i * p.channels) = y;
  }
}

// arriving returns the gradient of element j of a vector at the output of the normalization:
// behind an activation, it is 0 unless the activation's slope is 1.
template <class T, int N> DEV typename Compute<T>::type arriving(const Pixels& p, const Channel<T, N>& ch, int j, T g, T x) {
  typedef typename Compute<T>::type A;
  if (!p.act) return get(g);
  A v = ch.value(j, get(x));
  return v > A(0) && (p.act == 1 || v < A(6)) ? get(g) : A(0);
}

template <class T, int N> DEV void pixel_grad_sums(const Pixels& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[PIXEL_THREADS * N];
  Spot<N> at(p.wide, p.channels, blockIdx.x);
  i32 columns = p.wide * N;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.rows ? begin + p.chunk : p.rows;
  A sg[N], sx[N];
#pragma unroll
  for (int j = 0; j < N; j++) sg[j] = sx[j] = A(0);
  if (at.mine) {
    Channel<T, N> ch(p, at.channel, 0);
    const T *x = (const T*)p.x + at.channel, *g = (const T*)p.g + at.channel;
#pragma unroll 4
    for (u64 i = begin + at.ty; i < end; i += at.down) {
      Vec<T, N> v = *(const Vec<T, N>*)(x + (i64)i * p.xs), gv = *(const Vec<T, N>*)(g + (i64)i * p.gs);
#pragma unroll
      for (int j = 0; j < N; j++) {
        A a = arriving<T, N>(p, ch, j, gv.v[j], v.v[j]);
        sg[j] += a;
        sx[j] += a * ch.hat(j, get(v.v[j]));
      }
    }
  }
  A s0 = over_rows<A, N>(p.wide, sg, room), s1 = over_rows<A, N>(p.wide, sx, room);
  i32 c = blockIdx.x * columns + which<N>(p.wide);
  bool own = (i32)threadIdx.x < columns && c < p.channels;
  A* partial = (A*)p.partial;
  if (own) {
    partial[(blockIdx.y * (u64)p.channels + c) * 2] = s0;
    partial[(blockIdx.y * (u64)p.channels + c) * 2 + 1] = s1;
  }
  if (!last(p.arrived, p.chunks)) return;
  i32 part = threadIdx.x / columns, parts = PIXEL_THREADS / columns;
  s0 = s1 = A(0);
  if (c < p.channels)
    each_partial((const Two<A>*)p.partial + c, (u64)p.channels, p.chunks, part, parts, [&](i32, Two<A> v) {
      s0 += v.a;
      s1 += v.b;
    });
  s0 = over_parts<A, N>(p.wide, s0, room);
  s1 = over_parts<A, N>(p.wide, s1, room);
  if (!own) return;
  if (p.gw) put(((T*)p.gw)[c], s1);
  if (p.gb) put(((T*)p.gb)[c], s0);
  A w = p.weight ? get(((const T*)p.weight)[c * p.ws]) : A(1);
  ((A*)p.sums)[c * 2] = s0 * w / (A)p.rows;
  ((A*)p.sums)[c * 2 + 1] = s1 * w / (A)p.rows;
}

template <class T, int N> DEV void pixel_grad_apply(const Pixels& p) {
  typedef typename Compute<T>::type A;
  Spot<N> at(p.wide, p.channels, blockIdx.x);
  if (!at.mine) return;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.rows ? begin + p.chunk : p.rows;
  Channel<T, N> ch(p, at.channel, 0);
  A mg[N], mx[N];
#pragma unroll
  for (int j = 0; j < N; j++) {
    mg[j] = ((const A*)p.sums)[(at.channel + j) * 2];
    mx[j] = ((const A*)p.sums)[(at.channel + j) * 2 + 1];
  }
  const T *x = (const T*)p.x + at.channel, *g = (const T*)p.g + at.channel;
  T* out = (T*)p.out + at.channel;
#pragma unroll 4
  for (u64 i = begin + at.ty; i < end; i += at.down) {
    Vec<T, N> v = *(const Vec<T, N>*)(x + (i64)i * p.xs), gv = *(const Vec<T, N>*)(g + (i64)i * p.gs), r;
#pragma unroll
    for (int j = 0; j < N; j++) {
      A a = arriving<T, N>(p, ch, j, gv.v[j], v.v[j]);
      put(r.v[j], ch.rstd[j] * (a * ch.w[j] - mg[j] - ch.hat(j, get(v.v[j])) * mx[j]));
    }
    *(Vec<T, N>*)(out + (i64)i * p.channels) = r;
  }
}

#define PIXELS(T, S, N)                                                                                                          \
  KERNEL __launch_bounds__(512) pixels_sums##S##_##T(const __grid_constant__ Pixels p) { pixel_sums<T, N>(p); }                  \
  KERNEL __launch_bounds__(512) pixels_apply##S##_##T(const __grid_constant__ Pixels p) { pixel_apply<T, N>(p); }                \
  KERNEL __launch_bounds__(512) pixels_grad_sums##S##_##T(const __grid_constant__ Pixels p) { pixel_grad_sums<T, N>(p); }        \
  KERNEL __launch_bounds__(512) pixels_grad_apply##S##_##T(const __grid_constant__ Pixels p) { pixel_grad_apply<T, N>(p); }
#define BOTH(T) PIXELS(T, , 1) PIXELS(T, _wide, LANES(T))
FLOAT_TYPES(BOTH)
