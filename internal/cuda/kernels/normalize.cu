// normalize, (x - mean)/√(var + eps) over any axes, and its transpose.
//
// Groups that are contiguous and short enough are read once and kept in registers
// (held). Others take several kernels: statistics of chunks, their merging,
// and the result.
#include "locus.cuh"

struct Normalize {
  void* out;
  const void *g, *x;     // gradient (grad only) and operand
  void *partial, *stats; // [groups][chunks][2] and [groups][4]: mean, 1/√(var+eps), mean of g, mean of g·x̂
  u64 groups, len, chunk;
  f64 eps;
  i32 chunks, second; // second: the sums are those of the gradient
  Idx kept, red;      // strides: x, g, out
};

#define HELD 8
template <class T, bool GRAD> DEV void held(const Normalize& p) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T), H = GRAD ? HELD / 2 : HELD;
  __shared__ A room[33];
  auto add = [](A x, A y) { return x + y; };
  i64 off[3];
  offsets<3>(p.kept, blockIdx.x, off);
  const T *xs = (const T*)p.x + off[0], *gs = (const T*)p.g + off[1];
  T* out = (T*)p.out + off[2];
  int first = threadIdx.x * V, step = blockDim.x * V, len = (int)p.len;
  Vec<T, V> x[H], g[GRAD ? H : 1];
  A sum = A(0);
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      x[h] = *(const Vec<T, V>*)(xs + first + h * step);
      if (GRAD) g[GRAD ? h : 0] = *(const Vec<T, V>*)(gs + first + h * step);
    }
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len)
#pragma unroll
      for (int j = 0; j < V; j++) sum += get(x[h].v[j]);
  A n = (A)p.len, mean = block_reduce(sum, A(0), room, add) / n, m2 = A(0);
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len)
#pragma unroll
      for (int j = 0; j < V; j++) {
        A c = get(x[h].v[j]) - mean;
        m2 += c * c;
      }
  A rstd = A(1) / m_sqrt(block_reduce(m2, A(0), room, add) / n + (A)p.eps);
  A mg = A(0), mgx = A(0);
  if (GRAD) {
#pragma unroll
    for (int h = 0; h < H; h++)
      if (first + h * step < len)
#pragma unroll
        for (int j = 0; j < V; j++) {
          A gv = get(g[GRAD ? h : 0].v[j]);
          mg += gv;
          mgx += gv * ((get(x[h].v[j]) - mean) * rstd);
        }
    mg = block_reduce(mg, A(0), room, add) / n;
    mgx = block_reduce(mgx, A(0), room, add) / n;
  }
#pragma unroll
  for (int h = 0; h < H; h++)
    if (first + h * step < len) {
      Vec<T, V> r;
#pragma unroll
      for (int j = 0; j < V; j++) {
        A hat = (get(x[h].v[j]) - mean) * rstd;
        put(r.v[j], GRAD ? rstd * (get(g[GRAD ? h : 0].v[j]) - mg - hat * mgx) : hat);
      }
      *(Vec<T, V>*)(out + first + h * step) = r;
    }
}

// Two sums of a chunk: mean and squared distances from it, or for the gradient
// g and g·x̂.
template <class T> DEV void stats(const Normalize& p) {
  typedef typename Compute<T>::type A;
  __shared__ A room[33];
  auto add = [](A x, A y) { return x + y; };
  u64 group = blockIdx.x, begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  i64 base[3], off[3];
  offsets<3>(p.kept, group, base);
  const T *x = (const T*)p.x + base[0], *g = (const T*)p.g + base[1];
  A s0 = A(0), s1 = A(0);
  if (p.second) {
    const A* st = (const A*)p.stats + group * 4;
    for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
      offsets<2>(p.red, i, off);
      A gv = get(g[off[1]]);
      s0 += gv;
      s1 += gv * ((get(x[off[0]]) - st[0]) * st[1]);
    }
    s0 = block_reduce(s0, A(0), room, add);
    s1 = block_reduce(s1, A(0), room, add);
  } else {
    for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) s0 += get(x[offset(p.red, i)]);
    s0 = block_reduce(s0, A(0), room, add) / (A)(end - begin);
    for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
      A c = get(x[offset(p.red, i)]) - s0;
      s1 += c * c;
    }
    s1 = block_reduce(s1, A(0), room, add);
  }
  if (threadIdx.x == 0) {
    A* out = (A*)p.partial + (group * p.chunks + blockIdx.y) * 2;
    out[0] = s0;
    out[1] = s1;
  }
}

template <class T> DEV void merge(const Normalize& p) {
  typedef typename Compute<T>::type A;
  u64 group = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (group >= p.groups) return;
  const A* in = (const A*)p.partial + group * p.chunks * 2;
  A* st = (A*)p.stats + group * 4;
  A n = (A)p.len;
  if (p.second) {
    A s0 = A(0), s1 = A(0);
    for (int c = 0; c < p.chunks; c++) {
      s0 += in[2 * c];
      s1 += in[2 * c + 1];
    }
    st[2] = s0 / n;
    st[3] = s1 / n;
    return;
  }
  A mean = A(0), m2 = A(0), seen = A(0);
  for (int c = 0; c < p.chunks; c++) {
    A k = c + 1 < p.chunks ? (A)p.chunk : (A)(p.len - (u64)c * p.chunk), d = in[2 * c] - mean;
    seen += k;
    mean += d * (k / seen);
    m2 += in[2 * c + 1] + d * d * k * ((seen - k) / seen);
  }
  st[0] = mean;
  st[1] = A(1) / m_sqrt(m2 / n + (A)p.eps);
}

template <class T, bool GRAD> DEV void apply(const Normalize& p) {
  typedef typename Compute<T>::type A;
  u64 group = blockIdx.x, begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.len ? begin + p.chunk : p.len;
  i64 base[3], off[3];
  offsets<3>(p.kept, group, base);
  const T *x = (const T*)p.x + base[0], *g = (const T*)p.g + base[1];
  T* out = (T*)p.out + base[2];
  const A* st = (const A*)p.stats + group * 4;
  A mean = st[0], rstd = st[1];
  for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
    offsets<3>(p.red, i, off);
    A hat = (get(x[off[0]]) - mean) * rstd;
    put(out[off[2]], GRAD ? rstd * (get(g[off[1]]) - st[2] - hat * st[3]) : hat);
  }
}

#define NORMALIZE(T)                                                                                     \
  KERNEL normalize_held_##T(const __grid_constant__ Normalize p) { held<T, false>(p); }                  \
  KERNEL normalize_grad_held_##T(const __grid_constant__ Normalize p) { held<T, true>(p); }              \
  KERNEL normalize_stats_##T(const __grid_constant__ Normalize p) { stats<T>(p); }                       \
  KERNEL normalize_merge_##T(const __grid_constant__ Normalize p) { merge<T>(p); }                       \
  KERNEL normalize_apply_##T(const __grid_constant__ Normalize p) { apply<T, false>(p); }                \
  KERNEL normalize_grad_apply_##T(const __grid_constant__ Normalize p) { apply<T, true>(p); }
NORMALIZE(f16) NORMALIZE(bf16) NORMALIZE(f32) NORMALIZE(f64)
