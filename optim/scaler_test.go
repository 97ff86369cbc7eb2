package optim_test

import (
	"errors"
	"math"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func TestScaler(t *testing.T) {
	net := nn.Linear(2, 1)
	p := nn.Parameters(net)
	o := optim.SGD(p, 1, optim.SGDOptions{})
	s := optim.NewScaler(locus.CPU())
	before := locus.ToSlice[float32](p[0].Value().Detach())
	// A gradient that overflows: no step, half the scale.
	s.Step(o, []*locus.Tensor{locus.Full(math.Inf(1), 1, 2), nil})
	if after := locus.ToSlice[float32](p[0].Value().Detach()); after[0] != before[0] || s.Value() != 1<<15 || o.Steps() != 1 {
		t.Error(before, after, s.Value(), o.Steps())
	}
	// One that does not: as if nothing had been scaled.
	loss := locus.Ones()
	s.Step(o, []*locus.Tensor{locus.Ones(1, 2).Mul(s.Scale(loss)), nil})
	if after := locus.ToSlice[float32](p[0].Value().Detach()); after[0] != before[0]-1 || s.Value() != 1<<15 {
		t.Error(before, after, s.Value())
	}
	// After 2000 good steps it doubles; the state goes along.
	u := optim.NewScaler(locus.CPU())
	state := s.State()
	state["good"] = locus.Full(1999)
	if err := u.SetState(state); err != nil {
		t.Fatal(err)
	}
	u.Step(o, []*locus.Tensor{locus.Zeros(1, 2), nil})
	if u.Value() != 1<<16 || u.State()["good"].Item() != 0 {
		t.Error(u.Value())
	}
	s.Step(o, []*locus.Tensor{nil, nil}) // nothing to scale
	for name, err := range map[string]error{
		"zero value": locus.Try(func() { new(optim.Scaler).Scale(loss) }), "nil loss": locus.Try(func() { s.Scale(nil) }),
		"no state": u.SetState(nil), "scale": u.SetState(map[string]*locus.Tensor{"scale": locus.Zeros(), "good": locus.Zeros()}),
		"shape":        u.SetState(map[string]*locus.Tensor{"scale": locus.Ones(2), "good": locus.Zeros()}),
		"no optimizer": locus.Try(func() { s.Step(nil, nil) }), "nil ok": locus.Try(func() { s.Update(nil) }),
	} {
		var e *locus.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if u.Value() != 1<<16 {
		t.Error("a state that was refused has changed something")
	}
}
