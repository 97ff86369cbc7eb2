package optim

import (
	"math"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/nn"
)

// AdamOptions are the options of [Adam] and [AdamW]; zero values mean 0.9, 0.999,
// 1e-8 and no weight decay (0.01 for AdamW).
type AdamOptions struct {
	Beta1, Beta2, Eps float64
	WeightDecay       float64
}

// Adam makes Adam (Kingma and Ba, 2015). Weight decay is added to the gradient.
func Adam(params []nn.Entry, lr float64, o AdamOptions) *Optimizer {
	o.Beta1, o.Beta2, o.Eps = or(o.Beta1, 0.9), or(o.Beta2, 0.999), or(o.Eps, 1e-8)
	return newOptimizer(params, lr, &adam{o, false})
}

// AdamW makes Adam with weight decay apart from the gradient (Loshchilov and
// Hutter, 2019).
func AdamW(params []nn.Entry, lr float64, o AdamOptions) *Optimizer {
	o.Beta1, o.Beta2, o.Eps = or(o.Beta1, 0.9), or(o.Beta2, 0.999), or(o.Eps, 1e-8)
	o.WeightDecay = or(o.WeightDecay, 0.01)
	return newOptimizer(params, lr, &adam{o, true})
}

func or(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}

type adam struct {
	AdamOptions
	apart bool
}

func (a *adam) name() string {
	if a.apart {
		return "AdamW"
	}
	return "Adam"
}
func (*adam) slots() []string { return []string{"mean", "square"} }

func (a *adam) check() error {
	return first(belowOne("Beta1", a.Beta1), belowOne("Beta2", a.Beta2), atLeastZero("Eps", a.Eps), atLeastZero("WeightDecay", a.WeightDecay))
}

func (a *adam) update(p, g *locus.Tensor, slots []*locus.Tensor, lr float64, step int64) *locus.Tensor {
	if !a.apart && a.WeightDecay != 0 {
		g = g.Blend(1, p, a.WeightDecay)
	}
	slots[0] = average(slots[0], g, a.Beta1)
	slots[1] = averageSquare(slots[1], g, a.Beta2)
	return adamStep(p, slots[0], slots[1], lr, step, a.scales)
}

// scales returns the numbers of a step.
func (a *adam) scales(lr float64, step int64) op.Adam {
	keep := 1.0
	if a.apart {
		keep = 1 - lr*a.WeightDecay
	}
	// Averages start at 0; the corrections undo that.
	c1 := 1 - math.Pow(a.Beta1, float64(step))
	c2 := math.Sqrt(1 - math.Pow(a.Beta2, float64(step)))
	return op.Adam{Keep: keep, Rate: lr / c1, Root: 1 / c2, Eps: a.Eps}
}

// average returns β·old + (1-β)·new; nil counts as zeros.
func average(old, new *locus.Tensor, beta float64) *locus.Tensor {
	if old == nil {
		return new.Mul(1 - beta)
	}
	return old.Blend(beta, new, 1-beta)
}

// averageSquare returns β·old + (1-β)·new²; nil counts as zeros.
func averageSquare(old, new *locus.Tensor, beta float64) *locus.Tensor {
	if old == nil {
		return new.Square().Mul(1 - beta)
	}
	return old.BlendSquare(beta, new, 1-beta)
}

// RMSPropOptions are the options of [RMSProp]; zero values mean 0.99, 1e-8.
type RMSPropOptions struct {
	Alpha, Eps            float64
	Momentum, WeightDecay float64
	Centered              bool
}

// RMSProp makes RMSProp, with PyTorch's definition.
func RMSProp(params []nn.Entry, lr float64, o RMSPropOptions) *Optimizer {
	o.Alpha, o.Eps = or(o.Alpha, 0.99), or(o.Eps, 1e-8)
	return newOptimizer(params, lr, &rmsprop{o})
}

type rmsprop struct{ RMSPropOptions }

func (*rmsprop) name() string { return "RMSProp" }

func (r *rmsprop) check() error {
	return first(belowOne("Alpha", r.Alpha), atLeastZero("Eps", r.Eps), atLeastZero("Momentum", r.Momentum), atLeastZero("WeightDecay", r.WeightDecay))
}

func (r *rmsprop) slots() []string {
	l := []string{"square"}
	if r.Centered {
		l = append(l, "mean")
	}
	if r.Momentum != 0 {
		l = append(l, "momentum")
	}
	return l
}

func (r *rmsprop) update(p, g *locus.Tensor, slots []*locus.Tensor, lr float64, step int64) *locus.Tensor {
	if r.WeightDecay != 0 {
		g = g.Blend(1, p, r.WeightDecay)
	}
	slots[0] = averageSquare(slots[0], g, r.Alpha)
	v := slots[0]
	if r.Centered {
		slots[1] = average(slots[1], g, r.Alpha)
		v = v.Sub(slots[1].Square())
	}
	d := g.Div(v.Sqrt().Add(r.Eps))
	if r.Momentum != 0 {
		k := len(slots) - 1
		if slots[k] != nil {
			d = slots[k].Blend(r.Momentum, d, 1)
		}
		slots[k] = d
	}
	return descend(p, d, lr)
}

// AdagradOptions are the options of [Adagrad]; a zero Eps means 1e-10.
type AdagradOptions struct{ LRDecay, InitialAccumulator, Eps, WeightDecay float64 }

// Adagrad makes Adagrad (Duchi et al., 2011).
func Adagrad(params []nn.Entry, lr float64, o AdagradOptions) *Optimizer {
	o.Eps = or(o.Eps, 1e-10)
	return newOptimizer(params, lr, &adagrad{o})
}

type adagrad struct{ AdagradOptions }

func (*adagrad) name() string    { return "Adagrad" }
func (*adagrad) slots() []string { return []string{"sum"} }

func (a *adagrad) check() error {
	return first(atLeastZero("LRDecay", a.LRDecay), atLeastZero("InitialAccumulator", a.InitialAccumulator), atLeastZero("Eps", a.Eps), atLeastZero("WeightDecay", a.WeightDecay))
}

func (a *adagrad) update(p, g *locus.Tensor, slots []*locus.Tensor, lr float64, step int64) *locus.Tensor {
	if a.WeightDecay != 0 {
		g = g.Blend(1, p, a.WeightDecay)
	}
	if slots[0] == nil {
		slots[0] = g.Square().Add(a.InitialAccumulator)
	} else {
		slots[0] = slots[0].BlendSquare(1, g, 1)
	}
	return adamStep(p, g, slots[0], lr, step, func(lr float64, step int64) op.Adam {
		return op.Adam{Keep: 1, Rate: lr / (1 + float64(step-1)*a.LRDecay), Root: 1, Eps: a.Eps}
	})
}
