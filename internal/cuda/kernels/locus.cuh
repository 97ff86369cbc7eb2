// What all kernels share: element types, conversions, the offsets of an operand's
// elements, and loads and stores of 16 bytes.
//
// Only the compiler itself is needed: no header of the CUDA toolkit is included.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
struct b8 { u8 x; };   // bool: 0 or 1
struct f16 { u16 x; };
struct bf16 { u16 x; };

// The types, for macros that define a kernel per type; WITH passes further arguments on.
#define HALF_TYPES(M) M(f16) M(bf16)
#define FLOAT_TYPES(M) HALF_TYPES(M) M(f32) M(f64)
#define NUMBER_TYPES(M) M(u8) M(i32) M(i64) FLOAT_TYPES(M)
#define ALL_TYPES(M) M(b8) NUMBER_TYPES(M)
#define HALF_TYPES_WITH(M, ...) M(f16, __VA_ARGS__) M(bf16, __VA_ARGS__)
#define ALL_TYPES_WITH(M, ...) M(b8, __VA_ARGS__) M(u8, __VA_ARGS__) M(i32, __VA_ARGS__) M(i64, __VA_ARGS__) FLOAT_TYPES_WITH(M, __VA_ARGS__)
#define FLOAT_TYPES_WITH(M, ...) HALF_TYPES_WITH(M, __VA_ARGS__) M(f32, __VA_ARGS__) M(f64, __VA_ARGS__)

#define DEV static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define KERNEL extern "C" __global__ void

#define INF_F __int_as_float(0x7f800000)
#define INF_D __longlong_as_double(0x7ff0000000000000ll)
#define NAN_F __int_as_float(0x7fc00000)

// The type that T is computed in: float32 for half-precision types.
template <class T> struct Compute { typedef T type; };
template <> struct Compute<f16> { typedef f32 type; };
template <> struct Compute<bf16> { typedef f32 type; };
template <> struct Compute<b8> { typedef bool type; };

DEV f32 get(f16 h) { f32 f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.x)); return f; }
DEV f32 get(bf16 b) { return __uint_as_float((u32)b.x << 16); }
DEV bool get(b8 b) { return b.x != 0; }
DEV u8 get(u8 v) { return v; }
DEV u16 get(u16 v) { return v; }
DEV u32 get(u32 v) { return v; }
DEV u64 get(u64 v) { return v; }
DEV i32 get(i32 v) { return v; }
DEV i64 get(i64 v) { return v; }
DEV f32 get(f32 v) { return v; }
DEV f64 get(f64 v) { return v; }

DEV void put(f16& h, f32 f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.x) : "f"(f)); }
// Round to nearest even in integer arithmetic, so that cards before sm_80 can do it too.
DEV void put(bf16& b, f32 f) {
  u32 u = __float_as_uint(f);
  b.x = (u & 0x7fffffff) > 0x7f800000 ? (u16)(u >> 16 | 0x40) : (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
DEV void put(b8& b, bool v) { b.x = v; }
DEV void put(u8& r, u8 v) { r = v; }
DEV void put(u16& r, u16 v) { r = v; }
DEV void put(u32& r, u32 v) { r = v; }
DEV void put(u64& r, u64 v) { r = v; }
DEV void put(i32& r, i32 v) { r = v; }
DEV void put(i64& r, i64 v) { r = v; }
DEV void put(f32& r, f32 v) { r = v; }
DEV void put(f64& r, f64 v) { r = v; }

template <class T> DEV T make(typename Compute<T>::type v) { T r; put(r, v); return r; }

// N elements that are loaded or stored by one instruction.
template <class T, int N> struct alignas(sizeof(T) * N) Vec { T v[N]; };
#define LANES(T) (16 / (int)sizeof(T) > 8 ? 8 : 16 / (int)sizeof(T))

// Idx converts a linear index to the offsets of up to three operands. Sizes are
// innermost first and strides in elements. mul and shr divide by the size without a
// division, which works for indices below 2^31; big is set if there are more elements.
struct Idx {
  i32 nd, big;
  u32 size[8], mul[8], shr[8];
  i64 stride[3][8];
};

DEV u32 quotient(u32 x, u32 mul, u32 shr) { return (__umulhi(x, mul) + x) >> shr; }

template <int N> DEV void offsets(const Idx& x, u64 i, i64* off) {
#pragma unroll
  for (int k = 0; k < N; k++) off[k] = 0;
#pragma unroll 1
  for (int d = 0; d < x.nd; d++) {
    u64 q = x.big ? i / x.size[d] : quotient((u32)i, x.mul[d], x.shr[d]);
    i64 m = i - q * x.size[d];
#pragma unroll
    for (int k = 0; k < N; k++) off[k] += m * x.stride[k][d];
    i = q;
  }
}

DEV i64 offset(const Idx& x, u64 i) { i64 o[1]; offsets<1>(x, i, o); return o[0]; }

// Flag is where a kernel reports an index that is out of range; the host reads it when
// it waits. The first report is kept.
struct Flag { volatile u32 op; u32 pad; volatile i64 index, limit; };

DEV void out_of_range(Flag* f, u32 op, i64 index, i64 limit) {
  if (f->op != 0) return;
  f->index = index;
  f->limit = limit;
  __threadfence_system();
  f->op = op;
}

// Reductions within a warp and a block. S may be any struct of 4-byte words.
template <class S> DEV S shuffle_xor(S v, int k) {
  union { S s; u32 w[sizeof(S) / 4]; } a, r;
  a.s = v;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(S) / 4); i++) r.w[i] = __shfl_xor_sync(~0u, a.w[i], k);
  return r.s;
}

template <class S, class F> DEV S warp_reduce(S v, F f) {
#pragma unroll
  for (int k = 16; k; k >>= 1) v = f(v, shuffle_xor(v, k));
  return v;
}

// block_reduce returns the result to every thread. shared has room for 33 values.
template <class S, class F> DEV S block_reduce(S v, S none, S* shared, F f) {
  v = warp_reduce(v, f);
  int warps = (blockDim.x + 31) >> 5;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    S w = (int)threadIdx.x < warps ? shared[threadIdx.x] : none;
    w = warp_reduce(w, f);
    if (threadIdx.x == 0) shared[32] = w;
  }
  __syncthreads();
  return shared[32];
}

// Overloads of the math library by type: m_exp(float) is expf.
#define MATH1(n) DEV f32 m_##n(f32 x) { return n##f(x); } DEV f64 m_##n(f64 x) { return n(x); }
MATH1(exp) MATH1(exp2) MATH1(expm1) MATH1(log) MATH1(log2) MATH1(log10) MATH1(log1p)
MATH1(sin) MATH1(cos) MATH1(tan) MATH1(asin) MATH1(acos) MATH1(atan)
MATH1(sinh) MATH1(cosh) MATH1(tanh) MATH1(asinh) MATH1(acosh) MATH1(atanh)
MATH1(erf) MATH1(erfc) MATH1(sqrt) MATH1(floor) MATH1(ceil) MATH1(rint) MATH1(trunc) MATH1(fabs)
#define MATH2(n) DEV f32 m_##n(f32 x, f32 y) { return n##f(x, y); } DEV f64 m_##n(f64 x, f64 y) { return n(x, y); }
MATH2(pow) MATH2(fmod) MATH2(atan2) MATH2(copysign)

// The larger and the smaller, NaN if either is NaN.
template <class A> DEV A larger(A a, A b) { return a != a ? a : b != b ? b : a > b ? a : b; }
template <class A> DEV A smaller(A a, A b) { return a != a ? a : b != b ? b : a < b ? a : b; }
