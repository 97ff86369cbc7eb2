package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// ConvOut is the size of one axis of a convolution's result.
func ConvOut(size, kernel, stride, pad, dilation int) int {
	return (size+2*pad-dilation*(kernel-1)-1)/stride + 1
}

// The three convolution ops are each other's gradients. Layouts: x (N, C, H, W),
// weight (O, C/groups, KH, KW), result (N, O, OH, OW).
func init() {
	f := []dtype.Set{dtype.Floats}
	define(Def{ID: Conv2D, Name: "conv2d", Attrs: Conv{}, Family: ConvFamily, Arity: 2, DTypes: f, Doc: "cross-correlation of images with a kernel",
		Infer: func(a Attrs, in []Spec) (Spec, error) { return convSpec(a.(Conv), in) }})
	define(Def{ID: ConvAct, Name: "conv2d_act", Attrs: ConvEpilogue{}, Family: FusedFamily, Batch: behindFirst(BatchFold), Arity: -1, DTypes: f,
		Doc: "act(conv2d(x, weight) + bias): optional bias (O), one number for each channel of the result; half-precision types may round before the bias and before the activation",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			c, ok := a.(ConvEpilogue)
			switch {
			case !ok:
				return Spec{}, attrError("conv2d_act", a)
			case !CanEnd(c.Act):
				return Spec{}, Problemf(ErrArgument, "cannot end with %s", c.Act)
			case len(in) != 2 && len(in) != 3:
				return Spec{}, Problemf(ErrArgument, "takes x, weight and perhaps a bias, got %d operands", len(in))
			}
			out, err := convSpec(c.Conv, in)
			if err == nil && len(in) == 3 && !slices.Equal(in[2].Shape, out.Shape[1:2]) {
				err = Problemf(ErrShape, "bias has shape %s; want one number for each of %d channels", ShapeString(in[2].Shape), out.Shape[1])
			}
			return out, err
		}})
	define(Def{ID: ConvGradInput, Name: "conv2d_grad_input", Attrs: Conv{}, Family: ConvFamily, Arity: 2, DTypes: f,
		Doc: "conv2d's transpose in x: operands gradient and weight; also the transposed convolution",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			c := a.(Conv)
			g, w := in[0].Shape, in[1].Shape
			if err := checkConv(c, in, "gradient", g, "weight", w); err != nil {
				return Spec{}, err
			}
			if g[1] != w[0] || w[0]%c.Groups != 0 {
				return Spec{}, Problemf(ErrShape, "gradient %s has %d channels, weight %s has %d output channels", ShapeString(g), g[1], ShapeString(w), w[0])
			}
			for i := range 2 {
				if o, err := convAxis(c, i, c.Size[i], w[2+i]); err != nil {
					return Spec{}, err
				} else if o != g[2+i] {
					return Spec{}, Problemf(ErrShape, "gradient %s does not fit an input of size %v with weight %s", ShapeString(g), c.Size, ShapeString(w))
				}
			}
			out := []int{g[0], w[1] * c.Groups, c.Size[0], c.Size[1]}
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
	define(Def{ID: ConvGradWeight, Name: "conv2d_grad_weight", Attrs: Conv{}, Family: ConvFamily, Arity: 2, DTypes: f,
		Doc: "conv2d's transpose in the weight: operands gradient and x",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			c := a.(Conv)
			g, x := in[0].Shape, in[1].Shape
			if err := checkConv(c, in, "gradient", g, "x", x); err != nil {
				return Spec{}, err
			}
			if g[0] != x[0] || g[1]%c.Groups != 0 || x[1]%c.Groups != 0 {
				return Spec{}, Problemf(ErrShape, "gradient %s and x %s do not fit with %d groups", ShapeString(g), ShapeString(x), c.Groups)
			}
			for i := range 2 {
				if o, err := convAxis(c, i, x[2+i], c.Size[i]); err != nil {
					return Spec{}, err
				} else if o != g[2+i] {
					return Spec{}, Problemf(ErrShape, "gradient %s does not fit x %s with a kernel of size %v", ShapeString(g), ShapeString(x), c.Size)
				}
			}
			out := []int{g[1], x[1] / c.Groups, c.Size[0], c.Size[1]}
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
}

// convSpec is conv2d's rule; in may have a bias as well.
func convSpec(c Conv, in []Spec) (Spec, error) {
	x, w := in[0].Shape, in[1].Shape
	if err := checkConv(c, in, "x", x, "weight", w); err != nil {
		return Spec{}, err
	}
	if x[1] != w[1]*c.Groups || w[0]%c.Groups != 0 {
		return Spec{}, Problemf(ErrShape, "x has %d channels and weight %s with %d groups wants %d; the output channels must be a multiple of groups", x[1], ShapeString(w), c.Groups, w[1]*c.Groups)
	}
	oh, err := convAxis(c, 0, x[2], w[2])
	if err != nil {
		return Spec{}, err
	}
	ow, err := convAxis(c, 1, x[3], w[3])
	if err != nil {
		return Spec{}, err
	}
	out := []int{x[0], w[0], oh, ow}
	return Spec{in[0].DType, out}, CheckShape(out)
}

func checkConv(c Conv, in []Spec, an string, a []int, bn string, b []int) error {
	if err := sameDType(in, 0); err != nil {
		return err
	}
	if len(a) != 4 || len(b) != 4 {
		return Problemf(ErrShape, "%s %s and %s %s must both have 4 dimensions", an, ShapeString(a), bn, ShapeString(b))
	}
	for i := range 2 {
		if c.Stride[i] < 1 || c.Dilation[i] < 1 || c.Pad[i] < 0 {
			return Problemf(ErrArgument, "stride %v and dilation %v must be positive, padding %v not negative", c.Stride, c.Dilation, c.Pad)
		}
	}
	if c.Groups < 1 {
		return Problemf(ErrArgument, "groups is %d; it must be positive", c.Groups)
	}
	return nil
}

func convAxis(c Conv, i, size, kernel int) (int, error) {
	if kernel < 1 {
		return 0, Problemf(ErrShape, "the kernel has size %d on axis %d", kernel, i)
	}
	if size+2*c.Pad[i] < c.Dilation[i]*(kernel-1)+1 {
		return 0, Problemf(ErrShape, "a kernel of size %d with dilation %d does not fit into %d elements with padding %d", kernel, c.Dilation[i], size, c.Pad[i])
	}
	return ConvOut(size, kernel, c.Stride[i], c.Pad[i], c.Dilation[i]), nil
}
