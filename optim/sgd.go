package optim

import (
	"errors"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// SGDOptions are the options of [SGD]; the zero value is plain gradient descent.
type SGDOptions struct {
	Momentum    float64
	Dampening   float64
	Nesterov    bool    // needs a momentum, and no dampening
	WeightDecay float64 // added to the gradient as decay times the parameter
}

// SGD makes stochastic gradient descent, with PyTorch's definition of momentum.
func SGD(params []nn.Entry, lr float64, o SGDOptions) *Optimizer {
	return newOptimizer(params, lr, &sgd{o})
}

type sgd struct{ SGDOptions }

func (*sgd) name() string { return "SGD" }

func (s *sgd) check() error {
	if s.Nesterov && (s.Momentum == 0 || s.Dampening != 0) {
		return errors.New("Nesterov needs a Momentum above 0 and no Dampening")
	}
	return first(atLeastZero("Momentum", s.Momentum), finite("Dampening", s.Dampening), atLeastZero("WeightDecay", s.WeightDecay))
}

func (s *sgd) slots() []string {
	if s.Momentum == 0 {
		return nil
	}
	return []string{"momentum"}
}

func (s *sgd) update(p, g *locus.Tensor, slots []*locus.Tensor, lr float64, _ int64) *locus.Tensor {
	if s.WeightDecay != 0 {
		g = g.Blend(1, p, s.WeightDecay)
	}
	if s.Momentum != 0 {
		if slots[0] == nil {
			slots[0] = g.Copy()
		} else {
			slots[0] = slots[0].Blend(s.Momentum, g, 1-s.Dampening)
		}
		if s.Nesterov {
			g = g.Blend(1, slots[0], s.Momentum)
		} else {
			g = slots[0]
		}
	}
	return descend(p, g, lr)
}
