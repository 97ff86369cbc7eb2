package nn_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// A cell takes only what fits, says how to make it fit, and stays as it is otherwise.
func TestSetRefusesWhatDoesNotFit(t *testing.T) {
	freed := locus.Ones(2, 3)
	freed.Free()
	bad := map[string]struct {
		kind error
		t    *locus.Tensor
		fix  string
	}{
		"nil":    {locus.ErrArgument, nil, ""},
		"zero":   {locus.ErrArgument, new(locus.Tensor), ""},
		"freed":  {locus.ErrFreed, freed, ""},
		"shape":  {locus.ErrShape, locus.Ones(3, 2), "another layer"},
		"rank":   {locus.ErrShape, locus.Ones(6), "another layer"},
		"dtype":  {locus.ErrDType, locus.As(locus.Float64).Ones(2, 3), "nn.Cast"},
		"whole":  {locus.ErrDType, locus.As(locus.Int64).Ones(2, 3), "Cast(locus.Float32)"},
		"device": {locus.ErrDevice, gpus[0].Ones(2, 3), "nn.To"},
	}
	raw := &rawTracker{locus.Zeros(2, 3).RequireGrad(), locus.Zeros(2, 3)}
	linear, buffer := nn.Linear(3, 2), nn.NewBuffer(locus.Zeros(2, 3))
	lazy := nn.To(nn.LazyLinear(2), locus.CPU())
	cells := map[string]struct {
		set   func(*locus.Tensor)
		value func() *locus.Tensor
	}{
		"a parameter":     {linear.Weight.Set, linear.Weight.Value},
		"a buffer":        {buffer.Set, buffer.Value},
		"an entry":        {nn.State(linear)[0].Set, linear.Weight.Value},
		"a raw parameter": {nn.State(raw)[0].Set, func() *locus.Tensor { return raw.W }},
		"a raw buffer":    {nn.State(raw)[1].Set, func() *locus.Tensor { return raw.Mean }},
		"an update":       {func(t *locus.Tensor) { buffer.Update(func(*locus.Tensor) *locus.Tensor { return t }) }, buffer.Value},
	}
	for name, c := range cells {
		before := c.value()
		for what, b := range bad {
			err := locus.Try(func() { c.set(b.t) })
			if !errors.Is(err, b.kind) || !strings.Contains(err.Error(), b.fix) {
				t.Errorf("%s, %s: %v, want %v and %q", name, what, err, b.kind, b.fix)
			}
		}
		if c.value() != before {
			t.Error(name, "was changed by a value that does not fit")
		}
		c.set(locus.Full(4, 2, 3))
		if got := values(c.value()); got[5] != 4 {
			t.Error(name, got)
		}
	}
	// A lazy one takes what fits what is known.
	for what, b := range bad {
		if what == "shape" || what == "rank" {
			b.t = locus.Ones(3, 3)
		}
		if err := locus.Try(func() { lazy.Weight.Set(b.t) }); !errors.Is(err, b.kind) || lazy.Weight.Value() != nil {
			t.Errorf("lazy, %s: %v, want %v", what, err, b.kind)
		}
	}
	lazy.Weight.Set(locus.Ones(2, 7))
	for what, f := range map[string]func(){
		"NewParameter(nil)":       func() { nn.NewParameter(nil) },
		"NewParameter(zero)":      func() { nn.NewParameter(new(locus.Tensor)) },
		"NewBuffer(nil)":          func() { nn.NewBuffer(nil) },
		"Update(nil)":             func() { buffer.Update(nil) },
		"update of nothing":       func() { new(nn.Buffer).Update(func(x *locus.Tensor) *locus.Tensor { return x }) },
		"a zero entry's value":    func() { nn.Entry{}.Value() },
		"a nil parameter's value": func() { new(nn.LinearLayer).Forward(locus.Ones(1, 1)) },
		"a nil buffer's value":    func() { (*nn.Buffer)(nil).Value() },
		"a zero dropout":          func() { new(nn.DropoutLayer).Forward(locus.Ones(1)) },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := locus.Try(func() { nn.NewParameter(locus.As(locus.Int32).Ones(1)) }); !errors.Is(err, locus.ErrDType) {
		t.Error(err)
	}
}

// What a network was given it holds for itself, whatever becomes of where it came
// from: a network whose optimizer frees its values, or a scope.
func TestNetworksHoldTheirOwn(t *testing.T) {
	online, target := nn.Linear(3, 2), nn.Linear(3, 2)
	o := optim.SGD(nn.Parameters(online), 0.1, optim.SGDOptions{})
	step := func() {
		online.Forward(locus.Ones(1, 3)).Square().Sum().Backward()
		o.Step()
	}
	step()
	for _, e := range nn.State(target) {
		e.Set(nn.TreeOf(online)[e.Name])
	}
	tied := nn.NewParameter(online.Weight.Value())
	want := values(online.Weight.Value())
	step()
	step()
	if got := values(target.Weight.Value()); !slices.Equal(got, want) || !slices.Equal(values(tied.Value()), want) {
		t.Error(got, want)
	}
	b := nn.NewBuffer(locus.Zeros(3))
	locus.Scoped(func(s *locus.Scope) {
		x := s.Use(locus.Ones(3))
		target.Bias.Set(x.Narrow(0, 0, 2).Mul(2))
		b.Set(x.Mul(3))
	})
	if !slices.Equal(values(target.Bias.Value()), []float64{2, 2}) || !slices.Equal(values(b.Value()), []float64{3, 3, 3}) {
		t.Error(target.Bias, b)
	}
}

// Running statistics leave no garbage, and a handle of one stays whole.
func TestBuffersHoldFlatMemory(t *testing.T) {
	d := gpus[1]
	l := nn.To(nn.BatchNorm(64), d)
	own := nn.To(&tracker{nn.NewParameter(locus.Ones(6)), nn.NewBuffer(locus.Zeros(6)), nn.NewBuffer(locus.As(locus.Int64).Zeros())}, d)
	x, y := d.Rand(8, 64), d.Rand(8, 6)
	step := func() {
		locus.Scoped(func(s *locus.Scope) {
			l.Forward(s.Use(x))
			own.Mean.Update(func(old *locus.Tensor) *locus.Tensor { return old.Add(s.Use(y).Mean(0)) })
		})
	}
	step()
	kept := l.RunningMean.Value()
	was := values(kept)
	step()
	d.Collect()
	before := d.MemoryStats()
	for range 300 {
		step()
	}
	if after := d.MemoryStats(); after.InUse > before.InUse || after.Collections != before.Collections {
		t.Errorf("before %v\nafter %v", before, after)
	}
	if !slices.Equal(values(kept), was) || slices.Equal(values(l.RunningMean.Value()), was) {
		t.Error("a handle changed with the buffer")
	}
}

// A graph of a network in use outlives steps of training in between.
func TestStatisticsInAGraph(t *testing.T) {
	l := nn.BatchNorm(3)
	x := locus.CPU().Key(locus.NewKey(1)).Randn(4, 3).RequireGrad()
	y := nn.Eval(l).Forward(x).Square().Sum()
	nn.Train(l)
	for range 3 {
		l.Forward(x.Detach())
	}
	y.Backward()
	if x.Grad() == nil {
		t.Error("no gradient")
	}
}

// Updates from many goroutines are all counted, and readers see whole values.
func TestBufferInManyGoroutines(t *testing.T) {
	b := nn.NewBuffer(locus.Zeros(1000))
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				v := values(b.Value())
				if v[0] != v[999] {
					t.Error("a value is mixed:", v[0], v[999])
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 4 {
		writers.Go(func() {
			for range 50 {
				b.Update(func(old *locus.Tensor) *locus.Tensor { return old.Add(1) })
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if got := values(b.Value())[0]; got != 200 {
		t.Error("updates were lost:", got)
	}
}

// Forward in use from many goroutines, and copies of the network, while another one
// trains it.
func TestUseWhileTraining(t *testing.T) {
	net := nn.Sequential(nn.Linear(8, 8), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
	used := nn.Eval(nn.Bind(net, nn.Trainable(net))) // the parameters of now, the statistics as they come
	x := locus.CPU().Key(locus.NewKey(2)).Randn(16, 8)
	o := optim.Adam(nn.Parameters(net), 0.01, optim.AdamOptions{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				err := locus.Try(func() {
					if y := used.Forward(x); y.IsFinite().All().Item() != 1 {
						t.Error("not finite:", y)
					}
					c := nn.CopyTo(net, locus.CPU())
					nn.Eval(c).Forward(x)
				})
				if err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 30 {
		net.Forward(x).Square().Mean().Backward()
		o.Step()
	}
	close(stop)
	wg.Wait()
}

func TestInitializeKnowsLayers(t *testing.T) {
	bn := nn.BatchNorm(4)
	net := &struct {
		Linear  *nn.LinearLayer
		Conv    *nn.ConvLayer
		Up      *nn.ConvTransposeLayer
		Pair    *nn.BilinearLayer
		Batch   *nn.BatchNormLayer
		Layer   *nn.LayerNormLayer
		Group   *nn.GroupNormLayer
		RMS     *nn.RMSNormLayer
		Inst    *nn.InstanceNormLayer
		Zero    *nn.BatchNormLayer
		Embed   *nn.EmbeddingLayer
		Padded  *nn.EmbeddingLayer
		Pos     *nn.LearnedPositionsLayer
		PReLU   *nn.PReLULayer
		LSTM    *nn.RecurrentLayer
		Attn    *nn.MultiHeadAttentionLayer
		Cross   *nn.MultiHeadAttentionLayer
		Encoder *nn.EncoderLayer
		Decoder *nn.DecoderLayer
		ResNet  *nn.ResNetBlockLayer
		Own     *nn.Parameter
		Bias    *nn.Parameter
		Temp    *nn.Parameter
		Raw     *locus.Tensor `nn:"param"`
	}{
		nn.Linear(3, 4), nn.Conv2D(3, 4, 3, locus.ConvOptions{}), nn.ConvTranspose1D(3, 4, 3, locus.ConvTransposeOptions{}), nn.Bilinear(2, 3, 4),
		bn, nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.RMSNorm(4), nn.InstanceNorm(4), nn.BatchNorm(4, nn.WithInit(nn.Constant(0))),
		nn.Embedding(7, 4), nn.Embedding(7, 4, nn.PaddingIndex(2)), nn.LearnedPositions(5, 4), nn.PReLU(4),
		nn.LSTM(3, 4, nn.RecurrentOptions{Layers: 2, Bidirectional: true}), nn.MultiHeadAttention(4, 2, nn.MultiHeadOptions{}), nn.MultiHeadAttention(4, 2, nn.MultiHeadOptions{KeyFeatures: 3, ValueFeatures: 5}),
		nn.TransformerEncoderLayer(4, 2, nn.TransformerOptions{Hidden: 5}), nn.TransformerDecoderLayer(4, 2, nn.TransformerOptions{Hidden: 5}), nn.ResNetBlock(3, 4, 2, nn.WithInit(nn.KaimingNormal())),
		nn.NewParameter(locus.Ones(3, 3)), nn.NewParameter(locus.Ones(3)), nn.NewParameter(locus.Full(0.5)), locus.Ones(2).RequireGrad(),
	}
	for _, e := range nn.Parameters(net) { // as if trained
		e.Set(locus.Full(9, e.Value().Shape()...))
	}
	bn.RunningMean.Set(locus.Full(9, 4))
	nn.Initialize(net, locus.NewKey(3), nn.Constant(5))
	const weight, bias, gain, stays, drawn = "weight", "bias", "gain", "stays", "drawn"
	want := func(name string) string {
		switch {
		case name == "own" || strings.Contains(name, "proj_weight") || strings.Contains(name, "weight_"):
			return weight
		case name == "temp" || name == "raw":
			return stays
		case name == "zero.weight": // what was asked for
			return bias
		case strings.Contains(name, "bias"):
			return bias
		}
		switch layer, _, _ := strings.Cut(name, "."); layer {
		case "batch", "layer", "group", "rms", "inst":
			return gain
		case "embed", "padded", "pos":
			return drawn
		case "p_re_lu":
			return "slope"
		}
		if strings.Contains(name, "norm") || strings.Contains(name, "bn") || strings.HasSuffix(name, "downsample.1.weight") {
			return gain
		}
		return weight
	}
	for _, e := range nn.Parameters(net) {
		v := values(e.Value())
		kind := drawn
		if v[0] == v[len(v)-1] {
			kind = map[float64]string{5: weight, 0: bias, 1: gain, 9: stays, 0.25: "slope"}[v[0]]
		}
		if w := want(e.Name); kind != w {
			t.Errorf("%s is a %s, want a %s: %v", e.Name, kind, w, v)
		}
	}
	if v := values(net.Padded.Weight.Value()); !slices.Equal(v[8:12], make([]float64, 4)) || v[0] == 0 || v[0] == 9 {
		t.Error("the padding row:", v)
	}
	if values(bn.RunningMean.Value())[0] != 9 {
		t.Error("Initialize changed a buffer")
	}
	if g := values(net.ResNet.BN1.Weight.Value())[0]; g != 1 {
		t.Error("an initializer of convolutions made gains:", g)
	}
	if err := locus.Try(func() { nn.Initialize(net, locus.NewKey(1), nil) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	before := net.Linear.Weight.Value()
	err := locus.Try(func() { nn.Initialize(nn.Sequential(net.Linear, nn.LazyLinear(3)), locus.NewKey(1), nn.Constant(1)) })
	if !errors.Is(err, locus.ErrArgument) || net.Linear.Weight.Value() != before {
		t.Error("a lazy network was initialized in part:", err)
	}
	// A transformer that was initialized computes something.
	x := locus.Rand(2, 3, 4)
	e := nn.TransformerEncoder(2, 4, 2, nn.TransformerOptions{Hidden: 8, FinalNorm: true})
	nn.Initialize(e, locus.NewKey(1), nn.Normal(0, 0.02))
	if y := fmt.Sprint(values(e.Forward(x).Abs().Sum())); y == "[0]" {
		t.Error("a transformer that was initialized computes zeros")
	}
}

// In a program the running statistics of all layers move in one step, in place, and to
// the same bits as without.
func TestRunningStatisticsOfAProgram(t *testing.T) {
	net := func() *nn.SequentialLayer {
		k := locus.NewKey(3).Split(2)
		return nn.Sequential(nn.Linear(4, 6, nn.WithKey(k[0])), nn.BatchNorm(6), nn.ReLU(), nn.Linear(6, 5, nn.WithKey(k[1])), nn.BatchNorm(5))
	}
	plain, traced := net(), net()
	f := locus.Compile(func(in ...*locus.Tensor) []*locus.Tensor { return []*locus.Tensor{traced.Forward(in[0]).Detach()} })
	for turn := range 5 {
		x := locus.CPU().Key(locus.NewKey(uint64(turn))).Randn(7, 4)
		want, got := plain.Forward(x), f.Call(x)[0]
		if !slices.Equal(values(want.Detach()), values(got)) {
			t.Errorf("turn %d: the results differ", turn)
		}
		for _, i := range []int{1, 4} {
			a, b := plain.Layers[i].(*nn.BatchNormLayer), traced.Layers[i].(*nn.BatchNormLayer)
			if !slices.Equal(values(a.RunningMean.Value()), values(b.RunningMean.Value())) || !slices.Equal(values(a.RunningVar.Value()), values(b.RunningVar.Value())) {
				t.Errorf("turn %d: the statistics of layer %d differ", turn, i)
			}
		}
	}
	if e := f.Explain(); strings.Contains(e, "= blend(") || strings.Count(e, "= update_all(") != 1 {
		t.Errorf("the program moves statistics one by one:\n%s", e)
	}
}

// A layer whose statistics are one buffer is a mistake that is told, not a lock.
func TestOneBufferForTwo(t *testing.T) {
	l := nn.BatchNorm(3)
	l.RunningVar = l.RunningMean
	err := locus.Try(func() { l.Forward(locus.Ones(4, 3)) })
	var e *locus.Error
	if !errors.As(err, &e) || !errors.Is(err, locus.ErrArgument) || e.Fix == "" {
		t.Errorf("%v", err)
	}
}
