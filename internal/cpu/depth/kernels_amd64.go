package depth

import "github.com/locusml/locus/internal/cpu/vec"

// level is what tests change.
var level = vec.CPU()

// kernelFor returns the kernel for a stride and how many elements its vectors have.
func kernelFor(stride int) (kernel func(*byte), lanes int) {
	switch {
	case level == vec.AVX512 && stride == 1:
		return stride1AVX512, 16
	case level == vec.AVX512 && stride == 2:
		return stride2AVX512, 16
	case level == vec.AVX2 && stride == 1:
		return stride1AVX2, 8
	case level == vec.AVX2 && stride == 2:
		return stride2AVX2, 8
	}
	return nil, 0
}
