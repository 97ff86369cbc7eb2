package locus

import (
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

// Results of ops on images, tensors (N, C, H, W), may lie channels last: tensors have
// strides, so nobody need know. It begins where the device says that an op saves more than
// it costs to convert the op's images, and whatever can follows its operands. What cannot
// reads them as the views that they are, and has its result in order. All of it depends on
// shapes, types and strides alone, so that bits repeat.
//
// It is for LOCUS_LAYOUT=eager; without it only programs have images channels last.

// arranges reports whether results of single ops may lie channels last at p. The CPU gains
// nothing from that.
func (p *place) arranges() bool {
	if p.arranger == nil {
		return false
	}
	how := layout.Now()
	return how == layout.Always || how == layout.WherePays && !p.host
}

// arrange decides how the images of an op lie whose operands are views, and converts those
// that lie otherwise. If they lie channels last it reports true: l's call is then set up but
// for the result, and operands are what views show, those of in or copies of them; nil if
// there are no copies. Else nothing has changed.
func (p *place) arrange(l *launch, def *op.Def, attrs op.Attrs, in []*Tensor, views []backend.View, spec op.Spec, scope *Scope) (operands []*Tensor, last bool) {
	follows := layout.Follows(def.ID)
	switch {
	case !follows && !def.Images() || def.ID == op.Copy: // a copy is for those who want it in order
		return nil, false
	case follows && !layout.IsImage(spec.Shape):
		return nil, false
	}
	// gain is the bytes of images that need not be put in order less those that must be
	// turned. Of a filter either is done, by the device if not here.
	gain, tall, begins := 0, false, false
	for i := range views {
		v := &views[i]
		if len(v.Shape) != 4 || v.Shape[2] == 1 {
			continue
		}
		tall = tall || !isFilter(def, i)
		if !wanted(def, v) {
			continue
		}
		bytes := v.Elements() * v.DType.Size()
		if layout.IsLast(v.Shape, v.Strides) {
			gain, begins = gain+bytes, true
		} else if !isFilter(def, i) {
			gain -= bytes
		}
	}
	if !follows {
		l.call.Op, l.call.Attrs, l.call.In = def.ID, attrs, views
		l.call.Out = backend.View{Shape: spec.Shape, DType: spec.DType}
		can, saves := p.arranger.Arranges(&l.call)
		if !can {
			return nil, false
		}
		if gain += saves; layout.Now() == layout.Always {
			gain, saves = 0, 1
		}
		begins = begins || saves > 0
	}
	// Images of one row are often sequences, (N, C, L), to other ops, which would read them
	// with gaps.
	if !tall || !begins || gain < 0 {
		return nil, false
	}
	for i := range views {
		v := &views[i]
		if wanted(def, v) && !layout.IsLast(v.Shape, v.Strides) {
			if operands == nil {
				operands = slices.Clone(in)
			}
			operands[i] = p.channelsLast(def, in[i], v, scope)
			operands[i].viewAs(v)
		}
		if follows {
			*v = layout.Pixels(*v)
		}
	}
	return operands, true
}

// lay makes out, the new result of l's call, one that lies channels last.
func (l *launch) lay(out *Tensor) {
	c := &l.call
	if layout.IsImage(out.shape) {
		out.strides = layout.Strides(out.shape)
	}
	out.viewAs(&c.Out)
	if !layout.Follows(c.Op) {
		return
	}
	c.Out = layout.Pixels(c.Out)
	if a, ok := c.Attrs.(op.Axis); ok {
		c.Attrs = op.Axis{Axis: layout.PixelAxis(a.Axis)}
	}
}

// wanted reports whether an operand must lie channels last if the op's images do.
func wanted(def *op.Def, v *backend.View) bool {
	return !v.Const() && layout.IsImage(v.Shape) && !(def.Elementwise() && layout.Spread(v))
}

// isFilter reports whether operand i is the filter of a convolution.
func isFilter(def *op.Def, i int) bool {
	return i == 1 && (def.ID == op.Conv2D || def.ID == op.ConvAct || def.ID == op.ConvGradInput)
}

// channelsLast returns a copy of v, a view of an op's operand t, that lies channels last.
func (p *place) channelsLast(by *op.Def, t *Tensor, v *backend.View, scope *Scope) *Tensor {
	out := allocate(p, by.Name, op.Spec{DType: v.DType, Shape: v.Shape}, scope, nil)
	out.strides = layout.Strides(v.Shape)
	l := launches.Get().(*launch)
	l.in[0] = layout.Pixels(*v)
	l.call.Op, l.call.Attrs, l.call.In, l.call.Out = op.Copy, nil, l.in[:1], layout.Pixels(out.view())
	err := run(p, by, l, []*Tensor{t}, out, nil)
	l.release()
	if err != nil {
		out.Free()
		failOn(p, by.Name, err, []*Tensor{t})
	}
	return out
}

// freeCopies frees the copies of operands that arrange has made, but for that of a filter if
// a gradient will need it, which it returns.
func freeCopies(def *op.Def, operands, in []*Tensor, keep bool) (filter *Tensor) {
	for i, t := range operands {
		switch {
		case t == in[i]:
		case keep && isFilter(def, i):
			filter = t
		default:
			t.Free()
		}
	}
	return filter
}
