// Normalization: (x - mean)/√(var + eps)·weight + bias of rows, and its gradients.
// A row is what shares a mean: the last axes, or a channel of a batch.
//
// Rows that are contiguous and short enough are loaded once and kept in registers (held).
// Others are loaded again, by one block (whole), or in chunks by several, which takes two
// kernels: the sums of chunks, which the last block of a row merges, and the result. The
// gradients of weight and bias are kernels of their own (params), except for channels of a
// batch, which are rows. The order of every sum depends on shapes alone.
#include "held.cuh"
#include "normalize.cuh"

struct Norm {
  void* out;
  const void *g, *x, *weight, *bias; // g: gradients only; weight and bias may be missing
  void *mean, *rstd;                 // results of the op, or operands of its gradient; may be missing
  void *batch_mean, *var;            // results of a batch, for programs; may be missing
  const void *old_mean, *old_var;    // running statistics that these become; may be missing
  i64 old_steps[2];                  // their strides
  f64 momentum;
  void *gw, *gb;                     // gradients of a batch's weight and bias; may be missing
  void *partial, *sums;              // [rows][chunks][2], and [rows][2]: mean and rstd, or means of h and h·x̂
  u32* arrived;                      // blocks of a row that have stored their sums; 0 between launches
  u64 rows, len, chunk;
  f64 eps;
  i32 chunks, rms;   // rms: there is no mean
  i32 mode, pad;     // one weight and bias per row (0), or per element: contiguous (1) or not (2)
  Idx kept, red;     // strides: x, g, out
  Idx wkept, wred;   // strides: weight, bias
};


// Weight and bias of a row.
template <class T> struct Affine {
  typedef typename Compute<T>::type A;
  const T *w, *b;
  A w0, b0; // of the whole row, if it has one of each
  METHOD void init(const Norm& p, u64 row) {
    i64 off[2];
    offsets<2>(p.wkept, row, off);
    w = p.weight ? (const T*)p.weight + off[0] : 0;
    b = p.bias ? (const T*)p.bias + off[1] : 0;
    w0 = w ? get(*w) : A(1);
    b0 = b ? get(*b) : A(0);
  }
  // The parameters of N elements from i on. In mode 2 these share one weight and bias.
  template <int N> METHOD void at(const Norm& p, u64 i, A* wv, A* bv) const {
    if (N > 1 && p.mode == 1) {
      Vec<T, N> v;
      if (w) v = *(const Vec<T, N>*)(w + i);
#pragma unroll
      for (int j = 0; j < N; j++) wv[j] = w ? get(v.v[j]) : A(1);
      if (b) v = *(const Vec<T, N>*)(b + i);
#pragma unroll
      for (int j = 0; j < N; j++) bv[j] = b ? get(v.v[j]) : A(0);
      return;
    }
    A wi = w0, bi = b0;
    if (p.mode) {
      i64 off[2] = {(i64)i, (i64)i};
      if (p.mode == 2) offsets<2>(p.wred, i, off);
      if (w) wi = get(w[off[0]]);
      if (b) bi = get(b[off[1]]);
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
      wv[j] = wi;
      bv[j] = bi;
    }
  }
};

template <class T> DEV void given(const Norm& p, u64 row, typename Compute<T>::type& mean, typename Compute<T>::type& rstd) {
  typedef typename Compute<T>::type A;
  mean = p.mean ? ((const A*)p.mean)[row] : A(0);
  rstd = ((const A*)p.rstd)[row];
}

// means turns the sums of a row into the means of h and h·x̂. Where the row has a single
// weight, the sums are those of g and g·x̂, which for channels of a batch are also the
// gradients of bias and weight.
template <class T> DEV void means(const Norm& p, u64 row, typename Compute<T>::type w0, typename Compute<T>::type& sh, typename Compute<T>::type& shx, bool first) {
  typedef typename Compute<T>::type A;
  A n = (A)p.len;
  if (first && p.gw) put(((T*)p.gw)[row], shx);
  if (first && p.gb) put(((T*)p.gb)[row], sh);
  if (p.mode == 0) {
    sh *= w0;
    shx *= w0;
  }
  sh = p.rms ? A(0) : sh / n;
  shx = shx / n;
}

