package optim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Ranks that each update their share, and give the others its new values, take the steps of
// one optimizer to the bit, by every rule, compiled and not, with groups; each remembers its
// share only, and together they have its state.
func TestShard(t *testing.T) {
	const ranks, steps = 3, 5
	build := func() *nn.SequentialLayer {
		return nn.Sequential(nn.Linear(4, 9, nn.WithKey(locus.NewKey(1))), nn.Linear(9, 5, nn.WithKey(locus.NewKey(2))), nn.Linear(5, 3, nn.WithKey(locus.NewKey(3))))
	}
	zero := 0.0
	for name, rule := range map[string]func(p []nn.Entry) *optim.Optimizer{
		"SGD": func(p []nn.Entry) *optim.Optimizer {
			return optim.SGD(p, 0.1, optim.SGDOptions{Momentum: 0.9, WeightDecay: 0.01})
		},
		"Adam": func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.1, optim.AdamOptions{}) },
		"RMSProp": func(p []nn.Entry) *optim.Optimizer {
			return optim.RMSProp(p, 0.1, optim.RMSPropOptions{Centered: true})
		},
		"groups": func(p []nn.Entry) *optim.Optimizer {
			return optim.AdamW(p, 0.1, optim.AdamOptions{}).WithGroups(optim.Group{Match: optim.Named("bias"), WeightDecay: &zero, LR: 0.5})
		},
	} {
		for _, compiled := range []bool{false, true} {
			what := fmt.Sprintf("%s, compiled %v", name, compiled)
			one := build()
			whole := rule(nn.Parameters(one))
			var nets []*nn.SequentialLayer
			var opts []*optim.Optimizer
			var apply []func(grads []*locus.Tensor)
			for r := range ranks {
				net := build()
				opt := rule(nn.Parameters(net)).Shard(r, ranks)
				nets, opts = append(nets, net), append(opts, opt)
				step := func(args ...*locus.Tensor) []*locus.Tensor {
					opt.StepWith(args)
					return nil
				}
				c := locus.Compile(step, nn.Cells(net)...)
				apply = append(apply, func(grads []*locus.Tensor) {
					if compiled && opt.Steps() > 0 {
						c.Call(grads...)
						return
					}
					step(grads...)
				})
			}
			owned := make([]int, ranks)
			for i, e := range whole.Params() {
				owned[opts[0].Owner(i)] += e.Value().Len()
				if opts[0].Owner(i) != opts[2].Owner(i) || whole.Owner(i) != 0 {
					t.Errorf("%s: ranks do not agree on who owns parameter %d", what, i)
				}
			}
			for step := range steps {
				var grads []*locus.Tensor
				for i, e := range whole.Params() {
					grads = append(grads, locus.CPU().Key(locus.NewKey(uint64(100*step+i))).Randn(e.Value().Shape()...))
				}
				whole.StepWith(grads)
				for r := range ranks {
					apply[r](grads)
				}
				for i := range grads {
					from := opts[0].Params()[i]
					if o := opts[0].Owner(i); o > 0 {
						from = opts[o].Params()[i]
					}
					for r := range ranks {
						if r != opts[0].Owner(i) {
							opts[r].Params()[i].Set(from.Value().Detach().Copy())
						}
					}
				}
			}
			all := map[string]*locus.Tensor{}
			for r, o := range opts {
				if o.Steps() != steps {
					t.Errorf("%s: rank %d has taken %d steps", what, r, o.Steps())
				}
				for i, e := range nn.Parameters(nets[r]) {
					if !slices.Equal(locus.ToSlice[float32](e.Value().Detach()), locus.ToSlice[float32](whole.Params()[i].Value().Detach())) {
						t.Errorf("%s: %s of rank %d differs", what, e.Name, r)
					}
				}
				for name, s := range o.State() {
					if all[name] != nil {
						t.Errorf("%s: two ranks remember %s", what, name)
					}
					all[name] = s
				}
			}
			want := whole.State()
			if len(all) != len(want) {
				t.Errorf("%s: the ranks remember %d tensors, one optimizer %d", what, len(all), len(want))
			}
			for name, s := range want {
				if all[name] == nil || !slices.Equal(locus.ToSlice[float32](all[name]), locus.ToSlice[float32](s)) {
					t.Errorf("%s: %s is not what one optimizer remembers", what, name)
				}
			}
			// With another number of ranks, from the whole state.
			net := build()
			two := rule(nn.Parameters(net)).Shard(1, 2)
			if err := two.SetState(want, steps); err != nil {
				t.Fatal(err)
			}
			if n := len(two.State()); n == 0 || n >= len(want) {
				t.Errorf("%s: one of two ranks remembers %d of %d tensors", what, n, len(want))
			}
			if n := len(two.Shard(0, 2).State()); n != 0 {
				t.Errorf("%s: %d tensors of another share are left", what, n)
			}
		}
	}
	for _, f := range []func(o *optim.Optimizer){func(o *optim.Optimizer) { o.Shard(2, 2) }, func(o *optim.Optimizer) { o.Shard(0, 0) }, func(o *optim.Optimizer) { o.Shard(-1, 2) }} {
		if err := locus.Try(func() { f(optim.SGD(nn.Parameters(build()), 0.1, optim.SGDOptions{})) }); !errors.Is(err, locus.ErrArgument) {
			t.Error(err)
		}
	}
	if err := locus.Try(func() { optim.SGD(nn.Parameters(build()), 0.1, optim.SGDOptions{}).Owner(99) }); !errors.Is(err, locus.ErrIndex) {
		t.Error(err)
	}
	if err := locus.Try(func() { optim.SGD(nn.Parameters(nn.LazyLinear(2)), 0.1, optim.SGDOptions{}).Shard(0, 2) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}
