package locus

import (
	"errors"
	"math"
	"testing"
)

// elementLosses are losses of two tensors of one shape, with their definitions.
var elementLosses = []struct {
	name     string
	f        func(x, y *Tensor, r Reduction) *Tensor
	want     func(x, y float64) float64
	fromUnit bool // x and y are probabilities
	signs    bool // y is 1 or -1
}{
	{"MSELoss", MSELoss, func(x, y float64) float64 { return (x - y) * (x - y) }, false, false},
	{"L1Loss", L1Loss, func(x, y float64) float64 { return math.Abs(x - y) }, false, false},
	{"HuberLoss", func(x, y *Tensor, r Reduction) *Tensor { return HuberLoss(x, y, 0.7, r) }, func(x, y float64) float64 {
		if d := math.Abs(x - y); d > 0.7 {
			return 0.7 * (d - 0.35)
		}
		return (x - y) * (x - y) / 2
	}, false, false},
	{"SmoothL1Loss", func(x, y *Tensor, r Reduction) *Tensor { return SmoothL1Loss(x, y, 0.5, r) }, func(x, y float64) float64 {
		if d := math.Abs(x - y); d > 0.5 {
			return d - 0.25
		}
		return (x - y) * (x - y)
	}, false, false},
	{"SmoothL1Loss of 0", func(x, y *Tensor, r Reduction) *Tensor { return SmoothL1Loss(x, y, 0, r) },
		func(x, y float64) float64 { return math.Abs(x - y) }, false, false},
	{"BCELoss", func(x, y *Tensor, r Reduction) *Tensor { return BCELoss(x, y, BCEOptions{Reduction: r}) },
		func(x, y float64) float64 { return -y*math.Log(x) - (1-y)*math.Log(1-x) }, true, false},
	{"BCEWithLogits", func(x, y *Tensor, r Reduction) *Tensor { return BCEWithLogits(x, y, BCEOptions{Reduction: r}) },
		func(x, y float64) float64 { return math.Log1p(math.Exp(-x)) + (1-y)*x }, true, false},
	{"KLDiv", KLDiv, func(x, y float64) float64 { return y * (math.Log(y) - x) }, true, false},
	{"KLDivLog", KLDivLog, func(x, y float64) float64 { return math.Exp(y) * (y - x) }, false, false},
	{"PoissonNLL", PoissonNLL, func(x, y float64) float64 { return math.Exp(x) - y*x }, true, false},
	{"HingeEmbedding", func(x, y *Tensor, r Reduction) *Tensor { return HingeEmbedding(x, y, 0.5, r) }, func(x, y float64) float64 {
		if y == 1 {
			return x
		}
		return math.Max(0, 0.5-x)
	}, false, true},
	{"SoftMargin", SoftMargin, func(x, y float64) float64 { return math.Log1p(math.Exp(-x * y)) }, false, true},
}

func TestElementLosses(t *testing.T) {
	for _, c := range elementLosses {
		t.Run(c.name, func(t *testing.T) {
			in := randomly([]int{3, 4}, []int{3, 4})
			x, y := in[0], in[1]
			if c.fromUnit {
				x, y = x.Sigmoid(), y.Sigmoid()
			}
			if c.signs {
				y = y.Sign()
			}
			xs, ys := ToSlice[float64](x), ToSlice[float64](y)
			want := make([]float64, len(xs))
			sum := 0.0
			for i := range xs {
				want[i] = c.want(xs[i], ys[i])
				sum += want[i]
			}
			near(t, c.f(x, y, ReduceNone), want, 1e-12)
			near(t, c.f(x, y, ReduceSum), []float64{sum}, 1e-12)
			near(t, c.f(x, y, ReduceMean), []float64{sum / 12}, 1e-12)
			near(t, c.f(x, y, ReduceBatchMean), []float64{sum / 3}, 1e-12)
			hasShape(t, c.f(x.Narrow(0, 0, 0), y.Narrow(0, 0, 0), ReduceNone), 0, 4)
			near(t, c.f(x.Narrow(0, 0, 0), y.Narrow(0, 0, 0), ReduceMean), []float64{math.NaN()}, 0)
			if c.signs { // there is no gradient to a choice
				gradGradCheck(t, func(in ...*Tensor) *Tensor { return c.f(in[0], y, ReduceNone) }, x)
			} else {
				gradGradCheck(t, func(in ...*Tensor) *Tensor { return c.f(in[0], in[1], ReduceNone) }, x, y)
				gradCheck(t, func(in ...*Tensor) *Tensor { return c.f(in[0], in[1], ReduceMean) }, x, y)
			}
			for kind, f := range map[error]func(){
				ErrShape:    func() { c.f(x, y.Narrow(0, 0, 1), ReduceMean) }, // losses do not broadcast
				ErrDType:    func() { c.f(x.Cast(Int64), y.Cast(Int64), ReduceMean) },
				ErrArgument: func() { c.f(x, y, 9) },
			} {
				if err := Try(f); !errors.Is(err, kind) {
					t.Errorf("%v; want %v", err, kind)
				}
			}
		})
	}
}