template <class T, bool GRAD, bool WARP> DEV void held(const Norm& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T), H = GRAD && !WARP ? HELD / 2 : HELD;
  __shared__ A room[33];
  u64 row = WARP ? (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5) : blockIdx.x;
  if (row >= p.rows) return;
  i64 off[3];
  offsets<3>(p.kept, row, off);
  const T *xs = (const T*)p.x + off[0], *gs = (const T*)p.g + off[1];
  T* out = (T*)p.out + off[2];
  int thread = WARP ? threadIdx.x & 31 : threadIdx.x;
  int first = thread * V, step = (WARP ? 32 : blockDim.x) * V, len = (int)p.len;
  Affine<T> affine;
  affine.init(p, row);
  Vec<T, V> x[H], g[GRAD ? H : 1];
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      x[h] = *(const Vec<T, V>*)(xs + first + h * step);
      if (GRAD) g[GRAD ? h : 0] = *(const Vec<T, V>*)(gs + first + h * step);
    }
  A n = (A)p.len, mean = A(0), rstd, sh = A(0), shx = A(0), wv[V], bv[V];
  if (GRAD) {
    given<T>(p, row, mean, rstd);
#pragma unroll
    for (int h = 0; h < H; h++)
      if (first + h * step < len) {
        if (p.mode) affine.template at<V>(p, first + h * step, wv, bv);
#pragma unroll
        for (int j = 0; j < V; j++) {
          A hv = get(g[GRAD ? h : 0].v[j]);
          if (p.mode) hv *= wv[j];
          sh += hv;
          shx += hv * ((get(x[h].v[j]) - mean) * rstd);
        }
      }
    sh = total<WARP>(sh, room);
    shx = total<WARP>(shx, room);
    means<T>(p, row, affine.w0, sh, shx, thread == 0);
  } else {
    A m2;
    moments<WARP>(x, first, step, len, n, p.rms, room, mean, m2);
    rstd = A(1) / m_sqrt(m2 / n + (A)p.eps);
    if (thread == 0) keep<T>(p, row, p.len, mean, rstd, m2);
  }
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      Vec<T, V> r;
      affine.template at<V>(p, first + h * step, wv, bv);
#pragma unroll
      for (int j = 0; j < V; j++) {
        A hat = (get(x[h].v[j]) - mean) * rstd;
        put(r.v[j], GRAD ? rstd * (get(g[GRAD ? h : 0].v[j]) * wv[j] - sh - hat * shx) : hat * wv[j] + bv[j]);
      }
      *(Vec<T, V>*)(out + first + h * step) = r;
    }
}

