// The parts of factorizations that cuSOLVER leaves to the caller: symmetric parts, checks,
// and results in the form and with the signs that the op table asks for. Matrices are
// stored row by row.
#include "locus.cuh"

struct Factor {
  void* out;
  const void *a, *b, *w;
  const i32* info;
  Flag* flag;
  i64 rows, columns;          // of a, or of the vectors in a
  i64 aRow, aColumn;          // strides of the vectors in a, and in b
  i64 bRows, bRow, bColumn;
  i64 at;                     // index of the matrix in its batch; -1 if there is no batch
  i32 op, pad;
};

// Reports the pivot at which the library failed, if any.
KERNEL factor_info(const __grid_constant__ Factor p) {
  if (threadIdx.x == 0 && *p.info != 0) out_of_range(p.flag, p.op, p.at, *p.info > 0 ? *p.info : 1);
}

DEV bool finite(double x) { return x - x == 0; }

// put_finite stores x. Numbers that are not finite are reported and become 0, because
// iterations might not end with them.
template <class T> DEV void put_finite(const Factor& p, i64 i, T x) {
  if (!finite(x)) {
    out_of_range(p.flag, p.op, p.at, -1);
    x = 0;
  }
  ((T*)p.out)[i] = x;
}

// Copies a.
template <class T> DEV void checked(const Factor& p) {
  i64 n = p.rows * p.columns;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
    put_finite(p, i, ((const T*)p.a)[i]);
  }
}
KERNEL factor_checked_f32(const __grid_constant__ Factor p) { checked<float>(p); }
KERNEL factor_checked_f64(const __grid_constant__ Factor p) { checked<double>(p); }

// The same for the mean of a and its transpose.
template <class T> DEV void symmetric(const Factor& p) {
  i64 n = p.rows;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += (i64)gridDim.x * blockDim.x) {
    i64 r = i / n, c = i - r * n;
    put_finite(p, i, ((const T*)p.a)[i] / 2 + ((const T*)p.a)[c * n + r] / 2);
  }
}
KERNEL factor_symmetric_f32(const __grid_constant__ Factor p) { symmetric<float>(p); }
KERNEL factor_symmetric_f64(const __grid_constant__ Factor p) { symmetric<double>(p); }

// Writes zeros above the diagonal.
template <class T> DEV void lower(const Factor& p) {
  i64 n = p.rows;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += (i64)gridDim.x * blockDim.x) {
    i64 r = i / n;
    if (i - r * n > r) ((T*)p.out)[i] = 0;
  }
}
KERNEL factor_lower_f32(const __grid_constant__ Factor p) { lower<float>(p); }
KERNEL factor_lower_f64(const __grid_constant__ Factor p) { lower<double>(p); }

// A block per vector writes values to the first row of out, then the vectors of a, then those
// of b with the same sign. The first of the largest components of each vector of a is
// positive: see internal/op.
template <class T> DEV T size(T x) { return x < 0 ? -x : x; }
template <class T> DEV T greater_of(T x, T y) { return x < y ? y : x; }
template <class T> DEV void pack(const Factor& p) {
  __shared__ T most[256];
  __shared__ i64 first[256];
  i64 j = blockIdx.x, k = p.columns;
  const T* a = (const T*)p.a + j * p.aColumn;
  T m = 0;
  for (i64 i = threadIdx.x; i < p.rows; i += blockDim.x) m = greater_of(m, size(a[i * p.aRow]));
  most[threadIdx.x] = m;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) most[threadIdx.x] = greater_of(most[threadIdx.x], most[threadIdx.x + s]);
    __syncthreads();
  }
  T bound = most[0] * (T)(1 - 1e-3);
  i64 f = p.rows;
  for (i64 i = threadIdx.x; i < p.rows; i += blockDim.x)
    if (size(a[i * p.aRow]) >= bound) {
      f = i;
      break;
    }
  first[threadIdx.x] = f;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s && first[threadIdx.x + s] < first[threadIdx.x]) first[threadIdx.x] = first[threadIdx.x + s];
    __syncthreads();
  }
  T sign = first[0] < p.rows && a[first[0] * p.aRow] < 0 ? -1 : 1;
  T* out = (T*)p.out;
  if (threadIdx.x == 0) out[j] = ((const T*)p.w)[j];
  for (i64 i = threadIdx.x; i < p.rows; i += blockDim.x) out[(1 + i) * k + j] = sign * a[i * p.aRow];
  if (p.b == 0) return;
  const T* b = (const T*)p.b + j * p.bColumn;
  for (i64 i = threadIdx.x; i < p.bRows; i += blockDim.x) out[(1 + p.rows + i) * k + j] = sign * b[i * p.bRow];
}
KERNEL factor_pack_f32(const __grid_constant__ Factor p) { pack<float>(p); }
KERNEL factor_pack_f64(const __grid_constant__ Factor p) { pack<double>(p); }
