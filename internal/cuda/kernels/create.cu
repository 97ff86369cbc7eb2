// Creation ops. The random ones reproduce package internal/random bit for bit, which
// explains the steps.
#include "locus.cuh"

struct Fill { void* out; u64 bits, n; };

template <class T> DEV void fill(const Fill& p) {
  const int V = LANES(T);
  u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * V;
  if (i >= p.n) return;
  T* out = (T*)p.out + i;
  T c = (T)p.bits;
  if (p.n - i >= V) {
    Vec<T, V> r;
#pragma unroll
    for (int j = 0; j < V; j++) r.v[j] = c;
    *(Vec<T, V>*)out = r;
    return;
  }
  for (u64 j = 0; j < p.n - i; j++) out[j] = c;
}
KERNEL full_u8(const __grid_constant__ Fill p) { fill<u8>(p); }
KERNEL full_u16(const __grid_constant__ Fill p) { fill<u16>(p); }
KERNEL full_u32(const __grid_constant__ Fill p) { fill<u32>(p); }
KERNEL full_u64(const __grid_constant__ Fill p) { fill<u64>(p); }

struct Range { void* out; u64 n; f64 start, step; i64 istart, istep; };

#define ARANGE(T, value)                                               \
  KERNEL arange_##T(const __grid_constant__ Range p) {                 \
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;                \
    if (i < p.n) put(((T*)p.out)[i], (typename Compute<T>::type)(value)); \
  }
#define ARANGE_FLOAT(T) ARANGE(T, __dadd_rn(p.start, __dmul_rn((f64)i, p.step)))
#define ARANGE_INT(T) ARANGE(T, (u64)p.istart + i * (u64)p.istep)
FLOAT_TYPES(ARANGE_FLOAT)
ARANGE_INT(u8) ARANGE_INT(i32) ARANGE_INT(i64)

struct Random { void* out; u64 n, key; i64 low; u64 span, first; };

struct Words { u32 w[4]; };

DEV Words philox(u64 key, u64 n) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32), a = (u32)n, b = (u32)(n >> 32), c = 0, d = 0;
#pragma unroll
  for (int r = 0; r < 10; r++) {
    u32 h0 = __umulhi(0xD2511F53u, a), l0 = 0xD2511F53u * a;
    u32 h1 = __umulhi(0xCD9E8D57u, c), l1 = 0xCD9E8D57u * c;
    a = h1 ^ b ^ k0;
    b = l1;
    c = h0 ^ d ^ k1;
    d = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Words w = {{a, b, c, d}};
  return w;
}

DEV f32 uniform32(u32 w) { return __fmul_rn((f32)(w >> 8), 1.0f / (1 << 24)); }
DEV f64 uniform64(u64 w) { return __dmul_rn((f64)(w >> 11), 1.0 / (1ull << 53)); }

DEV f32 step(f32 p, f32 t, f32 k) { return __fadd_rn(__fmul_rn(p, t), k); }

DEV f32 log32(f32 x) {
  u32 b = __float_as_uint(x);
  i32 e = (i32)(b >> 23) - 126;
  f32 m = __uint_as_float((b & 0x007fffffu) | 0x3f000000u);
  if (m < 0.70710678f) {
    e--;
    m = __fadd_rn(m, m);
  }
  m = __fsub_rn(m, 1.0f);
  f32 z = __fmul_rn(m, m);
  f32 p = 7.0376836292e-2f;
  p = step(p, m, -1.1514610310e-1f);
  p = step(p, m, 1.1676998740e-1f);
  p = step(p, m, -1.2420140846e-1f);
  p = step(p, m, 1.4249322787e-1f);
  p = step(p, m, -1.6668057665e-1f);
  p = step(p, m, 2.0000714765e-1f);
  p = step(p, m, -2.4999993993e-1f);
  p = step(p, m, 3.3333331174e-1f);
  f32 y = __fmul_rn(__fmul_rn(m, z), p);
  f32 fe = (f32)e;
  y = __fadd_rn(y, __fmul_rn(fe, -2.12194440e-4f));
  y = __fsub_rn(y, __fmul_rn(0.5f, z));
  y = __fadd_rn(m, y);
  return __fadd_rn(y, __fmul_rn(fe, 0.693359375f));
}

