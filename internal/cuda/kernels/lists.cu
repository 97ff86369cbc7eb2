// Ops on lists of tensors, many per launch: see internal/op/lists.go.
#include "rounding.cuh"

// The tensors of a launch, which are contiguous. Each has a fixed number of words: the number
// of its elements, with the number of its first block from bit 40 on, and then addresses.
#define LIST_WORDS 480
struct List {
  u32 count, each;
  u64 words[LIST_WORDS];
};

// A block has 256 threads; each handles ROUNDS times V elements.
#define LIST_THREADS 256
#define ROUNDS 4

// part returns where in words the block's tensor is, and sets the range of elements that are
// the block's.
template <int V> DEV u32 part(const List& l, u64* from, u64* to) {
  u32 low = 0, high = l.count - 1; // the last tensor whose first block is not after this one
  while (low < high) {
    u32 middle = (low + high + 1) / 2;
    if ((u32)(l.words[middle * l.each] >> 40) <= blockIdx.x) low = middle;
    else high = middle - 1;
  }
  u64 head = l.words[low * l.each], n = head & ((1ull << 40) - 1);
  u64 size = (u64)LIST_THREADS * ROUNDS * V;
  *from = (blockIdx.x - (head >> 40)) * size;
  *to = *from + size < n ? *from + size : n;
  return low * l.each + 1;
}

// load and store move V elements at i; wide says that all of them exist and that the address
// is aligned.
template <int V, class T> DEV void load(const T* from, u64 i, u64 to, bool wide, T* r) {
  if (wide) {
    *(Vec<T, V>*)r = *(const Vec<T, V>*)(from + i);
    return;
  }
#pragma unroll
  for (int j = 0; j < V; j++) r[j] = i + j < to ? from[i + j] : T();
}

template <int V, class T> DEV void store(T* out, u64 i, u64 to, bool wide, const T* r) {
  if (wide) {
    *(Vec<T, V>*)(out + i) = *(const Vec<T, V>*)r;
    return;
  }
#pragma unroll
  for (int j = 0; j < V; j++)
    if (i + j < to) out[i + j] = r[j];
}

// rounded returns x rounded to the element type T.
template <class T, class A> DEV A rounded(A x) { return get(make<T>(x)); }

// An optimizer's step. The words of a tensor are its value, its gradient and its state
// (unless this is the first step), and then, unless the step is in place, the new value and
// the new state.
struct Update {
  f64 rate, keep, decay, momentum, fresh, beta, root, eps, start;
  const void* factor; // null if there is none
  const u8* ok;       // null if there is none
  i32 first, nesterov, in_place, slots;
  i32 at[3], pad; // the slot of each kind of state that a rule may have; -1: none
  List l;
};

enum Rule { SGD, ADAM, RMSPROP, ADAGRAD };

// Numbers are the numbers of Update in the type that is computed in.
template <class A> struct Numbers { A rate, keep, decay, momentum, fresh, beta, root, eps, start; };

// The roundings that the expressions of optimize.cu compile to; a test on the GPU compares them.
template <class A> DEV A blend_square(A s0, A a, A s1, A b) { return times_plus(s0, a, times(s1, times(b, b))); }
template <class A> DEV A adam_step(A s0, A s1, A s2, A s3, A a, A b, A c) { return s0 * a - s1 * b / (m_sqrt(c) * s2 + s3); }

// step updates one element and its state s: the momentum of SGD; mean and square of Adam;
// square, mean and momentum of RMSProp; the sum of Adagrad.
template <class T, int R, class A> DEV A step(const Update& u, const Numbers<A>& n, A p, A g, A* s) {
  if (u.decay != 0) g = rounded<T>(blend((A)1, g, n.decay, p));
  if (R == SGD) {
    if (u.at[0] < 0) return blend(n.keep, p, -n.rate, g);
    s[0] = u.first ? g : rounded<T>(blend(n.momentum, s[0], n.fresh, g));
    A d = u.nesterov ? rounded<T>(blend((A)1, g, n.momentum, s[0])) : s[0];
    return blend(n.keep, p, -n.rate, d);
  }
  if (R == ADAM) {
    s[0] = rounded<T>(u.first ? times(g, (A)(1 - u.momentum)) : blend(n.momentum, s[0], (A)(1 - u.momentum), g));
    s[1] = rounded<T>(u.first ? times(times(g, g), (A)(1 - u.beta)) : blend_square(n.beta, s[1], (A)(1 - u.beta), g));
    return adam_step(n.keep, n.rate, n.root, n.eps, p, s[0], s[1]);
  }
  if (R == ADAGRAD) {
    s[0] = rounded<T>(u.first ? plus(times(g, g), n.start) : blend_square((A)1, s[0], (A)1, g));
    return adam_step(n.keep, n.rate, n.root, n.eps, p, g, s[0]);
  }
  s[0] = rounded<T>(u.first ? times(times(g, g), (A)(1 - u.beta)) : blend_square(n.beta, s[0], (A)(1 - u.beta), g));
  A v = s[0];
  if (u.at[1] >= 0) {
    s[1] = rounded<T>(u.first ? times(g, (A)(1 - u.beta)) : blend(n.beta, s[1], (A)(1 - u.beta), g));
    v = plus(v, -times(s[1], s[1]));
  }
  A d = g / plus(m_sqrt(v), n.eps);
  if (u.at[2] >= 0) {
    s[2] = rounded<T>(u.first ? d : blend(n.momentum, s[2], (A)1, d));
    d = s[2];
  }
  return blend(n.keep, p, -n.rate, d);
}

