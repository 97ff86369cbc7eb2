package cpu

import (
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// call puts a sample's operands into blocks.
func call(t testing.TB, s sample.Sample, in []sample.Tensor) *backend.Call {
	t.Helper()
	c := &backend.Call{Op: s.Op, Attrs: s.Attrs, Out: backend.View{
		Block: block(t, op.Elements(s.Out.Shape)*s.Out.DType.Size()),
		Shape: s.Out.Shape, Strides: op.Strides(s.Out.Shape), DType: s.Out.DType,
	}}
	for _, x := range in {
		v := backend.View{Bits: x.Bits, Offset: x.Offset, Shape: x.Shape, Strides: x.Strides, DType: x.DType}
		if x.Bytes != nil {
			v.Block = block(t, len(x.Bytes))
			copy(bytesOf(v.Block, 0, len(x.Bytes)), x.Bytes)
		}
		c.In = append(c.In, v)
	}
	return c
}

// Every op that the table lists has a kernel for every type it accepts, and
// each runs on its samples.
func TestEverySampleRuns(t *testing.T) {
	d := Open()
	for _, def := range op.All() {
		if def.Family == op.ViewFamily {
			continue
		}
		for _, dt := range sample.DTypes(def.ID) {
			if !d.Supports(def.ID, dt) {
				t.Errorf("no kernel for %s of %s", def, dt)
				continue
			}
			for _, s := range sample.Of(def.ID, dt) {
				if err := d.Run(call(t, s, s.Tensors())); err != nil {
					t.Errorf("%s: %v", s, err)
				}
			}
		}
	}
}
