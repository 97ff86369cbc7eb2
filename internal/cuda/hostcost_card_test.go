//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"slices"
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
	// best returns the least time of queueing f and of f, among several.
	best := func(turns int, f func() error) (host, whole float64) {
		x.ok(f())
		x.ok(x.d.Synchronize())
		host, whole = math.Inf(1), math.Inf(1)
		for range 8 {
			start := time.Now()
			for range turns {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}
			queued := time.Since(start)
			x.ok(x.d.Synchronize())
			host, whole = min(host, queued.Seconds()*1e6/float64(turns)), min(whole, time.Since(start).Seconds()*1e6/float64(turns))
		}
		return host, whole
	}
	log := func(what string, c *backend.Call) {
		host, whole := best(50, func() error { return x.d.Run(c) })
		// In a recording the host's part is gone.
		const times = 20
		r, err := x.d.RecordCalls(slices.Repeat([]*backend.Call{c}, times), nil)
		if err != nil {
			t.Logf("%-66s host %6.1f µs, with the card %6.1f µs; not recorded: %v", what, host, whole, err)
			return
		}
		_, alone := best(5, r.Replay)
		r.Close()
		t.Logf("%-66s host %6.1f µs, with the card %6.1f µs, the card alone %6.1f µs", what, host, whole, alone/times)
	}
	small := x.view(dtype.Float32, []int{128, 120})
	log("add of 128x120", &backend.Call{Op: op.Add, In: []backend.View{small, small}, Out: small})
	for _, k := range []int{400, 4096} {
		in, w, b, out := x.view(dtype.Float32, []int{128, k}), x.view(dtype.Float32, []int{120, k}), x.view(dtype.Float32, []int{120}), x.view(dtype.Float32, []int{128, 120})
		c := &backend.Call{Op: op.Linear, Attrs: op.Epilogue{Act: op.Relu}, In: []backend.View{in, w, b}, Out: out}
		log(fmt.Sprintf("linear of 128x%d by 120 with relu", k), c)
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
			if n == nil {
				log(name+"our own", c)
				continue
			}
			k := convKeyOf(c)
			n.plans[k] = &convPlan{}
			log(name+"our own", c)
			p := &convPlan{}
			x.ok(x.d.with(x.pool, id, func() error {
				n.addAlgorithms(x.d, c, p)
				return nil
			}))
			choices := slices.Clone(p.choices[:min(1, len(p.choices))]) // of algorithms, the one that it thinks best
			x.ok(x.d.with(x.pool, id, func() error {
				p.choices = nil
				n.addPlans(x.d, c, p, tf32.Load())
				return nil
			}))
			for _, by := range append(choices, p.choices...) {
				n.plans[k] = &convPlan{x: p.x, y: p.y, w: p.w, conv: p.conv, graph: p.graph, choices: []convChoice{by}}
				log(name+"cuDNN's "+by.String(), c)
			}
		}
	}
}