DEV f32 normal32(u32 w) {
  u32 n = w >> 8;
  bool negative = n < (1u << 23);
  if (negative) n = (1u << 24) - 1 - n;
  n -= 1u << 23;
  f32 x = __fmul_rn((f32)(2 * n + 1), 1.0f / (1 << 24));
  f32 tail = __fmul_rn((f32)(2 * ((1u << 23) - 1 - n) + 1), 1.0f / (1 << 24));
  f32 t = -log32(__fmul_rn(tail, __fadd_rn(1.0f, x)));
  f32 p;
  if (t < 5.0f) {
    t = __fsub_rn(t, 2.5f);
    p = 2.81022636e-08f;
    p = step(p, t, 3.43273939e-07f);
    p = step(p, t, -3.5233877e-06f);
    p = step(p, t, -4.39150654e-06f);
    p = step(p, t, 0.00021858087f);
    p = step(p, t, -0.00125372503f);
    p = step(p, t, -0.00417768164f);
    p = step(p, t, 0.246640727f);
    p = step(p, t, 1.50140941f);
  } else {
    t = __fsub_rn(__fsqrt_rn(t), 3.0f);
    p = -0.000200214257f;
    p = step(p, t, 0.000100950558f);
    p = step(p, t, 0.00134934322f);
    p = step(p, t, -0.00367342844f);
    p = step(p, t, 0.00573950773f);
    p = step(p, t, -0.0076224613f);
    p = step(p, t, 0.00943887047f);
    p = step(p, t, 1.00167406f);
    p = step(p, t, 2.83297682f);
  }
  f32 z = __fmul_rn(__fmul_rn(p, x), 1.41421356237309504880f);
  return negative ? -z : z;
}

// In float64 the library's erfinv differs from the host's in the last digits.
DEV f64 normal64(u64 w) {
  f64 u = __dmul_rn(__dadd_rn((f64)(w >> 12), 0.5), 1.0 / (1ull << 52));
  return 1.41421356237309504880 * erfinv(__dsub_rn(__dmul_rn(2.0, u), 1.0));
}

// below1 rounds a uniform number to T; what rounds to 1 becomes the largest value below.
DEV f32 below1(f32 v, f32*) { return v; }
DEV f16 below1(f32 v, f16*) { f16 r = make<f16>(v); if (r.x == 0x3c00) r.x = 0x3bff; return r; }
DEV bf16 below1(f32 v, bf16*) { bf16 r = make<bf16>(v); if (r.x == 0x3f80) r.x = 0x3f7f; return r; }

// Four elements of 32 bits share a counter block, or two of 64 bits. The first element of
// the result may be in the middle of its block: skip is the number of elements before it.
// i is the index of the block's first element, and wraps around for skipped ones, which
// makes them fail the comparison with n.
#define RANDOM32(name, T, value)                                       \
  KERNEL name##_##T(const __grid_constant__ Random p) {                \
    u64 b = (u64)blockIdx.x * blockDim.x + threadIdx.x, skip = p.first & 3, i = b * 4 - skip; \
    if (b * 4 >= p.n + skip) return;                                   \
    Words r = philox(p.key, p.first / 4 + b);                          \
    Vec<T, 4> v;                                                       \
    _Pragma("unroll") for (int j = 0; j < 4; j++) { u32 w = r.w[j]; v.v[j] = value; } \
    if (skip == 0 && p.n - i >= 4) *(Vec<T, 4>*)((T*)p.out + i) = v;   \
    else _Pragma("unroll") for (int j = 0; j < 4; j++) if (i + j < p.n) ((T*)p.out)[i + j] = v.v[j]; \
  }
#define RANDOM64(name, T, value)                                       \
  KERNEL name##_##T(const __grid_constant__ Random p) {                \
    u64 b = (u64)blockIdx.x * blockDim.x + threadIdx.x, skip = p.first & 1, i = b * 2 - skip; \
    if (b * 2 >= p.n + skip) return;                                   \
    Words r = philox(p.key, p.first / 2 + b);                          \
    _Pragma("unroll") for (int j = 0; j < 2; j++) {                    \
      u64 w = r.w[2 * j] | (u64)r.w[2 * j + 1] << 32;                  \
      if (i + j < p.n) ((T*)p.out)[i + j] = value;                     \
    }                                                                  \
  }
#define RANDOM_HALF(T) RANDOM32(rand_uniform, T, below1(uniform32(w), (T*)0)) RANDOM32(rand_normal, T, make<T>(normal32(w)))
HALF_TYPES(RANDOM_HALF)
RANDOM32(rand_uniform, f32, uniform32(w)) RANDOM64(rand_uniform, f64, uniform64(w))
RANDOM32(rand_normal, f32, normal32(w)) RANDOM64(rand_normal, f64, normal64(w))
#define RAND_INT(T) RANDOM64(rand_int, T, (T)((u64)p.low + __umul64hi(w, p.span)))
RAND_INT(u8) RAND_INT(i32) RAND_INT(i64)
RANDOM64(rand_bits, i64, (i64)(w >> 1))
