// Activations, as unary ops and in the epilogues of products: see internal/op/unary.go
// for what each computes.
#pragma once
#include "locus.cuh"

template <class A> DEV A relu(A x) { return x > A(0) || x != x ? x : A(0); }
template <class A> DEV A relu6(A x) { return x < A(0) ? A(0) : x > A(6) ? A(6) : x; }
template <class A> DEV A hard_sigmoid(A x) { return relu6(x + A(3)) * A(1.0 / 6); }
template <class A> DEV A hard_swish(A x) { return x * hard_sigmoid(x); }
// tanh(log(1+eˣ)) is n/(n+2), with n = eˣ(eˣ+2), and 1 from 20 on.
template <class A> DEV A mish(A x) {
  A e = m_exp(x > A(20) ? A(20) : x), n = e * (e + A(2));
  return x * (n / (n + A(2)));
}
template <class A> DEV A sigmoid(A x) { return A(1) / (A(1) + m_exp(-x)); }
template <class A> DEV A silu(A x) { return x / (A(1) + m_exp(-x)); }
template <class A> DEV A gelu(A x) { return A(0.5) * x * (A(1) + m_erf(x * A(0.70710678118654752440))); }
template <class A> DEV A gelu_tanh(A x) {
  return A(0.5) * x * (A(1) + m_tanh(A(0.79788456080286535588) * (x + A(0.044715) * x * x * x)));
}
