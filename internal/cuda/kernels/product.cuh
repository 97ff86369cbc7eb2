// What the kernels of matrix products share: their parameters and their epilogue.
#pragma once
#include "activation.cuh"

// Product is c = act(a·b + bias), for each matrix of a batch.
struct Product {
  const void *a, *b, *bias; // bias: one element per column, or null
  void *c, *partial;        // partial: sums [splits][batch·m·n] if k is split
  i64 m, n, k, lda, ldb, stepA, stepB;
  i64 batch, chunk; // chunk: the length along k that a split sums
  i32 splits, wideA, wideB, act;
};

enum Act { NO_ACT, RELU, GELU, GELU_TANH, SILU, SIGMOID, TANH, RELU6, HARD_SIGMOID, HARD_SWISH, MISH };

template <class A> DEV A activate(i32 act, A x) {
  switch (act) {
  case RELU: return relu(x);
  case GELU: return gelu(x);
  case GELU_TANH: return gelu_tanh(x);
  case SILU: return silu(x);
  case SIGMOID: return sigmoid(x);
  case TANH: return m_tanh(x);
  case RELU6: return relu6(x);
  case HARD_SIGMOID: return hard_sigmoid(x);
  case HARD_SWISH: return hard_swish(x);
  case MISH: return mish(x);
  }
  return x;
}

// End is the epilogue: none, or bias and activation.
template <class T, bool HAS> struct End {
  typedef typename Compute<T>::type C;
  static METHOD C bias(const Product&, i64) { return C(0); }
  template <class S> static METHOD S relu(const Product&, S v) { return v; }
  template <class S> static METHOD S done(const Product&, S v, C) { return v; }
};

template <class T> struct End<T, true> {
  typedef typename Compute<T>::type C;

  static METHOD C bias(const Product& p, i64 n) { return p.bias && n < p.n ? (C)get(((const T*)p.bias)[n]) : C(0); }

  // The two activations that are cheap enough to apply to the many results that a thread
  // of a large product holds, while nothing else can run on its multiprocessor. The others
  // are a separate pass, which is several times faster there. NaN stays NaN.
  static METHOD C relu(const Product& p, C v) {
    C least = p.act == RELU || p.act == RELU6 ? C(0) : -C(INF_D), most = p.act == RELU6 ? C(6) : C(INF_D);
    return v < least ? least : v > most ? most : v;
  }
  static METHOD C done(const Product& p, C v, C bias) { return relu(p, v + bias); }
};
