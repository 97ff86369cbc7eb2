package locus

import (
	"slices"

	"github.com/locusml/locus/internal/op"
)

// GridPadding says what [GridSample] finds outside x.
type GridPadding uint8

// The paddings. The zero value is zeros.
const (
	GridZeros   GridPadding = iota // zeros
	GridBorder                     // the nearest element of the border
	GridReflect                    // what lies inside, mirrored at the border as often as it takes
)

// String returns the padding's name.
func (p GridPadding) String() string {
	return op.EnumName("GridPadding", int(p), "zeros", "border", "reflect")
}

// GridSampleOptions are the options of [GridSample]. The zero value interpolates
// linearly, with zeros outside; -1 and 1 are the outer edges of the first and the last
// element.
type GridSampleOptions struct {
	Nearest bool        // the nearest element instead of an average of its neighbors
	Padding GridPadding // what lies outside
	Corners bool        // -1 and 1 are the centers of the first and the last element: PyTorch's align_corners
}

// GridSample returns x at the places that grid names: x (N, C, H, W), grid (N, OH, OW, 2),
// result (N, C, OH, OW), or with one axis more x (N, C, D, H, W), grid (N, OD, OH, OW, 3).
// The last axis of grid has the position along the width first, then along the height (and
// the depth), from -1 to 1. Between elements it interpolates linearly, so that a
// gradient passes to the grid as well. The value at a position that is NaN is 0.
// [AffineGrid] makes a grid.
func GridSample(x, grid *Tensor, o GridSampleOptions) *Tensor {
	const name = "GridSample"
	in := []*Tensor{x, grid}
	checkOperands(name, in)
	if o.Padding > GridReflect {
		failf(name, ErrArgument, in, "there is no padding %d", o.Padding)
	}
	x.wantFloat(name)
	defer naming(name, in)
	return apply(op.GridSample, op.Grid{Nearest: o.Nearest, Padding: int(o.Padding), Corners: o.Corners}, x, grid)
}

// AffineGrid returns the places of a result of the given size after a linear map: theta
// (N, 2, 3) and a size of H, W make a grid (N, H, W, 2) for [GridSample], theta (N, 3, 4)
// and D, H, W one of (N, D, H, W, 3). The place of an element is theta·(x, y, 1), where x
// and y go from -1 to 1. corners must be what GridSample gets.
func AffineGrid(theta *Tensor, corners bool, size ...int) *Tensor {
	const name = "AffineGrid"
	in := []*Tensor{theta}
	theta.check(name)
	theta.wantFloat(name)
	d := len(size)
	if d != 2 && d != 3 {
		failf(name, ErrArgument, in, "%d sizes; want height and width, or depth, height and width", d)
	}
	if len(theta.shape) != 3 || theta.shape[1] != d || theta.shape[2] != d+1 {
		failf(name, ErrShape, in, "theta has shape %s; a size of %d axes needs (N, %d, %d)", op.ShapeString(theta.shape), d, d, d+1)
	}
	shape := append(append([]int{theta.shape[0]}, size...), d)
	for _, n := range size {
		if n < 1 {
			failf(name, ErrShape, in, "the size is %v; want positive numbers", size)
		}
	}
	fits(theta.place, name, theta.dtype, append(slices.Clone(shape), d+1), in...)
	defer naming(name, in)
	wide := theta.wide()
	places := make([]*Tensor, d+1)
	for i := range d {
		n := size[d-1-i] // the last axis comes first
		at := wide.arange(n).Cast(wide.dtype)
		switch {
		case !corners:
			at = at.Mul(2.0 / float64(n)).Add(1/float64(n) - 1)
		case n > 1:
			at = at.Mul(2.0 / float64(n-1)).Sub(1)
		default:
			at = at.Mul(0)
		}
		along := make([]int, d)
		for j := range along {
			along[j] = 1
		}
		along[d-1-i] = n
		places[i] = at.Reshape(along...).Expand(size...)
	}
	places[d] = wide.fullOf(1, size)
	points := Stack(-1, places...).reshape([]int{op.Elements(size), d + 1})
	return points.MatMul(wide.T()).reshape(shape).Cast(theta.dtype).fresh(theta)
}

