package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// PoolOut is the size of one axis of a pooling op's result. With ceil, a last
// window that starts inside the padded input counts although it sticks out.
func PoolOut(size, kernel, stride, pad, dilation int, ceil bool) int {
	span := size + 2*pad - dilation*(kernel-1) - 1
	if !ceil {
		return span/stride + 1
	}
	out := (span+stride-1)/stride + 1
	if (out-1)*stride >= size+pad {
		out--
	}
	return out
}

func init() {
	pooled := func(name string, p Pool, x []int) ([]int, error) {
		if err := wantRank(name, Spec{Shape: x}, 0, 4); err != nil {
			return nil, err
		}
		out := slices.Clone(x)
		for i := range 2 {
			k, s, d, pad := p.Kernel[i], p.Stride[i], p.Dilation[i], p.Pad[i]
			if k < 1 || s < 1 || d < 1 || pad < 0 || pad > k/2 {
				return nil, Problemf(ErrArgument, "kernel %v, stride %v and dilation %v must be positive, padding %v between 0 and half the kernel", p.Kernel, p.Stride, p.Dilation, p.Pad)
			}
			if x[2+i]+2*pad < d*(k-1)+1 {
				return nil, Problemf(ErrShape, "a window of size %d with dilation %d does not fit into %d elements with padding %d", k, d, x[2+i], pad)
			}
			out[2+i] = PoolOut(x[2+i], k, s, pad, d, p.CeilMode)
		}
		return out, nil
	}
	rule := func(name string, out dtype.DType) func(Attrs, []Spec) (Spec, error) {
		return func(a Attrs, in []Spec) (Spec, error) {
			s, err := pooled(name, a.(Pool), in[0].Shape)
			d := out
			if d == dtype.Invalid {
				d = in[0].DType
			}
			return Spec{d, s}, err
		}
	}
	n, f := []dtype.Set{dtype.Numbers}, []dtype.Set{dtype.Floats}
	define(Def{ID: MaxPoolIndices, Name: "max_pool_indices", Attrs: Pool{}, Family: PoolFamily, Arity: 1, DTypes: n, Infer: rule("max_pool_indices", dtype.Int64),
		Doc: "for each window of (N, C, H, W) the position h·W+w of its first largest element; a NaN counts as largest; int64"})
	define(Def{ID: MaxPool, Name: "max_pool", Attrs: Pool{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 1, DTypes: n, Infer: rule("max_pool", dtype.Invalid),
		Doc: "the largest element of each window of (N, C, H, W); NaN if one is NaN"})
	define(Def{ID: MaxPoolGrad, Name: "max_pool_grad", Attrs: Pool{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 2, DTypes: f,
		Doc: "max_pool's transpose: operands gradient and x; each gradient goes to its window's first largest element",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if err := sameDType(in, 0); err != nil {
				return Spec{}, err
			}
			s, err := pooled("max_pool_grad", a.(Pool), in[1].Shape)
			if err == nil && !slices.Equal(s, in[0].Shape) {
				err = Problemf(ErrShape, "gradient %s does not fit x %s", ShapeString(in[0].Shape), ShapeString(in[1].Shape))
			}
			return in[1], err
		}})
	define(Def{ID: AvgPool, Name: "avg_pool", Attrs: Pool{}, Family: PoolFamily, Arity: 1, DTypes: f, Infer: rule("avg_pool", dtype.Invalid),
		Doc: "the mean of each window of (N, C, H, W), padding counted as zeros only with CountPad"})
	define(Def{ID: AvgPoolGrad, Name: "avg_pool_grad", Attrs: Pool{}, Family: PoolFamily, Arity: 1, DTypes: f,
		Doc: "avg_pool's transpose, to an input of the given size",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			p := a.(Pool)
			if err := wantRank("avg_pool_grad", in[0], 0, 4); err != nil {
				return Spec{}, err
			}
			out := []int{in[0].Shape[0], in[0].Shape[1], p.Size[0], p.Size[1]}
			s, err := pooled("avg_pool_grad", p, out)
			if err == nil && !slices.Equal(s, in[0].Shape) {
				err = Problemf(ErrShape, "gradient %s does not fit an input of size %v", ShapeString(in[0].Shape), p.Size)
			}
			return Spec{in[0].DType, out}, err
		}})
}