template <class T, int R, int S> DEV void update(const Update& u) {
  typedef typename Compute<T>::type A;
  const int V = LANES(T);
  bool still = u.ok && *u.ok == 0;
  if (still && u.in_place) return;
  u64 from, to;
  u32 w = part<V>(u.l, &from, &to);
  const T* p = (const T*)u.l.words[w];
  const T* g = (const T*)u.l.words[w + 1];
  u32 results = w + 2 + (u.first ? 0 : u.slots);
  T* out = (T*)u.l.words[u.in_place ? w : results];
  const T* old[S];
  T* now[S];
  u64 bits = (u64)p | (u64)g | (u64)out;
#pragma unroll
  for (int k = 0; k < S; k++) {
    bool has = u.at[k] >= 0;
    old[k] = has && !u.first ? (const T*)u.l.words[w + 2 + u.at[k]] : 0;
    now[k] = !has ? 0 : u.in_place ? (T*)old[k] : (T*)u.l.words[results + 1 + u.at[k]];
    bits |= (u64)old[k] | (u64)now[k];
  }
  Numbers<A> n = {(A)u.rate, (A)u.keep, (A)u.decay, (A)u.momentum, (A)u.fresh, (A)u.beta, (A)u.root, (A)u.eps, (A)u.start};
  A factor = u.factor ? get(*(const T*)u.factor) : (A)1;
#pragma unroll 1
  for (u64 i = from + threadIdx.x * V; i < to; i += LIST_THREADS * V) {
    bool wide = i + V <= to && (bits & 15) == 0;
    alignas(16) T x[V];
    alignas(16) T y[V];
    alignas(16) T s[S][V];
    load<V>(p, i, to, wide, x);
    load<V>(g, i, to, wide, y);
#pragma unroll
    for (int k = 0; k < S; k++) {
      if (old[k]) {
        load<V>(old[k], i, to, wide, s[k]);
      } else {
#pragma unroll
        for (int j = 0; j < V; j++) s[k][j] = T();
      }
    }
    if (!still) {
#pragma unroll
      for (int j = 0; j < V; j++) {
        A gj = get(y[j]), sj[S];
        if (u.factor) gj = rounded<T>(times(gj, factor));
#pragma unroll
        for (int k = 0; k < S; k++) sj[k] = get(s[k][j]);
        put(x[j], step<T, R, A>(u, n, get(x[j]), gj, sj));
#pragma unroll
        for (int k = 0; k < S; k++) put(s[k][j], sj[k]);
      }
    }
    store<V>(out, i, to, wide, x);
#pragma unroll
    for (int k = 0; k < S; k++)
      if (now[k]) store<V>(now[k], i, to, wide, s[k]);
  }
}

#define UPDATE(T, name, R, S) \
  KERNEL update_##name##_##T(const __grid_constant__ Update u) { update<T, R, S>(u); }
#define UPDATES(name, R, S) FLOAT_TYPES_WITH(UPDATE, name, R, S)
UPDATES(sgd, SGD, 1)
UPDATES(adam, ADAM, 2)
UPDATES(rmsprop, RMSPROP, 3)
UPDATES(adagrad, ADAGRAD, 1)

// The sum of squares of each block's elements, in float64.
struct Squares {
  f64* partial; // one per block of this launch
  List l;
};

template <class T> DEV void squares(const Squares& p) {
  __shared__ f64 shared[33];
  const int V = LANES(T);
  u64 from, to;
  const T* x = (const T*)p.l.words[part<V>(p.l, &from, &to)];
  f64 sum = 0;
#pragma unroll 1
  for (u64 i = from + threadIdx.x * V; i < to; i += LIST_THREADS * V) {
    alignas(16) T v[V];
    load<V>(x, i, to, i + V <= to && ((u64)x & 15) == 0, v);
#pragma unroll
    for (int j = 0; j < V; j++) {
      f64 e = (f64)get(v[j]);
      sum += e * e;
    }
  }
  sum = block_reduce(sum, 0.0, shared, [](f64 a, f64 b) { return a + b; });
  if (threadIdx.x == 0) p.partial[blockIdx.x] = sum;
}

