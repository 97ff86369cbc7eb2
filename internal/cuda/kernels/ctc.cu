// ctc_loss and its gradient: a block per sequence, whose threads share the states. State s of 2·labels+1 is a blank if s is even, else label s/2.
#include "locus.cuh"

struct Paths {
  void *out, *alpha;               // alpha (N, rows, width): written by the loss, read by its gradient
  void* room;                      // workspace of the gradient: two rows of states, their shares, and the next equal labels
  const void *x, *targets, *steps, *labels, *grad, *loss;
  Flag* flag;
  u64 time, classes, width, rows;  // rows: time, or 2 if alpha is not needed later
  i64 xs[3], ts[2], as[3];         // strides of x, the targets and alpha
  i64 stepStep, labelStep, gradStep, lossStep;
  i32 op, blank, wideTargets, wideSteps, wideLabels, saves;
};

DEV i64 whole(const void* p, i32 wide, i64 at) { return wide ? ((const i64*)p)[at] : (i64)((const i32*)p)[at]; }

// length reads a length; one out of range counts as 0 and is reported.
DEV i64 length(const Paths& p, const void* of, i32 wide, i64 at, i64 most) {
  i64 n = whole(of, wide, at);
  if (n >= 0 && n <= most) return n;
  if (threadIdx.x == 0) out_of_range(p.flag, p.op, n, most + 1);
  return 0;
}

// class_of returns the class of a state; one that is out of range is reported, and is -1.
DEV i64 class_of(const Paths& p, i64 n, i64 s) {
  if (!(s & 1)) return p.blank;
  i64 k = whole(p.targets, p.wideTargets, n * p.ts[0] + (s >> 1) * p.ts[1]);
  if (k >= 0 && k < (i64)p.classes) return k;
  out_of_range(p.flag, p.op, k, p.classes);
  return -1;
}

// over reports whether a path may go from state s-2 to state s.
DEV bool over(const Paths& p, i64 n, i64 s, i64 k) { return (s & 1) && s > 2 && k != p.blank && k != class_of(p, n, s - 2); }

template <class A> DEV A log_sum(A a, A b, A c) {
  A m = a > b ? a : b;
  m = m > c ? m : c;
  if (a != a || b != b || c != c) return a + b + c;
  if (m == A(-INF_D)) return m;
  return m + m_log(m_exp(a - m) + m_exp(b - m) + m_exp(c - m));
}