// Part is a part of a row, elements begin to end, N at a time per thread of the block.
template <class T, int N> struct Part {
  typedef typename Compute<T>::type A;
  const Norm& p;
  const T *x, *g;
  T* out;
  u64 begin, end;
  Affine<T> affine;

  METHOD Part(const Norm& p, u64 row, u64 begin, u64 end) : p(p), begin(begin), end(end) {
    i64 off[3];
    offsets<3>(p.kept, row, off);
    x = (const T*)p.x + off[0];
    g = (const T*)p.g + off[1];
    out = (T*)p.out + off[2];
    affine.init(p, row);
  }

  METHOD A sum() const {
    A s = A(0);
#pragma unroll 2
    for (u64 i = begin + threadIdx.x * N; i < end; i += blockDim.x * N) {
      Vec<T, N> v = *(const Vec<T, N>*)(x + offset(p.red, i));
#pragma unroll
      for (int j = 0; j < N; j++) s += get(v.v[j]);
    }
    return s;
  }

  METHOD A squares(A mean) const {
    A s = A(0);
#pragma unroll 2
    for (u64 i = begin + threadIdx.x * N; i < end; i += blockDim.x * N) {
      Vec<T, N> v = *(const Vec<T, N>*)(x + offset(p.red, i));
#pragma unroll
      for (int j = 0; j < N; j++) {
        A c = get(v.v[j]) - mean;
        s += c * c;
      }
    }
    return s;
  }

  METHOD void grads(A mean, A rstd, A& sh, A& shx) const {
    sh = shx = A(0);
#pragma unroll 1
    for (u64 i = begin + threadIdx.x * N; i < end; i += blockDim.x * N) {
      i64 off[2];
      offsets<2>(p.red, i, off);
      Vec<T, N> v = *(const Vec<T, N>*)(x + off[0]), gv = *(const Vec<T, N>*)(g + off[1]);
      A wv[N], bv[N];
      if (p.mode) affine.template at<N>(p, i, wv, bv);
#pragma unroll
      for (int j = 0; j < N; j++) {
        A hv = get(gv.v[j]);
        if (p.mode) hv *= wv[j];
        sh += hv;
        shx += hv * ((get(v.v[j]) - mean) * rstd);
      }
    }
  }

  template <bool GRAD> METHOD void apply(A mean, A rstd, A mh, A mhx) const {
#pragma unroll 1
    for (u64 i = begin + threadIdx.x * N; i < end; i += blockDim.x * N) {
      i64 off[3];
      offsets<3>(p.red, i, off);
      Vec<T, N> v = *(const Vec<T, N>*)(x + off[0]), gv, r;
      if (GRAD) gv = *(const Vec<T, N>*)(g + off[1]);
      A wv[N], bv[N];
      affine.template at<N>(p, i, wv, bv);
#pragma unroll
      for (int j = 0; j < N; j++) {
        A hat = (get(v.v[j]) - mean) * rstd;
        put(r.v[j], GRAD ? rstd * (get(gv.v[j]) * wv[j] - mh - hat * mhx) : hat * wv[j] + bv[j]);
      }
      *(Vec<T, N>*)(out + off[2]) = r;
    }
  }
};

// A block per row.
template <class T, int N, bool GRAD> DEV void whole(const Norm& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[33];
  u64 row = blockIdx.x;
  Part<T, N> part(p, row, 0, p.len);
  A n = (A)p.len, mean = A(0), rstd, sh = A(0), shx = A(0);
  if (GRAD) {
    given<T>(p, row, mean, rstd);
    part.grads(mean, rstd, sh, shx);
    sh = block_reduce(sh, A(0), room, plus<A>);
    shx = block_reduce(shx, A(0), room, plus<A>);
    means<T>(p, row, part.affine.w0, sh, shx, threadIdx.x == 0);
  } else {
    if (!p.rms) mean = block_reduce(part.sum(), A(0), room, plus<A>) / n;
    A m2 = block_reduce(part.squares(mean), A(0), room, plus<A>);
    rstd = A(1) / m_sqrt(m2 / n + (A)p.eps);
    if (threadIdx.x == 0) keep<T>(p, row, p.len, mean, rstd, m2);
  }
  part.template apply<GRAD>(mean, rstd, sh, shx);
}

// Moments are the number of elements, their mean, and the sum of squared differences from it.
template <class A> struct Moments { A n, mean, m2; };
template <class A> DEV Moments<A> merged(Moments<A> a, Moments<A> b) {
  if (b.n == A(0)) return a;
  if (a.n == A(0)) return b;
  A n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
  Moments<A> r = {n, a.mean + d * share, a.m2 + b.m2 + d * d * a.n * share};
  return r;
}

