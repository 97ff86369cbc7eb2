package locus

import (
	"errors"
	"fmt"
	"testing"
)

// floats makes the input with the number i, of the given shape; ints makes whole
// numbers below 3.
type (
	floats func(i int, shape ...int) *Tensor
	ints   func(shape ...int) *Tensor
)

// networkOps calls every op that is composed for networks once, with options
// that reach its less traveled paths.
var networkOps = map[string]func(i floats, n ints) *Tensor{
	"activations": func(i floats, n ints) *Tensor {
		x := i(0, 4, 6)
		sum := x.PRelu(i(1, 6)).Add(x.Softmax(1)).Add(x.LogSoftmax(0)).Add(x.Softmin(1)).Add(Concat(1, x.Glu(1), x.Glu(-1)))
		for _, a := range activations {
			sum = sum.Add(a.f(x))
		}
		return sum
	},
	"Linear":   func(i floats, _ ints) *Tensor { return Linear(i(0, 2, 3, 4), i(1, 5, 4), i(2, 5)) },
	"Bilinear": func(i floats, _ ints) *Tensor { return Bilinear(i(0, 2, 3), i(1, 2, 4), i(2, 5, 3, 4), i(3, 5)) },
	"Conv2D": func(i floats, _ ints) *Tensor {
		return Conv2D(i(0, 2, 4, 5, 5), i(1, 6, 2, 2, 3), i(2, 6), ConvOptions{Padding: Same, Groups: 2})
	},
	"Conv1D": func(i floats, _ ints) *Tensor {
		return Conv1D(i(0, 4, 7), i(1, 3, 4, 3), i(2, 3), ConvOptions{Stride: 2, Padding: 1})
	},
	"ConvTr2D": func(i floats, _ ints) *Tensor {
		return ConvTranspose2D(i(0, 2, 4, 3, 3), i(1, 4, 2, 3, 3), i(2, 2), ConvTransposeOptions{Stride: 2, OutputPadding: 1})
	},
	"ConvTr1D": func(i floats, _ ints) *Tensor {
		return ConvTranspose1D(i(0, 2, 4, 3), i(1, 4, 2, 3), nil, ConvTransposeOptions{Stride: 2, Padding: 1})
	},
	"MaxPool": func(i floats, _ ints) *Tensor {
		return MaxPool2D(i(0, 2, 3, 7, 6), 3, PoolOptions{Stride: 2, Padding: 1, Ceil: true})
	},
	"AvgPool": func(i floats, _ ints) *Tensor {
		return AvgPool2D(i(0, 2, 3, 7, 6), 3, PoolOptions{Stride: 2, Padding: 1, Ceil: true})
	},
	"Pool1D": func(i floats, _ ints) *Tensor {
		return MaxPool1D(i(0, 2, 3, 7), 3, PoolOptions{}).Add(AvgPool1D(i(0, 2, 3, 7), 3, PoolOptions{}))
	},
	"Adaptive": func(i floats, _ ints) *Tensor {
		return AdaptiveAvgPool2D(i(0, 2, 3, 7, 6), HW(3, 4)).Add(AdaptiveMaxPool2D(i(0, 2, 3, 7, 6), HW(3, 4)))
	},
	"Global": func(i floats, _ ints) *Tensor { return GlobalAvgPool(i(0, 2, 3, 4)).Add(GlobalMaxPool(i(0, 2, 3, 4))) },
	"LayerNorm": func(i floats, _ ints) *Tensor {
		return LayerNorm(i(0, 2, 3, 4), []int{3, 4}, i(1, 3, 4), i(2, 3, 4), 1e-5).Add(RMSNorm(i(0, 2, 3, 4), []int{4}, i(3, 4), 1e-5))
	},
	"GroupNorm": func(i floats, _ ints) *Tensor {
		return GroupNorm(i(0, 2, 4, 3), 2, i(1, 4), i(2, 4), 1e-5).Add(InstanceNorm(i(0, 2, 4, 3), i(1, 4), nil, 1e-5))
	},
	"BatchNorm": func(i floats, _ ints) *Tensor {
		y, mean, variance := BatchNorm(i(0, 3, 4, 2), i(1, 4), i(2, 4), 1e-5)
		return y.Add(BatchNormWith(i(0, 3, 4, 2), mean, variance, i(1, 4), nil, 1e-5))
	},
	"Normalize": func(i floats, _ ints) *Tensor {
		return Normalize(i(0, 3, 4), 3, 1, 1e-12).Add(LocalResponseNorm(i(0, 3, 4), 3, 1, 0.5, 1))
	},
	"Dropout": func(i floats, _ ints) *Tensor {
		return Dropout(i(0, 3, 4, 2), 0.5, NewKey(1)).Add(AlphaDropout(DropoutChannels(i(0, 3, 4, 2), 0.5, NewKey(2)), 0.5, NewKey(3)))
	},
	"Embedding": func(i floats, n ints) *Tensor { return Embedding(i(0, 3, 4), n(2, 5), 1) },
	"losses": func(i floats, _ ints) *Tensor {
		var l []*Tensor
		for _, c := range elementLosses {
			x, y := i(0, 3, 4), i(1, 3, 4)
			if c.fromUnit {
				x, y = x.Sigmoid(), y.Sigmoid()
			}
			l = append(l, c.f(x, y, ReduceMean))
		}
		x, y, z := i(0, 3, 4), i(1, 3, 4), i(2, 3, 4)
		l = append(l, MarginRanking(x, y, z.Sign(), 0.1, ReduceSum), CosineEmbedding(x, y, z.Sum(1).Sign(), 0.1, ReduceMean),
			TripletMargin(x, y, z, 1, 2, ReduceMean), GaussianNLL(x, y, z.Exp(), 1e-6, ReduceMean), CosineSimilarity(x, y, 1, 1e-8).Sum())
		return Stack(0, l...)
	},
	"CrossEntropy": func(i floats, n ints) *Tensor {
		x := i(0, 4, 3, 2)
		return CrossEntropy(x, n(4, 2), CrossEntropyOptions{Weight: i(1, 3).Exp(), IgnoreIndex: new(1), LabelSmoothing: 0.1}).
			Add(CrossEntropy(x, i(2, 4, 3, 2).Softmax(1), CrossEntropyOptions{})).Add(NLLLoss(x, n(4, 2), NLLOptions{}))
	},
	"Attention": func(i floats, n ints) *Tensor {
		q, k, v := i(0, 2, 3, 5, 4), i(1, 2, 1, 6, 4), i(2, 2, 1, 6, 3)
		o := AttentionOptions{Causal: true, Mask: n(6).Lt(2), Dropout: 0.5, Key: NewKey(4)}
		return Attention(q, k, v, o).Add(Attention(q, k, v, AttentionOptions{Mask: i(3, 5, 6), Grouped: true}))
	},
	"cells": func(i floats, _ ints) *Tensor {
		x, h := i(0, 2, 3), i(1, 2, 4)
		w := func(g int) CellWeights { return CellWeights{i(2, g*4, 3), i(3, g*4, 4), i(4, g*4), nil} }
		a, b := LSTMCell(x, h, h, w(4))
		return a.Add(b).Add(GRUCell(x, h, w(3))).Add(RNNCell(x, h, w(1), nil))
	},
	"Einsum": func(i floats, _ ints) *Tensor {
		return Einsum("bij,bkj,iik->bi", i(0, 2, 3, 4), i(1, 2, 5, 4), i(2, 3, 3, 5))
	},
	"matrices": func(i floats, _ ints) *Tensor {
		x, y := i(0, 3, 3), i(1, 3, 3)
		sum := x.Tril(0).Add(y.Triu(1)).Add(x.Trace()).Add(x.Index(0).Diag(0)).Add(x.Cross(y, 1)).Add(x.Lerp(y, 0.3)).Add(x.CumProd(0))
		return sum.Add(x.Kron(y).Sum()).Add(x.Index(0).Outer(y.Index(1)))
	},
	"arrange": func(i floats, n ints) *Tensor {
		x := i(0, 3, 4)
		grid := Meshgrid(i(1, 3), i(2, 4))
		x = x.Roll(1, 1).Add(grid[0]).Add(grid[1]).Add(SegmentSum(x, n(3), 3)).Add(SegmentMean(x, n(3), 3))
		return x.PadWith(PadReflect, 1, 1).PadWith(PadReplicate, 1, 0).PadWith(PadCircular, 0, 0, 1, 1)
	},
	"images": func(i floats, _ ints) *Tensor {
		x := i(0, 2, 4, 3, 5)
		big := Interpolate(PixelShuffle(x, 2), HW(4, 6), InterpolateBilinear)
		folded := Fold(Unfold(big, 2, WindowOptions{Stride: 2}), HW(4, 6), 2, WindowOptions{Stride: 2})
		return PixelUnshuffle(Interpolate(folded, HW(6, 4), InterpolateNearest), 2)
	},
	"clips": func(i floats, _ ints) *Tensor {
		c, norm := ClipGlobalNorm([]*Tensor{i(0, 3), i(1, 3)}, 0.5)
		return c[0].Add(c[1]).Add(norm).Add(ClipByValue(i(0, 3), 0.5)).Add(ClipByNorm(i(1, 3), 1))
	},
}

