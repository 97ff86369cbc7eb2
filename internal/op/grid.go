package op

import (
	"slices"

	"github.com/locusml/locus/dtype"
)

// Grid is the attribute of GridSample and of its gradients.
type Grid struct {
	Nearest bool
	Padding int  // what lies outside: zeros, the border, or what is mirrored there
	Corners bool // -1 and 1 are the centers of the first and the last element, not their outer edges
	Size    Dims // GridSampleGradInput: the size of x behind the channels
}

// The paddings.
const (
	GridZeros = iota
	GridBorder
	GridReflect
)

// Sampling at given places. x is (N, C, H, W), the grid (N, OH, OW, 2), or with one axis
// more (N, C, D, H, W) and (N, OD, OH, OW, 3). The grid's last axis counts the axes of x
// from the last.
func init() {
	f := []dtype.Set{dtype.Floats}
	define(Def{ID: GridSample, Name: "grid_sample", Attrs: Grid{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 2, DTypes: f,
		Doc: "x (N, C, …) at the places of a grid (N, …, 2 or 3) from -1 to 1, the last axis of x first; linear between elements, or the nearest; a place that is NaN gives 0",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if err := checkGrid(a, in, in[0].Shape, in[1].Shape); err != nil {
				return Spec{}, err
			}
			x, g := in[0].Shape, in[1].Shape
			out := append(slices.Clone(x[:2]), g[1:len(g)-1]...)
			return Spec{in[0].DType, out}, CheckShape(out)
		}})
	define(Def{ID: GridSampleGradInput, Name: "grid_sample_grad_input", Attrs: Grid{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 2, DTypes: f,
		Doc: "grid_sample's transpose in x, to an x of the given size: operands gradient and grid",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			size := Dims{}
			if p, ok := a.(Grid); ok {
				size = p.Size
			}
			g, grid := in[0].Shape, in[1].Shape
			if size.N < 2 || size.N > 3 || len(g) != size.N+2 {
				return Spec{}, Problemf(ErrShape, "a gradient of shape %s for an input of size %v", ShapeString(g), size.Slice())
			}
			x := append(slices.Clone(g[:2]), size.Slice()...)
			if err := CheckShape(x); err != nil {
				return Spec{}, err
			}
			if err := checkGrid(a, in, x, grid); err != nil {
				return Spec{}, err
			}
			return Spec{in[0].DType, x}, checkSampled(g, x, grid)
		}})
	define(Def{ID: GridSampleGradGrid, Name: "grid_sample_grad_grid", Attrs: Grid{}, Family: FusedFamily, Batch: Batch{Kind: BatchFold}, Arity: 3, DTypes: f,
		Doc: "grid_sample's gradient for the grid: operands gradient, x and grid",
		Infer: func(a Attrs, in []Spec) (Spec, error) {
			if err := checkGrid(a, in, in[1].Shape, in[2].Shape); err != nil {
				return Spec{}, err
			}
			return in[2], checkSampled(in[0].Shape, in[1].Shape, in[2].Shape)
		}})
}

func checkGrid(a Attrs, in []Spec, x, grid []int) error {
	p, ok := a.(Grid)
	if !ok {
		return attrError("grid_sample", a)
	}
	if p.Padding < GridZeros || p.Padding > GridReflect {
		return Problemf(ErrArgument, "there is no padding %d", p.Padding)
	}
	if err := sameDType(in, 0); err != nil {
		return err
	}
	d := len(x) - 2
	if d != 2 && d != 3 || len(grid) != d+2 || grid[d+1] != d {
		return Problemf(ErrShape, "x has shape %s and the grid %s; want (N, C, H, W) and (N, OH, OW, 2), or (N, C, D, H, W) and (N, OD, OH, OW, 3)", ShapeString(x), ShapeString(grid))
	}
	if x[0] != grid[0] {
		return Problemf(ErrShape, "x has a batch of %d and the grid one of %d", x[0], grid[0])
	}
	if Elements(x[2:]) == 0 {
		return Problemf(ErrShape, "x of shape %s has no elements to sample", ShapeString(x))
	}
	return nil
}

func checkSampled(g, x, grid []int) error {
	if want := append(slices.Clone(x[:2]), grid[1:len(grid)-1]...); !slices.Equal(g, want) {
		return Problemf(ErrShape, "the gradient has shape %s; want %s", ShapeString(g), ShapeString(want))
	}
	return nil
}