// The sums of a chunk: its mean and the squared differences from it, or for the gradient the
// sums of h and h·x̂.
template <class T, int N, bool GRAD> DEV void chunk_sums(const Norm& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[33];
  u64 row = blockIdx.x, begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  Part<T, N> part(p, row, begin, end);
  A s0 = A(0), s1;
  if (GRAD) {
    A mean, rstd;
    given<T>(p, row, mean, rstd);
    part.grads(mean, rstd, s0, s1);
    s0 = block_reduce(s0, A(0), room, plus<A>);
    s1 = block_reduce(s1, A(0), room, plus<A>);
  } else {
    if (!p.rms) s0 = block_reduce(part.sum(), A(0), room, plus<A>) / (A)(end - begin);
    s1 = block_reduce(part.squares(s0), A(0), room, plus<A>);
  }
  A* partial = (A*)p.partial + row * p.chunks * 2;
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.y] = s0;
    partial[2 * blockIdx.y + 1] = s1;
  }
  if (!last(p.arrived, p.chunks)) return;
  A* sums = (A*)p.sums + row * 2;
  if (GRAD) {
    s0 = s1 = A(0);
    for (int c = threadIdx.x; c < p.chunks; c += blockDim.x) {
      s0 += state(partial + 2 * c);
      s1 += state(partial + 2 * c + 1);
    }
    s0 = block_reduce(s0, A(0), room, plus<A>);
    s1 = block_reduce(s1, A(0), room, plus<A>);
    means<T>(p, row, part.affine.w0, s0, s1, threadIdx.x == 0);
  } else {
    __shared__ Moments<A> all[33];
    Moments<A> none = {A(0), A(0), A(0)}, m = none;
    for (int c = threadIdx.x; c < p.chunks; c += blockDim.x) {
      Moments<A> k = {c + 1 < p.chunks ? (A)p.chunk : (A)(p.len - (u64)c * p.chunk), state(partial + 2 * c), state(partial + 2 * c + 1)};
      m = merged(m, k);
    }
    m = block_reduce(m, none, all, merged<A>);
    s0 = m.mean;
    s1 = A(1) / m_sqrt(m.m2 / (A)p.len + (A)p.eps);
    if (threadIdx.x == 0) keep<T>(p, row, p.len, s0, s1, m.m2);
  }
  if (threadIdx.x == 0) {
    sums[0] = s0;
    sums[1] = s1;
  }
}

template <class T, int N, bool GRAD> DEV void chunk_apply(const Norm& p) {
  typedef typename Compute<T>::type A;
  u64 row = blockIdx.x, begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  Part<T, N> part(p, row, begin, end);
  const A* sums = (const A*)p.sums + row * 2;
  A mean = sums[0], rstd = sums[1];
  if (GRAD) given<T>(p, row, mean, rstd);
  part.template apply<GRAD>(mean, rstd, sums[0], sums[1]);
}

// Gradients of weight and bias: sums of g·x̂ and g over the elements of each.
struct NormParams {
  const void *g, *x, *mean, *rstd; // the mean may be missing
  void *gw, *gb;                   // either may be missing
  void* partial;                   // [splits][params][2], if there is more than one split
  u32* arrived;                    // blocks of the same parameters that have stored their sums; 0 between launches
  u64 params, len, chunk;
  i32 splits, pad;
  Idx kept, red; // strides: g, x, statistics
};

template <class T> struct Terms {
  typedef typename Compute<T>::type A;
  const T *g, *x;
  const A *mean, *rstd;
  A w, b;
  METHOD Terms(const NormParams& p, u64 param) : w(A(0)), b(A(0)) {
    i64 off[3];
    offsets<3>(p.kept, param, off);
    g = (const T*)p.g + off[0];
    x = (const T*)p.x + off[1];
    mean = p.mean ? (const A*)p.mean + off[2] : 0;
    rstd = (const A*)p.rstd + off[2];
  }
  METHOD void add(const NormParams& p, u64 i) {
    i64 off[3];
    offsets<3>(p.red, i, off);
    A gv = get(g[off[0]]);
    w += gv * ((get(x[off[1]]) - (mean ? mean[off[2]] : A(0))) * rstd[off[2]]);
    b += gv;
  }
};