template <class T> DEV void ctc_forward(const Paths& p) {
  typedef typename Compute<T>::type A;
  const A never = A(-INF_D);
  i64 n = blockIdx.x, steps = length(p, p.steps, p.wideSteps, n * p.stepStep, p.time), labels = length(p, p.labels, p.wideLabels, n * p.labelStep, p.width / 2);
  i64 l = 2 * labels + 1;
  const T* x = (const T*)p.x + n * p.xs[0];
  A* alpha = (A*)p.alpha + n * p.rows * p.width;
  if (p.saves) {
    for (u64 i = threadIdx.x; i < p.rows * p.width; i += blockDim.x)
      if ((i64)(i / p.width) >= steps || (i64)(i % p.width) >= l) alpha[i] = never;
  }
  for (i64 t = 0; t < steps; t++) {
    A* row = alpha + t % p.rows * p.width;
    const A* last = alpha + (t + p.rows - 1) % p.rows * p.width;
    for (i64 s = threadIdx.x; s < l; s += blockDim.x) {
      i64 k = class_of(p, n, s);
      A from = never, one = never, two = never;
      if (t == 0) {
        if (s < 2) from = A(0);
      } else {
        from = last[s];
        if (s > 0) one = last[s - 1];
        if (over(p, n, s, k)) two = last[s - 2];
      }
      row[s] = k < 0 ? never : log_sum(from, one, two) + get(x[t * p.xs[1] + k * p.xs[2]]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  A loss;
  if (steps == 0) loss = labels == 0 ? A(0) : A(INF_D);
  else {
    const A* last = alpha + (steps - 1) % p.rows * p.width;
    loss = -log_sum(last[l - 1], l > 1 ? last[l - 2] : never, never);
  }
  ((A*)p.out)[n] = loss;
}

template <class T> DEV void ctc_backward(const Paths& p) {
  typedef typename Compute<T>::type A;
  __shared__ A reduced[33];
  const A never = A(-INF_D);
  i64 n = blockIdx.x, steps = length(p, p.steps, p.wideSteps, n * p.stepStep, p.time), labels = length(p, p.labels, p.wideLabels, n * p.labelStep, p.width / 2);
  i64 l = 2 * labels + 1;
  A g = ((const A*)p.grad)[n * p.gradStep], loss = ((const A*)p.loss)[n * p.lossStep];
  const T* x = (const T*)p.x + n * p.xs[0];
  const A* alpha = (const A*)p.alpha + n * p.as[0];
  T* out = (T*)p.out + n * p.time * p.classes;
  for (u64 i = threadIdx.x; i < p.time * p.classes; i += blockDim.x) put(out[i], A(0));
  if (loss == A(INF_D) || loss == never) return;
  char* room = (char*)p.room + n * p.width * 4 * sizeof(A);
  A *beta = (A*)room, *share = beta + 2 * p.width;
  // Equal labels form a chain: for each, the next one, and whether it is the first.
  i32* next = (i32*)(share + p.width); // width/2 elements, and as many of first
  i32* first = next + p.width / 2;
  for (i64 i = threadIdx.x; i < labels; i += blockDim.x) {
    i64 k = class_of(p, n, 2 * i + 1);
    i32 to = -1, begins = 1;
    for (i64 j = i + 1; j < labels && to < 0; j++)
      if (class_of(p, n, 2 * j + 1) == k) to = (i32)j;
    for (i64 j = 0; j < i && begins; j++)
      if (class_of(p, n, 2 * j + 1) == k) begins = 0;
    next[i] = to;
    first[i] = begins && k >= 0 && k != p.blank;
  }
  __syncthreads();
  for (i64 t = steps - 1; t >= 0; t--) {
    A* row = beta + (t & 1) * p.width;
    const A* last = beta + (~t & 1) * p.width;
    A blanks = A(0);
    for (i64 s = threadIdx.x; s < l; s += blockDim.x) {
      i64 k = class_of(p, n, s);
      A from = never, one = never, two = never;
      if (t == steps - 1) {
        if (s >= l - 2) from = A(0);
      } else {
        from = last[s];
        if (s + 1 < l) one = last[s + 1];
        if (s + 2 < l && over(p, n, s + 2, class_of(p, n, s + 2))) two = last[s + 2];
      }
      A rest = log_sum(from, one, two); // of the paths after t
      row[s] = k < 0 ? never : rest + get(x[t * p.xs[1] + k * p.xs[2]]);
      A v = k < 0 ? A(0) : m_exp(alpha[t * p.as[1] + s * p.as[2]] + rest + loss) * g;
      share[s] = v;
      if (k == p.blank) blanks += v;
    }
    blanks = block_reduce(blanks, A(0), reduced, [](A a, A b) { return a + b; }); // this synchronizes the block
    T* to = out + t * p.classes;
    if (threadIdx.x == 0) put(to[p.blank], -blanks);
    for (i64 i = threadIdx.x; i < labels; i += blockDim.x) {
      if (!first[i]) continue;
      A sum = A(0);
      for (i32 j = (i32)i; j >= 0; j = next[j]) sum += share[2 * j + 1];
      put(to[class_of(p, n, 2 * i + 1)], -sum);
    }
    __syncthreads();
  }
}

#define CTC(T)                                                                                            \
  KERNEL __launch_bounds__(512) ctc_loss_##T(const __grid_constant__ Paths p) { ctc_forward<T>(p); }      \
  KERNEL __launch_bounds__(512) ctc_loss_grad_##T(const __grid_constant__ Paths p) { ctc_backward<T>(p); }
FLOAT_TYPES(CTC)