// gridCorner is one of the elements around the sampled places.
type gridCorner struct {
	index  *Tensor // (N, P): where in a flattened channel; 0 where it is outside
	inside *Tensor // (N, P): whether there is such an element
	far    []bool  // for each axis, whether it is the one behind the place
}

// gridPlaces are the places that a grid names in volumes or images of a size.
type gridPlaces struct {
	weights [][2]*Tensor // for each axis the weights (N, P) of the element before and behind; nil where there are none
	slopes  []*Tensor    // for each axis the derivative (N, P) of the place by the grid's number
	corners []gridCorner
}

// placesOf finds the places. Size is that of x behind the channels.
func placesOf(a op.Grid, grid *Tensor, size []int) gridPlaces {
	d, n := len(size), grid.shape[0]
	flat := grid.wide().reshape([]int{n, op.Elements(grid.shape[1 : 1+d]), d})
	var p gridPlaces
	before := make([]*Tensor, d) // the element before each place, as a floating-point number
	for i, s := range size {
		at, slope := gridPlace(a, flat.Narrow(2, d-1-i, d-i).Squeeze(2), s)
		p.slopes = append(p.slopes, slope)
		if a.Nearest {
			before[i] = at.detach().Round()
			p.weights = append(p.weights, [2]*Tensor{})
			continue
		}
		before[i] = at.detach().Floor()
		part := at.Sub(before[i])
		p.weights = append(p.weights, [2]*Tensor{part.Neg().Add(1), part})
	}
	count := 1 << d
	if a.Nearest {
		count = 1
	}
	for k := range count {
		c := gridCorner{far: make([]bool, d)}
		for i, s := range size {
			at := before[i]
			if c.far[i] = k>>(d-1-i)&1 == 1; c.far[i] {
				at = at.Add(1)
			}
			inside := at.Ge(0).And(at.Lt(s))
			index := inside.Where(at, 0).Cast(Int64) // NaN, and what is far outside, is not an index
			if c.inside == nil {
				c.index, c.inside = index, inside
			} else {
				c.index, c.inside = c.index.Mul(s).Add(index), c.inside.And(inside)
			}
		}
		c.index = c.inside.Where(c.index, 0)
		p.corners = append(p.corners, c)
	}
	return p
}

// gridPlace returns where along an axis of the given size a grid's numbers lie, and
// the derivative.
func gridPlace(a op.Grid, g *Tensor, size int) (at, slope *Tensor) {
	scale, shift := float64(size)/2, float64(size-1)/2
	if a.Corners {
		scale = shift
	}
	at = g.Mul(scale).Add(shift)
	slope = g.fullOf(scale, []int{1}).expand(g.shape)
	last := float64(size - 1)
	if GridPadding(a.Padding) == GridReflect {
		low, span := -0.5, float64(size)
		if a.Corners {
			low, span = 0, last
		}
		if span == 0 {
			return at.Mul(0), slope.Mul(0)
		}
		off := at.detach().Sub(low)
		left := off.Lt(0)
		turns := off.Abs().Div(span).Floor()
		odd := turns.Mod(2).Eq(1)
		// |off| - turns·span, from the other end if it was turned an odd number of times.
		sign := left.Where(-1, 1).Cast(at.dtype)
		rest := at.Sub(low).Mul(sign).Sub(turns.Mul(span))
		at = odd.Where(rest.Neg().Add(span), rest).Add(low)
		slope = odd.Where(sign.Neg(), sign).Mul(slope)
	}
	if GridPadding(a.Padding) != GridZeros {
		in := at.detach().Gt(0).And(at.detach().Lt(last))
		at, slope = at.Clamp(0, last), in.Where(slope, 0)
	}
	return at, slope
}

// weight is that of a corner, without axis skip; nil means 1.
func (p gridPlaces) weight(c gridCorner, skip int) *Tensor {
	var w *Tensor
	for i, pair := range p.weights {
		at := pair[0]
		if c.far[i] {
			at = pair[1]
		}
		switch {
		case i == skip || at == nil:
		case w == nil:
			w = at
		default:
			w = w.Mul(at)
		}
	}
	return w
}

// over puts an axis for the channels into (N, P).
func over(t *Tensor, channels int) *Tensor {
	return t.Unsqueeze(1).expand([]int{t.shape[0], channels, t.shape[1]})
}

