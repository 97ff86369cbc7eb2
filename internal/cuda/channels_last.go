//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

var _ backend.Arranger = (*Device)(nil)

// Arranges reports which ops have kernels for images that lie channels last. The tensor cores
// need that layout: for convolutions that use them cuDNN converts the images before and after,
// unless they already lie channels last. Our own kernels for a filter per channel know both
// layouts; those for other groups, and the engines that keep a float32's digits, know one. Where
// nothing is timed, because bits must be the same everywhere, programs have those of single ops.
func (d *Device) Arranges(c *backend.Call) (can bool, saves int) {
	a, ok := c.Attrs.(op.Conv)
	if !ok {
		return op.Get(c.Op).Images() && runners[c.Op] != nil, 0
	}
	if depthwise(c) {
		return true, 0
	}
	t := c.Out.DType
	if a.Groups != 1 || t.Size() != 2 && (t != dtype.Float32 || !tf32.Load()) {
		return false, 0
	}
	lib, err := loadDNN(d.card.drv)
	if err != nil || !lib.hasGraphs(dnnEngines) {
		return false, 0
	}
	if x, w, y := convRoles(c); timing && multiplications(w, y) >= worthTiming {
		saves = (x.Elements() + y.Elements()) * t.Size()
	}
	return true, saves
}

// multiplications is how many a convolution has.
func multiplications(w, y *backend.View) int { return y.Elements() * w.Elements() / w.Shape[0] }

// lastLike reports whether a view of an image or a filter may be one whose channels are last.
func lastLike(v *backend.View) bool {
	return (v.Shape[1] == 1 || v.Strides[1] == 1) && nested(v, 1, 3, 2, 0)
}

// inPlanes reports whether a view of an image is one whose axes lie as (N, C, H, W), with gaps
// perhaps, but not within a row.
func inPlanes(v *backend.View) bool {
	return (v.Shape[3] == 1 || v.Strides[3] == 1) && nested(v, 3, 2, 1, 0)
}

// nested reports whether each axis, the innermost first, steps over all of those before it.
func nested(v *backend.View, axes ...int) bool {
	least := 1
	for _, i := range axes {
		if v.Shape[i] == 1 {
			continue
		}
		if v.Strides[i] < least {
			return false
		}
		least = v.Strides[i] * v.Shape[i]
	}
	return true
}

// known reports whether an operand of a convolution lies as cuDNN knows images. It takes any
// strides, but an engine for half precision was seen to compute something else where rows and
// columns had changed places.
func known(v *backend.View) bool { return inPlanes(v) || lastLike(v) }

// toKnown returns a call whose operands cuDNN knows, with copies of those that it does not.
// Of a small convolution there is none: this package's kernels read any strides.
func (d *Device) toKnown(c *backend.Call) (*backend.Call, error) {
	if known(&c.In[0]) && known(&c.In[1]) {
		return c, nil
	}
	if _, w, y := convRoles(c); multiplications(w, y) < worthTiming {
		return nil, nil
	}
	sorted := *c
	sorted.In = []backend.View{c.In[0], c.In[1]}
	return &sorted, d.inOrder([]*backend.View{&sorted.In[0], &sorted.In[1]}, known)
}

// channelsLast reports whether the images and filters of a convolution lie channels last.
func channelsLast(c *backend.Call) bool {
	x, w, y := convRoles(c)
	return lastLike(x) && lastLike(w) && lastLike(y) && !(x.Contiguous() && w.Contiguous() && y.Contiguous())
}

// ownConvLast is ownConv for results that may lie channels last, which its kernels do not
// make: it is here for when cuDNN fails.
func (d *Device) ownConvLast(c *backend.Call) error {
	if !c.Out.ChannelsLast() {
		return d.ownConv(c)
	}
	room, err := d.statespace(c.Out.Elements() * c.Out.DType.Size())
	if err != nil {
		return err
	}
	plain := *c
	plain.Out.Block, plain.Out.Strides = blockAt(room), op.Strides(c.Out.Shape)
	if err := d.ownConv(&plain); err != nil {
		return err
	}
	from, s, n := plain.Out, plain.Out.Strides, plain.Out.Shape
	from.Shape, from.Strides = []int{n[0], n[2], n[3], n[1]}, []int{s[0], s[2], s[3], s[1]}
	return d.copyView(&from, c.Out.Block.Addr)
}