func TestBinaryCrossEntropy(t *testing.T) {
	// A certain mistake costs 100, and its slope is large but finite.
	p, y := From([]float64{0, 1, 0, 1}).RequireGrad(), From([]float64{0, 1, 1, 0})
	near(t, BCELoss(p, y, BCEOptions{Reduction: ReduceNone}), []float64{0, 0, 100, 100}, 1e-14)
	near(t, Grad([]*Tensor{BCELoss(p, y, BCEOptions{Reduction: ReduceSum})}, []*Tensor{p})[0], []float64{0, 0, -1e12, 1e12}, 1e-9)
	// Large logits overflow nothing.
	x := From([]float64{1000, -1000, 1000, -1000}).RequireGrad()
	near(t, BCEWithLogits(x, From([]float64{1, 0, 0, 1}), BCEOptions{Reduction: ReduceNone}), []float64{0, 0, 1000, 1000}, 1e-14)
	near(t, Grad([]*Tensor{BCEWithLogits(x, From([]float64{1, 0, 0, 1}), BCEOptions{Reduction: ReduceSum})}, []*Tensor{x})[0], []float64{0, 0, 1, -1}, 1e-14)

	logit := From([]float64{0.5, -0.5}, 1, 2)
	target := From([]float64{1, 0.25}, 1, 2)
	want := func(x, y, pos float64) float64 {
		s := 1 / (1 + math.Exp(-x))
		return -pos*y*math.Log(s) - (1-y)*math.Log(1-s)
	}
	o := BCEOptions{PosWeight: From([]float64{3, 2}), Weight: From([]float64{10}), Reduction: ReduceNone}
	near(t, BCEWithLogits(logit, target, o), []float64{10 * want(0.5, 1, 3), 10 * want(-0.5, 0.25, 2)}, 1e-13)
	gradGradCheck(t, func(in ...*Tensor) *Tensor {
		return BCEWithLogits(in[0], in[1], BCEOptions{PosWeight: in[2], Weight: in[3]})
	}, randomly([]int{3, 2}, []int{3, 2}, []int{2}, []int{3, 1})...)
	for name, f := range map[string]func(){
		"a weight that is larger":  func() { BCEWithLogits(logit, target, BCEOptions{Weight: From([]float64{1, 2}, 2, 1)}) },
		"a weight of other length": func() { BCELoss(target, target, BCEOptions{Weight: As(Float64).Zeros(3)}) },
		"a positive weight":        func() { BCEWithLogits(logit, target, BCEOptions{PosWeight: As(Float64).Zeros(3)}) },
	} {
		if err := Try(f); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v; want ErrShape", name, err)
		}
	}
	if err := Try(func() { BCELoss(target, target, BCEOptions{PosWeight: target}) }); !errors.Is(err, ErrArgument) {
		t.Errorf("%v; want ErrArgument", err)
	}
	near(t, KLDiv(From([]float64{-1, -2}), From([]float64{0, 1}), ReduceNone), []float64{0, 2}, 1e-15)
}

