package gemm

var (
	transformsAVX2   = transforms{lanes: 8, filters: winogradFiltersAVX2, in: winogradInAVX2, grad: winogradGradAVX2, out: winogradOutAVX2}
	transformsAVX512 = transforms{lanes: 16, filters: winogradFiltersAVX512, in: winogradInAVX512, grad: winogradGradAVX512, out: winogradOutAVX512}
)

func transformsOf(ks *kernels[float32]) *transforms {
	switch ks {
	case &avx512F32:
		return &transformsAVX512
	case &avx2F32:
		return &transformsAVX2
	}
	return genericTransforms(ks.mr)
}
