package nn

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// Peers are the replicas of a network that see the other parts of a batch, each on a
// goroutine or in a program of its own. All of them call the methods in the same order with
// tensors of the same shape, so they compute the same network, in training, on parts that are
// not empty. Results are on x's device; a failure is a panic. A group of ranks is one:
// see collective.Group.Peers.
type Peers interface {
	// Sum returns the sum of all replicas' x.
	Sum(x *locus.Tensor) *locus.Tensor
	// Gather returns all replicas' x, (replicas, …), in the same order on each.
	Gather(x *locus.Tensor) *locus.Tensor
}

// SyncBatchNorm makes the batch normalization layers of a network use, in training, the
// statistics of the whole batch, which it shares with its peers; nil peers make them layers
// of their own again. It returns m.
//
// Mean and variance weight each replica's part by its size, and gradients flow through them to
// all parts. A replica's loss must be its share of the batch's loss, such as the mean over its
// part times the part's share of the examples: then the sum of the replicas' gradients is the
// gradient of one network on the whole batch. A replica that [CopyTo] makes has no peers.
// In a compiled function the exchanges are part of the program, if those of the peers can be:
// a group's can.
func SyncBatchNorm[M any](m M, p Peers) M {
	eachLayer(m, func(_ string, l any) {
		if b, ok := l.(*BatchNormLayer); ok {
			if b.peers.Store(nil); p != nil {
				b.peers.Store(&p)
			}
		}
	})
	return m
}

// synced normalizes x with the statistics of all peers' parts, and in training updates the
// running ones.
func (l *BatchNormLayer) synced(p Peers, x, w, b *locus.Tensor) *locus.Tensor {
	const op = "nn.BatchNorm"
	if x.Rank() < 2 || x.Dim(1) != w.Dim(0) {
		panic(&locus.Error{Kind: locus.ErrShape, Op: op, Operands: []locus.Operand{{Shape: x.Shape(), DType: x.DType(), Device: x.Device()}},
			Msg: "the input must be (N, C, …) with the layer's number of channels"})
	}
	wide := x.DType()
	if wide != locus.Float64 {
		wide = locus.Float32
	}
	c, z := x.Dim(1), x.Cast(wide)
	s := statistics(p, z)
	mean, variance := s.Narrow(0, 0, c), s.Narrow(0, c, 2*c)
	updateBoth(op, l.RunningMean, l.RunningVar, func(oldMean, oldVar *locus.Tensor) (newMean, newVar *locus.Tensor) {
		locus.NoGrad(func() {
			n := s.Detach().Narrow(0, 2*c, 2*c+1)
			unbiased := variance.Detach().Mul(n.Div(n.Sub(1).Maximum(1)))
			newMean = oldMean.Detach().Blend(1-l.Momentum, mean.Detach().Cast(oldMean.DType()), l.Momentum)
			newVar = oldVar.Detach().Blend(1-l.Momentum, unbiased.Cast(oldVar.DType()), l.Momentum)
		})
		return newMean, newVar
	})
	return locus.BatchNormWith(z, mean, variance, w.Cast(wide), b.Cast(wide), l.Eps).Cast(x.DType())
}

// statistics returns mean and variance of the C channels of all peers' x, and the number of
// elements that a channel has: 2·C+1 numbers. The gradient of a mean or a variance is the
// sum of what all peers make of it.
func statistics(p Peers, x *locus.Tensor) *locus.Tensor {
	c := x.Dim(1)
	channels := make([]int, x.Rank()) // the shape in which a number per channel meets x
	var axes []int
	for i := range channels {
		if channels[i] = 1; i == 1 {
			channels[i] = c
		} else {
			axes = append(axes, i)
		}
	}
	return locus.Custom("nn.SyncBatchNorm", func(args ...*locus.Tensor) *locus.Tensor {
		x := args[0]
		mean := x.Mean(axes...)
		square := x.Sub(mean.Reshape(channels...)).Square().Sum(axes...)
		n := beside(x, x.Device().As(x.DType()).Full(float64(x.Len()/c), 1))
		return merged(beside(x, p.Gather(locus.Concat(0, mean, square, n))), c)
	}, func(args []*locus.Tensor, result, g *locus.Tensor) []*locus.Tensor {
		x := args[0]
		all := total(p, g.Narrow(0, 0, 2*c)).Div(result.Detach().Narrow(0, 2*c, 2*c+1))
		ofMean, ofVariance := all.Narrow(0, 0, c).Reshape(channels...), all.Narrow(0, c, 2*c).Reshape(channels...)
		return []*locus.Tensor{x.Sub(result.Narrow(0, 0, c).Reshape(channels...)).Mul(ofVariance.Mul(2)).Add(ofMean)}
	}, x)
}

// merged returns mean, variance and number of elements of all parts, of which each row has the
// mean, the sum of squared distances from it, and the number. Distances from a mean near by
// do not cancel as sums of squares would (Chan, Golub and LeVeque, 1979).
func merged(rows *locus.Tensor, c int) *locus.Tensor {
	means, squares, counts := rows.Narrow(1, 0, c), rows.Narrow(1, c, 2*c), rows.Narrow(1, 2*c, 2*c+1)
	n := counts.Sum(0)
	mean := means.Mul(counts.Div(n)).Sum(0)
	square := squares.Add(means.Sub(mean).Square().Mul(counts)).Sum(0)
	return locus.Concat(0, mean, square.Div(n), n)
}

// total is Sum with a gradient: what one peer passes in is part of the sum of each.
func total(p Peers, x *locus.Tensor) *locus.Tensor {
	return locus.Custom("nn.SyncBatchNorm", func(args ...*locus.Tensor) *locus.Tensor {
		return beside(args[0], p.Sum(args[0]))
	}, func(_ []*locus.Tensor, _, g *locus.Tensor) []*locus.Tensor {
		return []*locus.Tensor{total(p, g)}
	}, x)
}

// peersKey is the key under which a layer's peers are watched.
type peersKey struct{ l *BatchNormLayer }

// with returns the layer's peers, nil where it has none.
func (l *BatchNormLayer) with() Peers {
	trace.Watch(peersKey{l}, "with whom a BatchNorm layer shares its statistics", func() any { return l.peers.Load() })
	p := l.peers.Load()
	if p == nil {
		return nil
	}
	return *p
}
