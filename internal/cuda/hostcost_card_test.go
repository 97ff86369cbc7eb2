//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// TestHostCost logs what a call costs the host, and the card, for the ways in which small
// convolutions and products can be done: who chooses among them must know both.
func TestHostCost(t *testing.T) {
	x := cardRig(t, 0)
	n := dnnOf(t, x.d)
	log := func(what string, f func() error) {
		x.ok(f())
		x.ok(x.d.Synchronize())
		const turns = 50
		host, whole := time.Hour, time.Hour
		for range 8 {
			start := time.Now()
			for range turns {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}
			queued := time.Since(start)
			x.ok(x.d.Synchronize())
			host, whole = min(host, queued/turns), min(whole, time.Since(start)/turns)
		}
		t.Logf("%-64s host %6.1f µs, with the card %6.1f µs", what, float64(host)/1e3, float64(whole)/1e3)
	}
	small := x.view(dtype.Float32, []int{128, 120})
	log("add of 128x120", func() error { return x.d.Run(&backend.Call{Op: op.Add, In: []backend.View{small, small}, Out: small}) })
	for _, k := range []int{400, 4096} {
		in, w, b, out := x.view(dtype.Float32, []int{128, k}), x.view(dtype.Float32, []int{120, k}), x.view(dtype.Float32, []int{120}), x.view(dtype.Float32, []int{128, 120})
		c := &backend.Call{Op: op.Linear, Attrs: op.Epilogue{Act: op.Relu}, In: []backend.View{in, w, b}, Out: out}
		log(fmt.Sprintf("linear of 128x%d by 120 with relu", k), func() error { return x.d.Run(c) })
	}
	for _, shape := range []struct {
		name string
		x, w [4]int
		pad  int
	}{
		{"LeNet 1", [4]int{128, 1, 28, 28}, [4]int{6, 1, 5, 5}, 2},
		{"LeNet 2", [4]int{128, 6, 14, 14}, [4]int{16, 6, 5, 5}, 0},
		{"3x3 of 32, 16x16", [4]int{128, 32, 16, 16}, [4]int{32, 32, 3, 3}, 1},
		{"1x1 of 64, 14x14", [4]int{32, 64, 14, 14}, [4]int{64, 64, 1, 1}, 0},
	} {
		for _, id := range convOps {
			if id == op.ConvGradInput && shape.x[1] == 1 {
				continue // nobody asks for it
			}
			c := convCall(id, dtype.Float32, op.Conv{Stride: [2]int{1, 1}, Pad: [2]int{shape.pad, shape.pad}, Dilation: [2]int{1, 1}, Groups: 1}, shape.x, shape.w)
			for _, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
				*v = x.view(dtype.Float32, v.Shape)
			}
			_, w, y := convRoles(c)
			name := fmt.Sprintf("%s %s (%.0fM): ", shape.name, id, float64(y.Elements()*w.Elements()/w.Shape[0])/1e6)
			inside := func(f func() error) func() error {
				return func() error { return x.d.with(x.pool, id, f) }
			}
			log(name+"our own", inside(func() error { return x.d.ownConv(c) }))
			if n == nil {
				continue
			}
			p := &convPlan{}
			x.ok(inside(func() error {
				n.prepare(x.d, c, p, true)
				if len(p.choices) > 1 {
					p.choices = p.choices[:1] // of algorithms, the one that it thinks best
				}
				if p.graph == nil {
					n.addPlans(x.d, c, p)
				}
				return nil
			})())
			for _, by := range p.choices {
				log(name+"cuDNN's "+by.String(), inside(func() error { return n.queue(x.d, c, p, by) }))
			}
		}
	}
}
