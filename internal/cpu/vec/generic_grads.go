package vec

func reluGradGo[T float](dst, a, b []T) {
	for i := range dst {
		var x T
		if b[i] > 0 {
			x = a[i]
		}
		dst[i] = x
	}
}

func sigmoidGradGo[T float](dst, a, b []T) {
	for i := range dst {
		s := T(T(1-b[i]) * b[i])
		dst[i] = a[i] * s
	}
}

func tanhGradGo[T float](dst, a, b []T) {
	for i := range dst {
		s := T(b[i] * b[i])
		dst[i] = a[i] * T(1-s)
	}
}