template <class T> DEV void put_params(const NormParams& p, u64 param, typename Compute<T>::type w, typename Compute<T>::type b) {
  if (p.gw) put(((T*)p.gw)[param], w);
  if (p.gb) put(((T*)p.gb)[param], b);
}

// A lane per parameter, so that adjacent lanes load adjacent elements; the warps of a block
// share the elements of a parameter.
#define TILE_WARPS 8
template <class T> DEV void params_tile(const NormParams& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[TILE_WARPS][32][2];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u64 param = (u64)blockIdx.x * 32 + lane;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  A* partial = (A*)p.partial + param * 2;
  bool mine = param < p.params;
  A w = A(0), b = A(0);
  if (mine) {
    Terms<T> t(p, param);
#pragma unroll 4
    for (u64 i = begin + warp; i < end; i += TILE_WARPS) t.add(p, i);
    w = t.w;
    b = t.b;
  }
  for (bool more = p.splits > 1;; more = false) { // the warps' sums, and then those of the splits
    room[warp][lane][0] = w;
    room[warp][lane][1] = b;
    __syncthreads();
    w = b = A(0);
#pragma unroll
    for (int k = 0; k < TILE_WARPS; k++) {
      w += room[k][lane][0];
      b += room[k][lane][1];
    }
    if (!more) break;
    if (mine && warp == 0) {
      partial[blockIdx.y * p.params * 2] = w;
      partial[blockIdx.y * p.params * 2 + 1] = b;
    }
    if (!last(p.arrived, p.splits)) return;
    w = b = A(0);
    if (mine)
      for (int s = warp; s < p.splits; s += TILE_WARPS) {
        w += state(partial + s * p.params * 2);
        b += state(partial + s * p.params * 2 + 1);
      }
  }
  if (mine && warp == 0) put_params<T>(p, param, w, b);
}

// The same for layer normalization: a lane handles the LANES(T) adjacent parameters that it
// loads at once, with one statistic per row.
template <class T> DEV void params_wide(const NormParams& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T);
  __shared__ A room[TILE_WARPS][32 * V];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u64 param = ((u64)blockIdx.x * 32 + lane) * V;
  u64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  bool mine = param < p.params;
  A w[V], b[V];
#pragma unroll
  for (int j = 0; j < V; j++) w[j] = b[j] = A(0);
  if (mine) {
    const T *g = (const T*)p.g + param, *x = (const T*)p.x + param;
#pragma unroll 4
    for (u64 i = begin + warp; i < end; i += TILE_WARPS) {
      Vec<T, V> gv = *(const Vec<T, V>*)(g + (i64)i * p.red.stride[0][0]), xv = *(const Vec<T, V>*)(x + (i64)i * p.red.stride[1][0]);
      A mean = p.mean ? ((const A*)p.mean)[i] : A(0), rstd = ((const A*)p.rstd)[i];
#pragma unroll
      for (int j = 0; j < V; j++) {
        A d = get(gv.v[j]);
        w[j] += d * ((get(xv.v[j]) - mean) * rstd);
        b[j] += d;
      }
    }
  }
  A* partial = (A*)p.partial;
  for (bool more = p.splits > 1;; more = false) { // the warps' sums, and then those of the splits
#pragma unroll
    for (int k = 0; k < 2; k++) {
      A* own = k ? b : w;
#pragma unroll
      for (int j = 0; j < V; j++) room[warp][j * 32 + lane] = own[j];
      __syncthreads();
#pragma unroll
      for (int j = 0; j < V; j++) {
        A s = A(0);
#pragma unroll
        for (int q = 0; q < TILE_WARPS; q++) s += room[q][j * 32 + lane];
        own[j] = s;
      }
      __syncthreads();
    }
    if (!more) break;
    if (mine && warp == 0)
#pragma unroll
      for (int j = 0; j < V; j++) {
        partial[(blockIdx.y * p.params + param + j) * 2] = w[j];
        partial[(blockIdx.y * p.params + param + j) * 2 + 1] = b[j];
      }
    if (!last(p.arrived, p.splits)) return;
#pragma unroll
    for (int j = 0; j < V; j++) w[j] = b[j] = A(0);
    if (mine)
#pragma unroll 1
      for (int s = warp; s < p.splits; s += TILE_WARPS)
#pragma unroll
        for (int j = 0; j < V; j++) {
          w[j] += state(partial + (s * p.params + param + j) * 2);
          b[j] += state(partial + (s * p.params + param + j) * 2 + 1);
        }
  }
  if (mine && warp == 0)
