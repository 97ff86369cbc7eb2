package locus

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/internal/trace"
)

// Work of other packages that is part of a compiled function: collectives.

func init() {
	lend.Begin = func(name string, w program.Work, x any, reads bool, d DType, shape []int) any {
		t := x.(*Tensor)
		p := t.place.root().now()
		made := allocate(p, name, op.Spec{DType: d, Shape: shape}, nil, nil)
		if err := p.backend.(*trace.Recorder).Begin(w, read(t, reads), made.view()); err != nil {
			fail(name, err, t)
		}
		return made
	}
	lend.Await = func(name string, w program.Work, x any, reads bool, made any) any {
		t, m := x.(*Tensor), made.(*Tensor)
		out := allocate(m.place, name, m.spec(), nil, nil)
		if err := m.place.backend.(*trace.Recorder).Await(w, read(t, reads), m.view(), out.view()); err != nil {
			fail(name, err, t)
		}
		return out
	}
	lend.View = func(on backend.Device, v *backend.View) any {
		return &Tensor{shape: v.Shape, strides: v.Strides, offset: v.Offset, dtype: v.DType, place: placeOf(on), block: v.Block}
	}
	lend.CopyInto = func(name string, to, from any) {
		dst, src := to.(*Tensor), from.(*Tensor)
		if dst.Len() == 0 {
			return
		}
		src.hold(name)
		defer src.letGo()
		c := backend.Call{Op: op.Copy, In: []backend.View{src.view()}, Out: dst.view()}
		if err := backend.Queue(dst.place.backend, &c); err != nil {
			failOn(dst.place, name, err, []*Tensor{src})
		}
	}
}

func read(t *Tensor, reads bool) *backend.View {
	if !reads {
		return nil
	}
	v := t.view()
	return &v
}
