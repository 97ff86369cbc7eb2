package vec

import "math"

// Reductions keep four accumulators, which the CPU adds to in parallel and
// which also shortens the chains of roundings.

func sumGo[T float](a []T) float64 {
	var s0, s1, s2, s3 float64
	for ; len(a) >= 4; a = a[4:] {
		s0 += float64(a[0])
		s1 += float64(a[1])
		s2 += float64(a[2])
		s3 += float64(a[3])
	}
	for _, x := range a {
		s0 += float64(x)
	}
	return (s0 + s1) + (s2 + s3)
}

func dotGo[T float](a, b []T) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	for ; len(a) >= 4; a, b = a[4:], b[4:] {
		s0 += float64(a[0]) * float64(b[0])
		s1 += float64(a[1]) * float64(b[1])
		s2 += float64(a[2]) * float64(b[2])
		s3 += float64(a[3]) * float64(b[3])
	}
	for i, x := range a {
		s0 += float64(x) * float64(b[i])
	}
	return (s0 + s1) + (s2 + s3)
}

func sumSqGo[T float](a []T) float64 { return dotGo(a, a) }

func sumSumSqGo[T float](a []T) (sum, sumsq float64) { return sumGo(a), dotGo(a, a) }

func sumSqDevGo[T float](a []T, mean float64) float64 {
	var s0, s1 float64
	for ; len(a) >= 2; a = a[2:] {
		x, y := float64(a[0])-mean, float64(a[1])-mean
		s0 += x * x
		s1 += y * y
	}
	for _, v := range a {
		x := float64(v) - mean
		s0 += x * x
	}
	return s0 + s1
}

func reduceMaxGo[T float](a []T) T {
	m := T(math.Inf(-1))
	for _, x := range a {
		m = max(m, x)
	}
	return m
}

func reduceMinGo[T float](a []T) T {
	m := T(math.Inf(1))
	for _, x := range a {
		m = min(m, x)
	}
	return m
}

func sumExpSubGo[T float](a []T, m T) float64 {
	var s float64
	for _, x := range a {
		s += float64(T(math.Exp(float64(x - m))))
	}
	return s
}

func expSubGo[T float](dst, a []T, m T) float64 {
	var s float64
	for i := range dst {
		e := T(math.Exp(float64(a[i] - m)))
		dst[i] = e
		s += float64(e)
	}
	return s
}