func TestMarginLosses(t *testing.T) {
	a, b, y := From([]float64{1, 2, 3}), From([]float64{2, 2, 1}), From([]float64{1, -1, 1})
	near(t, MarginRanking(a, b, y, 0.5, ReduceNone), []float64{1.5, 0.5, 0}, 1e-15)
	p, q := From([]float64{1, 0, 1, 0, 3, 4}, 3, 2), From([]float64{1, 0, 1, 0, 4, 3}, 3, 2)
	near(t, CosineEmbedding(p, q, y, 0.5, ReduceNone), []float64{0, 0.5, 0.04}, 1e-11)
	near(t, TripletMargin(p, q, From([]float64{1, 0, 0, 0, 3, 4}, 3, 2), 0.5, 2, ReduceNone), []float64{0.5, 0, 0.5 + math.Sqrt2}, 1e-5)
	near(t, GaussianNLL(a, b, From([]float64{2, 1, 0}), 0.1, ReduceNone),
		[]float64{0.5 * (math.Log(2) + 0.5), 0, 0.5 * (math.Log(0.1) + 40)}, 1e-14)
	in := randomly([]int{4, 3}, []int{4, 3}, []int{4, 3})
	signs := From([]float64{1, -1, 1, -1})
	gradCheck(t, func(in ...*Tensor) *Tensor { return MarginRanking(in[0], in[1], in[2], 0.5, ReduceNone) }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return CosineEmbedding(in[0], in[1], signs, 0.1, ReduceNone) }, in[:2]...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return TripletMargin(in[0], in[1], in[2], 1, 2, ReduceNone) }, in...)
	gradGradCheck(t, func(in ...*Tensor) *Tensor { return GaussianNLL(in[0], in[1], in[2].Exp(), 1e-6, ReduceNone) }, in...)
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"target of another length": {ErrShape, func() { CosineEmbedding(p, q, From([]float64{1, 1}), 0, ReduceMean) }},
		"delta of 0":               {ErrArgument, func() { HuberLoss(a, b, 0, ReduceMean) }},
		"beta below 0":             {ErrArgument, func() { SmoothL1Loss(a, b, -1, ReduceMean) }},
		"eps of 0":                 {ErrArgument, func() { GaussianNLL(a, b, b, 0, ReduceMean) }},
	} {
		if err := Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v; want %v", name, err, c.kind)
		}
	}
	if s := ReduceBatchMean.String() + ", " + Reduction(7).String(); s != "batch mean, Reduction(7)" {
		t.Error(s)
	}
}

func TestCrossEntropy(t *testing.T) {
	const c = 3
	logits := randomly([]int{2, c, 4})[0]
	logp := logits.LogSoftmax(1)
	at := func(n, class, d int) float64 { return logp.Index(n, class, d).Item() }
	target := From([][]int{{0, 2, 1, 1}, {2, 2, 0, 1}})
	classes := ToSlice[int64](target)
	weight := []float64{0.5, 2, 3}
	for _, o := range []CrossEntropyOptions{
		{}, {LabelSmoothing: 0.2}, {IgnoreIndex: new(2)}, {Weight: From(weight)},
		{Weight: From(weight), IgnoreIndex: new(1), LabelSmoothing: 0.3},
	} {
		var want []float64
		sum, counted := 0.0, 0.0
		for i, k := range classes {
			w := func(class int) float64 {
				if o.Weight == nil {
					return 1
				}
				return weight[class]
			}
			loss := 0.0
			if o.IgnoreIndex == nil || int(k) != *o.IgnoreIndex {
				loss = -(1 - o.LabelSmoothing) * w(int(k)) * at(i/4, int(k), i%4)
				for class := range c {
					loss -= o.LabelSmoothing / c * w(class) * at(i/4, class, i%4)
				}
				counted += w(int(k))
			}
			sum += loss
			want = append(want, loss)
		}
		none, total := o, o
		none.Reduction, total.Reduction = ReduceNone, ReduceSum
		near(t, CrossEntropy(logits, target, none), want, 1e-13)
		near(t, CrossEntropy(logits, target, total), []float64{sum}, 1e-13)
		near(t, CrossEntropy(logits, target, o), []float64{sum / counted}, 1e-13)
		near(t, CrossEntropy(logits, target.Cast(Uint8), o), []float64{sum / counted}, 1e-13)
		if o.LabelSmoothing == 0 {
			n := NLLOptions{Weight: o.Weight, IgnoreIndex: o.IgnoreIndex}
			near(t, NLLLoss(logp, target, n), []float64{sum / counted}, 1e-13)
		}
		gradGradCheck(t, func(in ...*Tensor) *Tensor { return CrossEntropy(in[0], in[1], o) }, logits, target)
		// Probabilities that name one class are that class.
		if o.IgnoreIndex == nil {
			hot := target.OneHot(c).Cast(Float64).Permute(0, 2, 1)
			near(t, CrossEntropy(logits, hot, none), want, 1e-13)
			near(t, CrossEntropy(logits, hot, o), []float64{sum / 8}, 1e-13)
			gradGradCheck(t, func(in ...*Tensor) *Tensor { return CrossEntropy(in[0], in[1], o) }, logits, logits.Softmax(1))
		}
	}
	gradCheck(t, func(in ...*Tensor) *Tensor {
		return CrossEntropy(in[0], in[1], CrossEntropyOptions{Weight: in[2], LabelSmoothing: 0.1})
	}, logits, target, From(weight))
	near(t, CrossEntropy(logits.Index(0).Narrow(1, 0, 1).Flatten(), From(2), CrossEntropyOptions{}), []float64{-at(0, 2, 0)}, 1e-14)
	near(t, CrossEntropy(logits, target.ZerosLike(), CrossEntropyOptions{IgnoreIndex: new(0)}), []float64{math.NaN()}, 0)
	near(t, CrossEntropy(logits.Narrow(0, 0, 0), target.Narrow(0, 0, 0), CrossEntropyOptions{Reduction: ReduceSum}), []float64{0}, 0)
}

