// Gradients of activations: of g, the gradient of the result, and of the result y or the
// operand x, whichever is enough. See internal/op/binary.go for what each computes.
#pragma once
#include "locus.cuh"

template <class A> DEV A relu_grad(A g, A y) { return y > A(0) ? g : A(0); }
template <class A> DEV A relu6_grad(A g, A y) { return y > A(0) && y < A(6) ? g : A(0); }
template <class A> DEV A sigmoid_grad(A g, A y) { return g * y * (A(1) - y); }
template <class A> DEV A tanh_grad(A g, A y) { return g * (A(1) - y * y); }

template <class A> DEV A gelu_grad(A g, A x) {
  A cdf = A(0.5) * m_erfc(x * A(-0.70710678118654752440));
  return g * (cdf + x * A(0.39894228040143267794) * m_exp(A(-0.5) * x * x));
}

template <class A> DEV A gelu_tanh_grad(A g, A x) {
  const A k = A(0.79788456080286535588);
  if (sizeof(A) == 4 && m_fabs(x) > A(100) && m_fabs(x) < A(INF_D)) return x > A(0) ? g : g * A(0); // before x³ overflows
  A t = m_tanh(k * (x + A(0.044715) * x * x * x));
  return g * (A(0.5) * (A(1) + t) + A(0.5) * x * (A(1) - t * t) * k * (A(1) + A(3 * 0.044715) * x * x));
}

template <class A> DEV A silu_grad(A g, A x) {
  A h = m_exp(A(-0.5) * m_fabs(x)), e = h * h, d = A(1) / (A(1) + e); // e·d and d: the sigmoids of -|x| and |x|
  return x > A(0) ? g * d * (A(1) + x * (e * d)) : g * d * (A(1) + x * d) * h * h; // h twice, because e may underflow
}

template <class A> DEV A mish_grad(A g, A x) {
  A c = x > A(20) ? A(20) : x, e = m_exp(c), n = e * (e + A(2)), d = A(1) / (n + A(2));
  return e == A(0) ? g * A(0) : g * ((n + A(4) * c * e * (A(1) + e) * d) * d);
}