func init() {
	compositions[op.GridSample] = func(a op.Attrs, in []*Tensor) *Tensor {
		x, grid := in[0], in[1]
		n, c, d := x.shape[0], x.shape[1], len(x.shape)-2
		p := placesOf(a.(op.Grid), grid, x.shape[2:])
		flat := x.reshape([]int{n, c, op.Elements(x.shape[2:])})
		var sum *Tensor
		for _, k := range p.corners {
			y := flat.Gather(2, over(k.index, c)).wide()
			if w := p.weight(k, -1); w != nil {
				y = y.Mul(over(w, c))
			}
			y = over(k.inside, c).Where(y, 0)
			if sum == nil {
				sum = y
			} else {
				sum = sum.Add(y)
			}
		}
		return sum.Cast(x.dtype).reshape(append([]int{n, c}, grid.shape[1:1+d]...))
	}
	gradients[op.GridSample] = func(n *node, g *Tensor) []*Tensor {
		x, grid := n.inputs[0], n.inputs[1]
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			a := n.attrs.(op.Grid)
			a.Size = op.DimsOf(x.shape[2:])
			grads[0] = apply(op.GridSampleGradInput, a, g, grid)
		}
		if n.needs(1) {
			grads[1] = apply(op.GridSampleGradGrid, n.attrs, g, x, grid)
		}
		return grads
	}
	compositions[op.GridSampleGradInput] = func(a op.Attrs, in []*Tensor) *Tensor {
		g, grid := in[0], in[1]
		size := a.(op.Grid).Size.Slice()
		n, c := g.shape[0], g.shape[1]
		p := placesOf(a.(op.Grid), grid, size)
		flat := g.reshape([]int{n, c, op.Elements(g.shape[2:])}).wide()
		sum := flat.fullOf(0, []int{n, c, op.Elements(size)})
		for _, k := range p.corners {
			part := flat
			if w := p.weight(k, -1); w != nil {
				part = part.Mul(over(w, c))
			}
			sum = sum.ScatterAdd(2, over(k.index, c), over(k.inside, c).Where(part, 0))
		}
		return sum.Cast(g.dtype).reshape(append([]int{n, c}, size...))
	}
	// It is linear in the gradient, and in x it is grid_sample's transpose.
	gradients[op.GridSampleGradInput] = func(n *node, g *Tensor) []*Tensor {
		from, grid := n.inputs[0], n.inputs[1]
		a := n.attrs.(op.Grid)
		a.Size = op.Dims{}
		grads := make([]*Tensor, 2)
		if n.needs(0) {
			grads[0] = apply(op.GridSample, a, g, grid)
		}
		if n.needs(1) {
			grads[1] = apply(op.GridSampleGradGrid, a, from, g, grid)
		}
		return grads
	}
	compositions[op.GridSampleGradGrid] = func(a op.Attrs, in []*Tensor) *Tensor {
		g, x, grid := in[0], in[1], in[2]
		n, c, d := x.shape[0], x.shape[1], len(x.shape)-2
		if a.(op.Grid).Nearest {
			return grid.ZerosLike()
		}
		p := placesOf(a.(op.Grid), grid, x.shape[2:])
		places := op.Elements(grid.shape[1 : 1+d])
		flat := x.reshape([]int{n, c, op.Elements(x.shape[2:])})
		from := g.reshape([]int{n, c, places}).wide()
		sums := make([]*Tensor, d) // of the axes, the last first
		for _, k := range p.corners {
			y := k.inside.Where(flat.Gather(2, over(k.index, c)).wide().Mul(from).Sum(1), 0)
			for i := range d {
				part := y
				if w := p.weight(k, i); w != nil {
					part = part.Mul(w)
				}
				if !k.far[i] {
					part = part.Neg()
				}
				if to := &sums[d-1-i]; *to == nil {
					*to = part
				} else {
					*to = (*to).Add(part)
				}
			}
		}
		for i := range d {
			sums[i] = sums[i].Mul(p.slopes[d-1-i])
		}
		return Stack(2, sums...).Cast(grid.dtype).reshape(grid.shape)
	}
	gradients[op.GridSampleGradGrid] = throughComposition
}
