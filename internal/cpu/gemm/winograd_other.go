//go:build !amd64 && !arm64

package gemm

func transformsOf(ks *kernels[float32]) *transforms { return genericTransforms(ks.mr) }