func TestCrossEntropyErrors(t *testing.T) {
	x, y := Zeros(2, 3), From([]int{0, 2})
	for name, c := range map[string]struct {
		kind error
		f    func()
	}{
		"a class too large":      {ErrIndex, func() { CrossEntropy(x, From([]int{0, 3}), CrossEntropyOptions{}) }},
		"a negative class":       {ErrIndex, func() { CrossEntropy(x, From([]int{0, -100}), CrossEntropyOptions{}) }},
		"not the ignored class":  {ErrIndex, func() { CrossEntropy(x, From([]int{0, -1}), CrossEntropyOptions{IgnoreIndex: new(-100)}) }},
		"too few targets":        {ErrShape, func() { CrossEntropy(x, From([]int{0}), CrossEntropyOptions{}) }},
		"a target too many axes": {ErrShape, func() { CrossEntropy(x, y.Unsqueeze(1), CrossEntropyOptions{}) }},
		"probabilities":          {ErrShape, func() { CrossEntropy(x, Zeros(2), CrossEntropyOptions{}) }},
		"ignored probabilities":  {ErrArgument, func() { CrossEntropy(x, x, CrossEntropyOptions{IgnoreIndex: new(0)}) }},
		"bools":                  {ErrDType, func() { CrossEntropy(x, y.Cast(Bool), CrossEntropyOptions{}) }},
		"weights":                {ErrShape, func() { CrossEntropy(x, y, CrossEntropyOptions{Weight: Zeros(2)}) }},
		"smoothing":              {ErrArgument, func() { CrossEntropy(x, y, CrossEntropyOptions{LabelSmoothing: 2}) }},
		"integer scores":         {ErrDType, func() { CrossEntropy(x.Cast(Int32), y, CrossEntropyOptions{}) }},
		"a scalar":               {ErrShape, func() { CrossEntropy(From(1.5), y, CrossEntropyOptions{}) }},
		"mixed types":            {ErrDType, func() { CrossEntropy(x, x.Cast(Float64), CrossEntropyOptions{}) }},
	} {
		err := Try(c.f)
		var e *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &e) || e.Op != "CrossEntropy" {
			t.Errorf("%s: %v; want %v of CrossEntropy", name, err, c.kind)
		}
	}
	if err := Try(func() { NLLLoss(x, x, NLLOptions{}) }); !errors.Is(err, ErrDType) {
		t.Errorf("%v; want ErrDType", err)
	}
}
