// What kernels need to run on a CPU, for tests on machines without a GPU: the threads of a
// block are fibers of one thread, which take turns where they wait for each other. Blocks run
// one after the other, or, if they wait for each other too, each in a thread of its own.
// Instructions of PTX cannot be run; sources that have them are changed by the test, or
// left out.
#pragma once
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

namespace emulated {

enum { MOST = 1024, STACK = 256 << 10 };
struct Index { unsigned x, y, z; };
struct Fiber {
  ucontext_t at;
  char* stack;
  bool ended;
  int waits; // for: 0 nothing, 1 its warp, 2 its block
};

static Index thread, block, blocks, threads;
static Fiber fibers[MOST];
static ucontext_t host;
static int running;
static unsigned long long values[32][32];
static int votes;

struct Params { char bytes[4096]; };
static void (*kernel)(Params);
static Params params;

static void resume(int i) {
  running = i;
  thread = Index{(unsigned)i, 0, 0};
  swapcontext(&host, &fibers[i].at);
}

static void start() {
  kernel(params);
  fibers[running].ended = true;
  swapcontext(&fibers[running].at, &host);
}

static bool waits(int scope, int group, int i) { return fibers[i].waits == scope + 1 && (scope == 1 || i / 32 == group); }

// arrive waits until all threads of the warp or block that have not ended are there.
static void arrive(int scope) {
  Fiber& f = fibers[running];
  f.waits = scope + 1;
  swapcontext(&f.at, &host);
}

// release lets those go on who all have arrived.
static void release(int n) {
  bool all = true;
  for (int i = 0; i < n; i++) all = all && (fibers[i].ended || fibers[i].waits == 2);
  if (all)
    for (int i = 0; i < n; i++) fibers[i].waits = 0;
  for (int w = 0; w < n; w += 32) {
    all = true;
    for (int i = w; i < n && i < w + 32; i++) all = all && (fibers[i].ended || fibers[i].waits == 1);
    if (all)
      for (int i = w; i < n && i < w + 32; i++) fibers[i].waits = 0;
  }
}

template <class T> static T exchange(T v, int from) {
  static_assert(sizeof(T) <= 8, "");
  int warp = running / 32, lane = running % 32;
  unsigned long long word = 0;
  memcpy(&word, &v, sizeof v);
  values[warp][lane] = word;
  arrive(0);
  if (from >= 0 && from < 32) memcpy(&v, &values[warp][from], sizeof v);
  arrive(0);
  return v;
}

} // namespace emulated

#define threadIdx emulated::thread
#define blockIdx emulated::block
#define blockDim emulated::threads
#define gridDim emulated::blocks

static inline void __syncthreads() { emulated::arrive(1); }
static inline void __syncwarp(unsigned = ~0u) { emulated::arrive(0); }
static inline int __syncthreads_or(int v) {
  emulated::votes = 0;
  __syncthreads();
  if (v) emulated::votes = 1;
  __syncthreads();
  int r = emulated::votes;
  __syncthreads();
  return r;
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int k) { return emulated::exchange(v, (emulated::running % 32) ^ k); }
template <class T> static inline T __shfl_sync(unsigned, T v, int k) { return emulated::exchange(v, k & 31); }
template <class T> static inline T __shfl_up_sync(unsigned, T v, int k) {
  int lane = emulated::running % 32;
  return emulated::exchange(v, lane >= k ? lane - k : lane);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int k) {
  int lane = emulated::running % 32;
  return emulated::exchange(v, lane + k < 32 ? lane + k : lane);
}
static inline unsigned __ballot_sync(unsigned, bool v) {
  unsigned r = 0;
  int warp = emulated::running / 32;
  emulated::values[warp][emulated::running % 32] = v;
  emulated::arrive(0);
  for (int i = 0; i < 32; i++)
    if (!emulated::fibers[warp * 32 + i].ended && emulated::values[warp][i]) r |= 1u << i;
  emulated::arrive(0);
  return r;
}

static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline double __dmul_rn(double a, double b) { return a * b; } // compiled without contraction
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static inline double erfinv(double) { abort(); } // of random numbers, which nobody emulates
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
template <class To, class From> static inline To as(From v) { To r; memcpy(&r, &v, sizeof r); return r; }
static inline float __int_as_float(int v) { return as<float>(v); }
static inline float __uint_as_float(unsigned v) { return as<float>(v); }
static inline unsigned __float_as_uint(float v) { return as<unsigned>(v); }
static inline int __float_as_int(float v) { return as<int>(v); }
static inline double __longlong_as_double(long long v) { return as<double>(v); }
static inline long long __double_as_longlong(double v) { return as<long long>(v); }
static inline void __threadfence() {}
static inline void __threadfence_system() {}
template <class T, class F> static inline T atomically(T* p, F f) {
  T old = *p;
  *p = f(old);
  return old;
}
template <class T, class U> static inline T atomicAdd(T* p, U v) { return atomically(p, [&](T old) { return (T)(old + (T)v); }); }
template <class T, class U> static inline T atomicMax(T* p, U v) { return atomically(p, [&](T old) { return (T)v > old ? (T)v : old; }); }
static inline unsigned atomicInc(unsigned* p, unsigned most) { return atomically(p, [&](unsigned old) { return old >= most ? 0 : old + 1; }); }

namespace emulated {

// run runs one block, and returns 1 if its threads wait for each other for ever.
static int run(void* f, Index at, Index grid, unsigned n, const void* p, unsigned size) {
  kernel = (void (*)(Params))f;
  memset(&params, 0, sizeof params);
  memcpy(&params, p, size);
  block = at;
  blocks = grid;
  threads = Index{n, 1, 1};
  for (unsigned i = 0; i < n; i++) {
    Fiber& f = fibers[i];
    if (!f.stack) f.stack = (char*)malloc(STACK);
    f.ended = false;
    f.waits = 0;
    getcontext(&f.at);
    f.at.uc_stack.ss_sp = f.stack;
    f.at.uc_stack.ss_size = STACK;
    f.at.uc_link = 0;
    makecontext(&f.at, start, 0);
  }
  for (unsigned left = n; left > 0;) {
    bool went = false;
    for (unsigned i = 0; i < n; i++)
      if (!fibers[i].ended && fibers[i].waits == 0) {
        went = true;
        resume(i);
        if (fibers[i].ended) left--;
      }
    release(n);
    if (!went) {
      bool any = false;
      for (unsigned i = 0; i < n; i++) any = any || (!fibers[i].ended && fibers[i].waits == 0);
      if (!any) return 1;
    }
  }
  return 0;
}

} // namespace emulated

// emulate runs a kernel of n threads a block, one block after the other. It returns 1 if the
// threads of a block wait for each other for ever.
extern "C" int emulate(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned n, const void* p, unsigned size) {
  using namespace emulated;
  for (unsigned i = 0; i < gx * gy * gz; i++)
    if (run(f, Index{i % gx, i / gx % gy, i / gx / gy}, Index{gx, gy, gz}, n, p, size)) return 1;
  return 0;
}
