// What the kernels of normalization share.
#pragma once
#include "arrive.cuh"
#include "rounding.cuh"

// keep stores the statistics that are asked for of a row of len elements; m2 is the sum of
// squared differences from the mean.
template <class T, class P> DEV void keep(const P& p, u64 row, u64 len, typename Compute<T>::type mean, typename Compute<T>::type rstd, typename Compute<T>::type m2) {
  typedef typename Compute<T>::type A;
  if (p.mean) ((A*)p.mean)[row] = mean;
  if (p.rstd) ((A*)p.rstd)[row] = rstd;
  if (!p.var) return;
  A var = m2 / ((A)len - A(1));
  if (p.old_mean) { // may be in the same memory as the results
    A stay = (A)(1 - p.momentum), move = (A)p.momentum;
    mean = blend(stay, ((const A*)p.old_mean)[(i64)row * p.old_steps[0]], move, mean);
    var = blend(stay, ((const A*)p.old_var)[(i64)row * p.old_steps[1]], move, var);
  }
  ((A*)p.batch_mean)[row] = mean;
  ((A*)p.var)[row] = var;
}