// The root of the sum of all partial sums, in an order that depends on their number alone.
struct Root {
  const f64* partial;
  void* out;
  u64 n;
};

template <class T> DEV void root(const Root& p) {
  __shared__ f64 shared[33];
  f64 sum = 0;
  for (u64 i = threadIdx.x; i < p.n; i += blockDim.x) sum += p.partial[i];
  sum = block_reduce(sum, 0.0, shared, [](f64 a, f64 b) { return a + b; });
  if (threadIdx.x == 0) *(T*)p.out = (T)sqrt(sum);
}

#define SQUARES(T) KERNEL squares_##T(const __grid_constant__ Squares p) { squares<T>(p); }
FLOAT_TYPES(SQUARES)
#define ROOT(T) KERNEL root_##T(const __grid_constant__ Root p) { root<T>(p); }
ROOT(f32) ROOT(f64)

// Each tensor times a factor, or converted. The words are the operand and the result.
struct Map {
  const void* factor; // null where tensors are converted
  List l;
};

template <class From, class To> DEV void map(const Map& p) {
  typedef typename Compute<From>::type A;
  typedef typename Compute<To>::type B;
  const int V = LANES(From) < LANES(To) ? LANES(From) : LANES(To);
  u64 from, to;
  u32 w = part<V>(p.l, &from, &to);
  const From* x = (const From*)p.l.words[w];
  To* out = (To*)p.l.words[w + 1];
  A factor = p.factor ? get(*(const From*)p.factor) : (A)1;
  bool aligned = (((u64)x | (u64)out) & 15) == 0;
#pragma unroll 1
  for (u64 i = from + threadIdx.x * V; i < to; i += LIST_THREADS * V) {
    bool wide = aligned && i + V <= to;
    alignas(16) From a[V];
    alignas(16) To r[V];
    load<V>(x, i, to, wide, a);
#pragma unroll
    for (int j = 0; j < V; j++) put(r[j], (B)(p.factor ? get(a[j]) * factor : get(a[j])));
    store<V>(out, i, to, wide, r);
  }
}

#define MAP(To, From) KERNEL map_##From##_##To(const __grid_constant__ Map p) { map<From, To>(p); }
#define MAPS(T) FLOAT_TYPES_WITH(MAP, T)
FLOAT_TYPES(MAPS)

// Tensors whose two inner axes are exchanged: [k][a][b] from an operand [k][b][a]. The third
// word is a below bit 32 and b above, and the first counts tiles instead of elements. This is
// for filters that change to or from channels last, so one of the axes is short. A tile is
// all of the short axis and a part of the long one, and goes through shared memory, so that
// loads and stores are coalesced.
#define TURN_TILE 4096
#define TURN_LONG 512
template <class From, class To> DEV void turn(const Map& p) {
  typedef typename Compute<From>::type A;
  typedef typename Compute<To>::type B;
  __shared__ A room[TURN_TILE];
  u32 low = 0, high = p.l.count - 1; // the last tensor whose first block is not after this one
  while (low < high) {
    u32 middle = (low + high + 1) / 2;
    if ((u32)(p.l.words[middle * p.l.each] >> 40) <= blockIdx.x) low = middle;
    else high = middle - 1;
  }
  const u64* w = p.l.words + low * p.l.each;
  const From* x = (const From*)w[1];
  To* out = (To*)w[2];
  u32 a = (u32)w[3], b = (u32)(w[3] >> 32), n = a < b ? a : b, m = a < b ? b : a; // the short axis and the long one
  u32 most = TURN_TILE / n < TURN_LONG ? TURN_TILE / n : TURN_LONG, tiles = (m + most - 1) / most;
  u32 tile = blockIdx.x - (u32)(w[0] >> 40), k = tile / tiles, first = (tile - k * tiles) * most;
  u32 here = first + most < m ? most : m - first; // of the long axis
  u64 lines = (u64)k * a * b, block = lines + (u64)first * n;
  // With the short axis innermost a tile is contiguous; otherwise it is a row per element of the short axis.
  bool together = a <= b; // contiguous in the operand; otherwise in the result
  for (u32 i = threadIdx.x; i < here * n; i += LIST_THREADS) {
    u32 row = i / here, at = i - row * here;
    if (together) room[i] = get(x[block + i]);
    else room[at * n + row] = get(x[lines + (u64)row * m + first + at]);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < here * n; i += LIST_THREADS) {
    u32 row = i / here, at = i - row * here;
    if (together) put(out[lines + (u64)row * m + first + at], (B)room[at * n + row]);
    else put(out[block + i], (B)room[i]);
  }
}

#define TURN(To, From) KERNEL turn_##From##_##To(const __grid_constant__ Map p) { turn<From, To>(p); }
#define TURNS(T) FLOAT_TYPES_WITH(TURN, T)
FLOAT_TYPES(TURNS)
