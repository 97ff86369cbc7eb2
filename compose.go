package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/op"
)

// compositions define the ops of the fused family by other ops.
var compositions [op.NumOps]func(a op.Attrs, in []*Tensor) *Tensor

// compositionsAll do so for ops with several results.
var compositionsAll [op.NumOps]func(a op.Attrs, in []*Tensor) []*Tensor

// compose runs an op for which the device has no kernel by its composition; an
// op that has none is not supported there.
func compose(p *place, def *op.Def, attrs op.Attrs, in []*Tensor) (out *Tensor, more []*Tensor) {
	if f := compositions[def.ID]; f != nil {
		return f(attrs, in).fresh(in...), nil
	}
	if f := compositionsAll[def.ID]; f != nil {
		all := f(attrs, in)
		for _, t := range all {
			t.fresh(in...)
		}
		return all[0], all[1:]
	}
	fail(def.Name, &op.Problem{Kind: ErrUnsupported, Msg: fmt.Sprintf("%s (%s) has no kernel for it with this element type", p.device, p.backend.Info().Name),
		Fix: "cast to float32, or compute on the CPU: .To(locus.CPU())"}, in...)
	return nil, nil
}
