package nn_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func TestLower(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Linear(4, 2))
	nn.Freeze(net.Layers[2])
	mean := func() float32 { return locus.ToSlice[float32](nn.Buffers(net)[0].Value())[0] }
	before := mean()
	locus.Scoped(func(s *locus.Scope) {
		half := nn.Lower(s, net, locus.BFloat16)
		y := half.Forward(s.Use(locus.Rand(5, 3)).Cast(locus.BFloat16))
		if y.DType() != locus.BFloat16 {
			t.Error(y.DType())
		}
		y.Cast(locus.Float32).Square().Sum().Backward()
	})
	p := nn.Parameters(net)
	if g := p[0].Value().Grad(); g == nil || g.DType() != locus.Float32 {
		t.Error("no gradient arrived")
	}
	if p[4].Value().Grad() != nil {
		t.Error("a frozen parameter got a gradient")
	}
	if mean() == before {
		t.Error("running statistics stayed with the copy")
	}
	for name, err := range map[string]error{
		"integer": locus.Try(func() { nn.Lower(nil, net, locus.Int64) }),
		"lazy":    locus.Try(func() { nn.Lower(nil, nn.LazyLinear(2), locus.BFloat16) }),
	} {
		var e *locus.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