#pragma unroll
    for (int j = 0; j < V; j++) put_params<T>(p, param + j, w[j], b[j]);
}

// A block per parameter, whose elements are contiguous.
template <class T> DEV void params_row(const NormParams& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[33];
  u64 param = blockIdx.x, begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  A* partial = (A*)p.partial + param * 2;
  Terms<T> t(p, param);
#pragma unroll 1
  for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) t.add(p, i);
  A w = block_reduce(t.w, A(0), room, plus<A>), b = block_reduce(t.b, A(0), room, plus<A>);
  if (p.splits > 1) {
    if (threadIdx.x == 0) {
      partial[blockIdx.y * p.params * 2] = w;
      partial[blockIdx.y * p.params * 2 + 1] = b;
    }
    if (!last(p.arrived, p.splits)) return;
    w = b = A(0);
    for (int s = threadIdx.x; s < p.splits; s += blockDim.x) {
      w += state(partial + s * p.params * 2);
      b += state(partial + s * p.params * 2 + 1);
    }
    w = block_reduce(w, A(0), room, plus<A>);
    b = block_reduce(b, A(0), room, plus<A>);
  }
  if (threadIdx.x == 0) put_params<T>(p, param, w, b);
}

#define NORM(T, S, N)                                                                                                 \
  KERNEL __launch_bounds__(512) norm_whole##S##_##T(const __grid_constant__ Norm p) { whole<T, N, false>(p); }        \
  KERNEL __launch_bounds__(512) norm_grad_whole##S##_##T(const __grid_constant__ Norm p) { whole<T, N, true>(p); }    \
  KERNEL __launch_bounds__(512) norm_sums##S##_##T(const __grid_constant__ Norm p) { chunk_sums<T, N, false>(p); }    \
  KERNEL __launch_bounds__(512) norm_grad_sums##S##_##T(const __grid_constant__ Norm p) { chunk_sums<T, N, true>(p); }\
  KERNEL __launch_bounds__(512) norm_apply##S##_##T(const __grid_constant__ Norm p) { chunk_apply<T, N, false>(p); }  \
  KERNEL __launch_bounds__(512) norm_grad_apply##S##_##T(const __grid_constant__ Norm p) { chunk_apply<T, N, true>(p); }
#define NORMALIZE(T)                                                                                                  \
  KERNEL __launch_bounds__(512) norm_held_##T(const __grid_constant__ Norm p) { held<T, false, false>(p); }           \
  KERNEL __launch_bounds__(512) norm_grad_held_##T(const __grid_constant__ Norm p) { held<T, true, false>(p); }       \
  KERNEL __launch_bounds__(128) norm_held_warp_##T(const __grid_constant__ Norm p) { held<T, false, true>(p); }       \
  KERNEL __launch_bounds__(128) norm_grad_held_warp_##T(const __grid_constant__ Norm p) { held<T, true, true>(p); }   \
  NORM(T, , 1) NORM(T, _wide, LANES(T))                                                                               \
  KERNEL __launch_bounds__(512) norm_params_tile_##T(const __grid_constant__ NormParams p) { params_tile<T>(p); }     \
  KERNEL __launch_bounds__(256) norm_params_wide_##T(const __grid_constant__ NormParams p) { params_wide<T>(p); }     \
  KERNEL __launch_bounds__(512) norm_params_row_##T(const __grid_constant__ NormParams p) { params_row<T>(p); }
FLOAT_TYPES(NORMALIZE)
