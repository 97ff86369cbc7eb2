package locus

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

// Results of ops on images, tensors (N, C, H, W), may lie channels last: tensors have
// strides, so nobody need know. It begins where the device says that an op saves more than
// it costs to convert the op's images, and whatever can follows its operands. What cannot
// reads them as the views that they are, and has its result in order. All of it depends on
// shapes, types and strides alone, so that bits repeat.

// arranges reports whether results of single ops may lie channels last at p. The CPU gains
// nothing from that.
func (p *place) arranges() bool {
	if p.arranger == nil {
		return false
	}
	how := layout.Now()
	return how == layout.Always || how == layout.WherePays && !p.host
}

// arrange reports whether the images of an op whose operands are the views of l lie channels
// last. Operands that lie otherwise are then copied: if there are any it returns the operands,
// without their histories, with copies in their places. It does so too for an op on images that
// has them in order, as programs do: its kernels then meet one layout and not a mixture.
func (p *place) arrange(l *launch, def *op.Def, attrs op.Attrs, in []*Tensor, spec op.Spec, scope *Scope) (last bool, operands []*Tensor) {
	views := l.in[:len(in)]
	follows := layout.Follows(def.ID)
	switch {
	case !follows && !def.Images() || def.ID == op.Copy: // a copy is for those who want it in order
		return false, nil
	case follows && !layout.IsImage(spec.Shape):
		return false, nil
	}
	// gain is the bytes of images that need not be put in order less those that must be
	// turned. Of a filter either is done, by the device if not here.
	gain, tall, some := 0, false, false
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
			gain, some = gain+bytes, true
		} else if !isFilter(def, i) {
			gain -= bytes
		}
	}
	// Images of one row are often sequences, (N, C, L), to other ops, which would read them
	// with gaps.
	if !tall {
		return false, nil
	}
	if last = some && gain >= 0; !follows {
		l.call.Op, l.call.Attrs, l.call.In = def.ID, attrs, views
		l.call.Out = backend.View{Shape: spec.Shape, DType: spec.DType}
		can, saves := p.arranger.Arranges(&l.call)
		last = can && (layout.Now() == layout.Always || (some || saves > 0) && gain+saves >= 0)
	}
	if !last && (follows || !some) {
		return false, nil
	}
	for i := range views {
		v := &views[i]
		if !wanted(def, v) || layout.IsLast(v.Shape, v.Strides) == last {
			continue
		}
		if operands == nil {
			operands = make([]*Tensor, len(in))
			for k, t := range in {
				operands[k] = t.detach()
			}
		}
		if last {
			operands[i] = p.channelsLast(def, in[i], v, scope)
		} else {
			operands[i] = apply(op.Copy, nil, operands[i])
		}
	}
	return last, operands
}

// turn makes out, the new result of l's call, and what the call reads and writes lie
// channels last.
func (l *launch) turn(out *Tensor) {
	c := &l.call
	if layout.IsImage(out.shape) {
		out.strides = layout.Strides(out.shape)
		c.Out.Strides = out.strides
	}
	if !layout.Follows(c.Op) {
		return
	}
	for i := range c.In {
		c.In[i] = layout.Pixels(c.In[i])
	}
	c.Out = layout.Pixels(c.Out)
	if a, ok := c.Attrs.(op.Axis); ok {
		c.Attrs = op.Axis{Axis: layout.PixelAxis(a.Axis)}
	}
}

// applyTurned is applyOn with copies of some operands, as arrange returns them. They are
// freed when the op has run, but for that of a filter if a gradient will need it.
func applyTurned(p *place, def *op.Def, attrs op.Attrs, in, operands []*Tensor, track, saves bool) (out *Tensor, more []*Tensor) {
	out, more = applyOn(p, def, attrs, operands, saves || track)
	var filter *Tensor
	for i, t := range operands {
		switch {
		case t.block == in[i].block:
		case track && isFilter(def, i):
			filter = t
		default:
			t.Free()
		}
	}
	if track {
		out.node = &node{def: def, attrs: attrs, inputs: in, out: out, saved: more, filter: filter}
	}
	return out, more
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