// TestNetworkOpsStayOnTheDevice runs each of these ops and its gradients on a
// GPU with every copy and wait forbidden, and compares with the CPU.
func TestNetworkOpsStayOnTheDevice(t *testing.T) {
	gpu := AddVirtualGPUs(1, 64<<20)[0]
	for name, f := range networkOps {
		t.Run(name, func(t *testing.T) {
			run := func(d Device) (values []*Tensor) {
				var leaves []*Tensor
				made := map[string]*Tensor{}
				input := func(i int, shape ...int) *Tensor {
					id := fmt.Sprint(i, shape)
					if made[id] == nil {
						made[id] = d.As(Float64).Key(NewKey(uint64(i))).Randn(shape...).RequireGrad()
						leaves = append(leaves, made[id])
					}
					return made[id]
				}
				numbers := func(shape ...int) *Tensor { return d.Key(NewKey(99)).Randint(0, 3, shape...) }
				y := f(input, numbers)
				return append(Grad([]*Tensor{y.Mul(y)}, leaves), y)
			}
			want := run(CPU())
			var got []*Tensor
			restore := Guard(Disallow)
			err := Try(func() { got = run(gpu) })
			restore()
			if err != nil {
				t.Fatal(err)
			}
			for i, y := range got {
				if y.Device() != gpu {
					t.Errorf("result %d is on %s", i, y.Device())
				}
				hasShape(t, y, want[i].Shape()...)
				near(t, y.To(CPU()), ToSlice[float64](want[i]), 1e-12)
			}
		})
	}
}

// Labels are data: on a GPU a wrong one shows when the program next waits.
func TestBadLabelsShowAtTheNextWait(t *testing.T) {
	gpu := AddVirtualGPUs(1, 1<<20)[0]
	for name, f := range map[string]func(bad *Tensor) *Tensor{
		"CrossEntropy": func(bad *Tensor) *Tensor { return CrossEntropy(gpu.Zeros(2, 3), bad, CrossEntropyOptions{}) },
		"Embedding":    func(bad *Tensor) *Tensor { return Embedding(gpu.Zeros(3, 2), bad) },
		"SegmentSum":   func(bad *Tensor) *Tensor { return SegmentSum(gpu.Zeros(2, 2), bad, 3) },
	} {
		bad := gpu.From([]int{0, 3})
		var y *Tensor
		if err := Try(func() { y = f(bad) }); err != nil {
			t.Errorf("%s: %v before anything waited", name, err)
			continue
		}
		err := Try(func() { y.Sum().Item() })
		var e *Error
		if !errors.Is(err, ErrIndex) || !errors.As(err, &e) || !e.Async {
			t.Errorf("%s: %v; want an ErrIndex of a queued op", name, err)
		}
	}
}
