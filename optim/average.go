package optim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/trace"
	"github.com/locusml/locus/nn"
)

// Average keeps moving averages of parameters (Polyak and Juditsky, 1992), which
// often do better than the parameters themselves:
//
//	average := optim.NewAverage(params, 0.999)
//	for … {
//		opt.Step()
//		average.Update()
//	}
//	y := nn.Apply(net, nn.TreeOf(net).With(average.Tree()), x)
//
// They live on the devices of the parameters. Update may be part of a compiled
// function. An average must not be used from several goroutines at the same time.
type Average struct {
	params []nn.Entry
	decay  float64
	values []*locus.Tensor // nil before the first update
	count  int64
}

// NewAverage makes averages of which each update keeps the fraction decay. The first
// updates count more, so that the values from the start of training are soon
// forgotten: update n keeps at most (1+n)/(10+n).
func NewAverage(params []nn.Entry, decay float64) *Average {
	check("NewAverage", belowOne("the decay", decay))
	a := &Average{slices.Clone(params), decay, make([]*locus.Tensor, len(params)), 0}
	seen := map[string]bool{}
	for _, e := range a.params {
		e.Value() // a zero value is an error
		if seen[e.Name] {
			fail(locus.ErrArgument, "optim.NewAverage", "two parameters are called "+e.Name, "make an average for each network")
		}
		seen[e.Name] = true
	}
	return a
}

// ready panics unless a was made by NewAverage.
func (a *Average) ready() *Average {
	if a == nil || a.values == nil {
		fail(locus.ErrArgument, "optim.Average", "the average is nil or a zero value", "make it with optim.NewAverage")
	}
	return a
}

// Update takes the present values into the averages. Nothing waits.
func (a *Average) Update() {
	a.ready()
	for _, e := range a.params {
		if e.Value() == nil {
			fail(locus.ErrArgument, "optim.Average.Update", e.Name+" has no value yet", "run Forward once first")
		}
	}
	if trace.Current() != nil {
		defer a.enter()()
	}
	locus.NoGrad(a.update)
	a.count++
}

// keep returns the part that the update after n others keeps of the averages.
func (a *Average) keep(n int64) float64 {
	return min(a.decay, float64(1+n)/float64(10+n))
}

// update takes the present values in: one launch for all averages of a type, which are
// overwritten.
func (a *Average) update() {
	var at []int
	var old, values, moved []*locus.Tensor
	for i, e := range a.params {
		value, was := e.Value().Detach(), a.get(i)
		if was == nil {
			a.set(i, value.Copy())
			continue
		}
		// The network may have moved, or been converted, since the last time.
		here := was.To(value.Device()).Cast(value.DType())
		if here != was {
			moved = append(moved, was)
		}
		at, old, values = append(at, i), append(old, here), append(values, value)
	}
	if len(at) == 0 {
		return
	}
	var next []*locus.Tensor
	a.late(func() { next = locus.AverageAll(old, values, a.keep(a.count)) })
	for k, i := range at {
		a.set(i, next[k])
	}
	for _, t := range moved {
		t.Free()
	}
}

// Updates is the number of updates.
func (a *Average) Updates() int64 { return a.ready().count }

// Tree returns the averages by the parameters' names; it is empty before the first
// update. The next one frees them: copy what is to be kept.
func (a *Average) Tree() nn.Tree {
	t := nn.Tree{}
	for i, e := range a.ready().params {
		if v := a.get(i); v != nil {
			t[e.Name] = v
		}
	}
	return t
}

// Apply sets the network's parameters to copies of the averages.
func (a *Average) Apply() {
	for i, e := range a.ready().params {
		if v := a.get(i); v != nil {
			e.Set(v.Copy())
		}
	}
}

// SetState restores what [Average.Tree] and [Average.Updates] returned. The
// tensors are copied to where the parameters are. A tree that does not fit is an
// error, and then nothing is changed.
func (a *Average) SetState(tree nn.Tree, updates int64) error {
	const op = "optim.Average.SetState"
	values := make([]*locus.Tensor, len(a.ready().params))
	err := locus.Try(func() {
		unknown := maps.Clone(tree)
		for i, e := range a.params {
			t, ok := tree[e.Name]
			if !ok {
				if len(tree) > 0 {
					fail(locus.ErrArgument, op, "the tree lacks "+e.Name, "")
				}
				continue
			}
			delete(unknown, e.Name)
			checkTensor(op, "", e.Name, t)
			v := e.Value()
			if v == nil || !gate.SameShape(v, t) || v.DType() != t.DType() {
				fail(locus.ErrShape, op, fmt.Sprintf("%s is %s %v in the tree", e.Name, t.DType(), t.Shape()), "")
			}
			c := t.Detach().CopyTo(v.Device())
			if s := c.Scope(); s != nil {
				s.Keep(c)
			}
			values[i] = c
		}
		if len(unknown) > 0 || updates < 0 {
			fail(locus.ErrArgument, op, fmt.Sprintf("the tree has %d tensors of other parameters, and there were %d updates; want no such tensors, and at least 0 updates", len(unknown), updates), "")
		}
	})
	if err != nil {
		return err
	}
	a.values, a.count = values, updates
	return nil
}
