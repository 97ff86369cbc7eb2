package main

import (
	"context"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
)

// Two functions carry all communication. Each is the other one's gradient: what is the
// same on all ranks goes in as a copy, and the gradients of its uses are summed; what
// each rank has a part of comes out as a sum, whose gradient is the same for all parts.

// enter is where all ranks have the same x: nothing is sent forwards, and the ranks'
// gradients are added up backwards.
func enter(ctx context.Context, g *collective.Group, x *locus.Tensor) *locus.Tensor {
	return locus.Custom("enter",
		func(a ...*locus.Tensor) *locus.Tensor { return a[0] },
		func(_ []*locus.Tensor, _, grad *locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{sum(ctx, g, grad)}
		}, x)
}

// leave adds the ranks' parts of a sum up; backwards nothing is sent.
func leave(ctx context.Context, g *collective.Group, x *locus.Tensor) *locus.Tensor {
	return locus.Custom("leave",
		func(a ...*locus.Tensor) *locus.Tensor { return sum(ctx, g, a[0]) },
		func(_ []*locus.Tensor, _, grad *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{grad} }, x)
}

// sum panics where the group is over, as ops do; locus.Try returns the error.
func sum(ctx context.Context, g *collective.Group, x *locus.Tensor) *locus.Tensor {
	s, err := g.AllReduce(ctx, x, collective.Sum).Wait()
	if err != nil {
		panic(err)
	}
	return s
}

// Columns is a linear layer whose outputs are shared out: each rank has the rows of the
// weight (out, in), and the elements of the bias, that collective.Part returns for it.
// Its input is the same on all ranks; its result is the rank's part.
type Columns struct {
	Weight, Bias *nn.Parameter
	ctx          context.Context
	g            *collective.Group
}

// Rows is a linear layer whose inputs are shared out: each rank has some columns of the
// weight, takes the rank's part of the input, and the parts of the result are summed.
// The bias is the same on all ranks, and added once.
type Rows struct {
	Weight, Bias *nn.Parameter
	ctx          context.Context
	g            *collective.Group
}

// splitColumns takes a rank's part of a whole layer.
func splitColumns(ctx context.Context, g *collective.Group, whole *nn.LinearLayer, d locus.Device) *Columns {
	from, to := collective.Part(whole.Weight.Value().Dim(0), g.Rank(), g.Size())
	return &Columns{part(whole.Weight, 0, from, to, d), part(whole.Bias, 0, from, to, d), ctx, g}
}

// splitRows takes a rank's part of a whole layer.
func splitRows(ctx context.Context, g *collective.Group, whole *nn.LinearLayer, d locus.Device) *Rows {
	from, to := collective.Part(whole.Weight.Value().Dim(1), g.Rank(), g.Size())
	return &Rows{part(whole.Weight, 1, from, to, d), part(whole.Bias, 0, 0, whole.Bias.Value().Dim(0), d), ctx, g}
}

func part(p *nn.Parameter, axis, from, to int, d locus.Device) *nn.Parameter {
	return nn.NewParameter(p.Value().Detach().Narrow(axis, from, to).Copy().CopyTo(d))
}

// Forward maps x (…, in), the same on all ranks, to the rank's part of the outputs.
func (l *Columns) Forward(x *locus.Tensor) *locus.Tensor {
	return locus.Linear(enter(l.ctx, l.g, x), l.Weight.Value(), l.Bias.Value())
}

// Forward maps the rank's part of the inputs to all outputs, the same on all ranks.
func (l *Rows) Forward(x *locus.Tensor) *locus.Tensor {
	return leave(l.ctx, l.g, locus.Linear(x, l.Weight.Value(), nil)).Add(l.Bias.Value())
}
