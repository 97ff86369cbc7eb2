package optim

import (
	"fmt"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// TestCompiledScaler takes float16 steps with a scaler inside the compiled function.
// Some steps overflow, by the data and by the scale: they are left out on the device,
// and the scale moves as it does eagerly, also past the number of good steps after
// which it grows.
func TestCompiledScaler(t *testing.T) {
	for _, d := range testDevices() {
		for _, clip := range []bool{false, true} {
			var scalers []*Scaler
			left := 0
			f := compareTraining(t, d, func() compared {
				m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
				o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
				s := NewScaler(d)
				scalers = append(scalers, s)
				return compared{net: m, opt: o, step: func(a ...*locus.Tensor) []*locus.Tensor {
					var loss *locus.Tensor
					locus.Scoped(func(sc *locus.Scope) {
						half := nn.Lower(sc, m, locus.Float16)
						x := sc.Use(a[0]).Cast(locus.Float16)
						y := half.L2.Forward(half.L1.Forward(x).Relu()).Cast(locus.Float32)
						loss = locus.CrossEntropy(y, a[1], locus.CrossEntropyOptions{})
						grads := locus.Grad([]*locus.Tensor{s.Scale(loss)}, nn.Values(o.Params()))
						if !clip {
							s.Step(o, grads)
						} else {
							grads, ok := s.Unscale(grads)
							grads, _ = locus.ClipGlobalNorm(grads, 0.5)
							o.StepIf(ok, grads)
							s.Update(ok)
						}
						sc.Keep(loss)
					})
					return []*locus.Tensor{loss.Detach()}
				}}
			}, func(i int) []*locus.Tensor {
				b := classes(d, []int{4, 20}, 5)(i)
				if i%5 == 4 {
					b[0] = b[0].Mul(1e5) // more than float16 holds
				}
				return b
			}, 16, func(i int, c compared) {
				if i == 8 { // the next good steps make the scale grow
					for _, s := range scalers {
						if s.get(goodCell).Item() < growthSteps-2 {
							state := s.State()
							state["good"] = d.Full(growthSteps - 2)
							if err := s.SetState(state); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				if len(scalers) == 2 && i > 0 {
					if a, b := scalers[0].Value(), scalers[1].Value(); a != b {
						t.Fatalf("%s, step %d: the scale is %v, compiled %v", d, i, a, b)
					} else if a != firstScale {
						left++
					}
					same(t, fmt.Sprintf("step %d, good steps", i), scalers[0].get(goodCell), scalers[1].get(goodCell))
				}
			})
			compiledNow(t, f)
			if left == 0 {
				t.Error("no step was left out; nothing is tested")
			}
		}
	}
}

// TestCompiledAverage updates averages inside the compiled function; how much of the
// past they keep changes with each update.
func TestCompiledAverage(t *testing.T) {
	for _, d := range testDevices() {
		for _, first := range []bool{false, true} { // an update before the first step
			var averages []*Average
			f := compareTraining(t, d, func() compared {
				m := &twoLayers{nn.Linear(20, 16), nn.Linear(16, 5)}
				o := SGD(nn.Parameters(m), 0.1, SGDOptions{Momentum: 0.9})
				a := NewAverage(nn.Parameters(m), 0.4) // reached after a few updates
				if first {
					a.Update()
				}
				averages = append(averages, a)
				step := byGrad(o, m.loss)
				return compared{net: m, opt: o, step: func(args ...*locus.Tensor) []*locus.Tensor {
					out := step(args...)
					a.Update()
					return out
				}}
			}, classes(d, []int{4, 20}, 5), 12, func(i int, c compared) {
				e, a := averages[0], averages[1]
				if e.Updates() != a.Updates() {
					// between is called for both networks after both have taken a step.
					t.Fatalf("%s, step %d: %d updates, compiled %d", d, i, e.Updates(), a.Updates())
				}
				for name, v := range e.Tree() {
					same(t, fmt.Sprintf("%s, step %d, the average of %s", d, i, name), v, a.Tree()[name])
				}
			})
			compiledNow(t, f)
		}
	}
}

// A step that fails counts no update and leaves the averages as they were.
func TestCompiledAverageFails(t *testing.T) {
	m := nn.Linear(3, 2)
	a := NewAverage(nn.Parameters(m), 0.9)
	a.Update()
	fail := false
	f := locus.Compile(func(args ...*locus.Tensor) []*locus.Tensor {
		a.Update()
		if fail {
			panic("of the program's")
		}
		return []*locus.Tensor{m.Forward(args[0]).Detach()}
	})
	x := locus.Ones(1, 3)
	f.Call(x)
	before := a.Tree()["weight"]
	fail = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		f.Call(x)
	}()
	if a.Updates() != 2 || a.Tree()["weight"] != before || before.Freed() {
		t.Errorf("%d updates after a call that failed", a.Updates())
	}
	fail = false
	for range 3 {
		f.Call(x)
	}
	if a.Updates() != 5 {
		t.Errorf("%d updates; want 5", a.Updates())
	}
	compiledNow(t, f)
}
