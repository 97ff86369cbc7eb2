package optim_test

import (
	"math"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

var gpus = locus.AddVirtualGPUs(2, 64<<20)

type net struct {
	P, Q *nn.Parameter
}

func newNet(d locus.Device) *net {
	return &net{nn.NewParameter(d.From([][]float64{{0.5, -1, 2}, {1.5, 0.25, -0.75}})), nn.NewParameter(d.From([]float64{1, -2}))}
}

func (n *net) loss() *locus.Tensor {
	p, q := n.P.Value(), n.Q.Value()
	return p.Square().Sum(1).Mul(q).Square().Sum().Mul(0.1).Add(q.Exp().Sum())
}

func (n *net) values() []float64 {
	return append(locus.ToSlice[float64](n.P.Value()), locus.ToSlice[float64](n.Q.Value())...)
}

func near(t *testing.T, name string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9*math.Max(1, math.Abs(want[i])) {
			t.Errorf("%s: value %d is %v, want %v", name, i, got[i], want[i])
		}
	}
}

// Five steps of each rule from one start, as PyTorch 2.15 takes them in float64.
var recorded = map[string][]float64{
	"sgd":           {0.42611444544262067, -0.8522288908852413, 1.7044577817704827, 0.8165569604554647, 0.1360928267425774, -0.40827848022773233, 0.07380476402822721, -1.7510552608339789},
	"momentum":      {0.22708914084248977, -0.45417828168497953, 0.9083565633699591, -0.3981527137231233, -0.06635878562052053, 0.19907635686156164, -1.4214509084130453, -1.23524866691239},
	"nesterov":      {0.21162692313399767, -0.42325384626799534, 0.8465076925359907, -0.3230025991479901, -0.05383376652466504, 0.16150129957399506, -1.3273753357169962, -1.3235508013588722},
	"adam":          {0.0709846274058217, -0.5515295900952101, 1.5434522239868838, 1.0355139962865811, -0.12903384133211648, -0.2973949723214994, 0.5237831743615363, -1.5491954028988952},
	"adamw":         {0.08919152331794267, -0.5622887866984788, 1.5429114753229078, 1.0375567942239028, -0.10543465360087483, -0.3091685715777137, 0.5270268336141255, -1.5505094689326389},
	"rmsprop":       {-0.45099524345913533, 0.033043230921629876, 0.9250139375055283, 0.33966146666875213, -0.3224700044384682, 0.272703904927564, -0.45613848889374237, -1.1423570411504749},
	"rmsprop plain": {3.774713389869847e-08, -0.4464475667874007, 1.4184812951238066, 0.7916323779699437, -0.04763694429562353, -0.15330044552490793, 0.09363305801647177, -1.4895334621230478},
	"adagrad":       {0.22995725041483825, -0.6641575392913143, 1.6327442406129915, 1.099600932574947, 0.02559959053057007, -0.3880453111665419, 0.5588004640739426, -1.649027925414937},
}

func makers() map[string]func([]nn.Entry) *optim.Optimizer {
	return map[string]func([]nn.Entry) *optim.Optimizer{
		"sgd": func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.05, optim.SGDOptions{}) },
		"momentum": func(p []nn.Entry) *optim.Optimizer {
			return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9, Dampening: 0.1, WeightDecay: 0.01})
		},
		"nesterov": func(p []nn.Entry) *optim.Optimizer {
			return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9, Nesterov: true})
		},
		"adam": func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 0.1, optim.AdamOptions{WeightDecay: 0.02}) },
		"adamw": func(p []nn.Entry) *optim.Optimizer {
			return optim.AdamW(p, 0.1, optim.AdamOptions{WeightDecay: 0.02, Beta1: 0.8, Beta2: 0.99, Eps: 1e-6})
		},
		"rmsprop": func(p []nn.Entry) *optim.Optimizer {
			return optim.RMSProp(p, 0.05, optim.RMSPropOptions{Centered: true, Momentum: 0.5, WeightDecay: 0.01})
		},
		"rmsprop plain": func(p []nn.Entry) *optim.Optimizer { return optim.RMSProp(p, 0.05, optim.RMSPropOptions{}) },
		"adagrad": func(p []nn.Entry) *optim.Optimizer {
			return optim.Adagrad(p, 0.2, optim.AdagradOptions{LRDecay: 0.1, InitialAccumulator: 0.5, WeightDecay: 0.01})
		},
	}
}

func TestRulesMatchPyTorch(t *testing.T) {
	for _, d := range []locus.Device{locus.CPU(), gpus[0]} {
		for name, make := range makers() {
			n := newNet(d)
			o := make(nn.Parameters(n))
			for range 5 {
				n.loss().Backward()
				o.Step()
			}
			near(t, name+" on "+d.String(), n.values(), recorded[name])
			if o.Steps() != 5 {
				t.Error(o.Steps())
			}
		}
	}
}

// State follows the network from device to device, and a run that is saved and
// restored goes on as if nothing had happened.
func TestStateMovesAndRestores(t *testing.T) {
	for name, make := range makers() {
		n := newNet(locus.CPU())
		o := make(nn.Parameters(n))
		for i := range 5 {
			switch i {
			case 2:
				nn.To(n, gpus[0])
			case 3:
				nn.To(n, gpus[1])
			case 4: // into another network and optimizer
				m := nn.CopyTo(n, locus.CPU())
				p := make(nn.Parameters(m))
				if err := p.SetState(o.State(), o.Steps()); err != nil {
					t.Fatal(err)
				}
				n, o = m, p
			}
			o.StepWith(locus.Grad([]*locus.Tensor{n.loss()}, nn.Values(o.Params())))
		}
		near(t, name, n.values(), recorded[name])
		if err := o.SetState(map[string]*locus.Tensor{"x.p": locus.Ones(1)}, 0); err == nil {
			t.Error("foreign state was accepted")
		}
	}
}

func TestClippingDoesNotWait(t *testing.T) {
	n := newNet(gpus[0])
	o := optim.SGD(nn.Parameters(n), 0.05, optim.SGDOptions{})
	locus.ResetLedger()
	for range 5 {
		grads := locus.Grad([]*locus.Tensor{n.loss()}, nn.Values(o.Params()))
		grads, _ = locus.ClipGlobalNorm(grads, 0.5)
		o.StepWith(grads)
	}
	if c := locus.Ledger().Count(locus.DeviceToHost, locus.Wait); c != 0 {
		t.Errorf("clipping waited %d times", c)
	}
	near(t, "clipped", n.values(), []float64{0.4899343769347401, -0.9798687538694802, 1.9597375077389605, 1.4322613188452888, 0.23871021980754814, -0.7161306594226444, 0.9181776481544237, -1.96937247661019})
}

func TestSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		s    optim.Schedule
		want []float64
	}{ // StepLR, CosineAnnealingLR and OneCycleLR of PyTorch 2.15
		"step":       {optim.StepDecay(3, 0.5), []float64{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125}},
		"cosine":     {optim.Cosine(8, 0.1), []float64{1, 0.9657457896, 0.8681980515, 0.7222075446, 0.55, 0.3777924554, 0.2318019485, 0.1342542104, 0.1, 0.1}},
		"one cycle":  {optim.OneCycle(11, 0.3, 25, 1e4), []float64{0.04, 0.4223411137, 0.9602614247, 0.9797465678, 0.8844757248, 0.7260870493, 0.5305827081, 0.330058029, 0.1574325128, 0.0410455432}},
		"warm-up":    {optim.Warmup(4, optim.Fixed()), []float64{0.25, 0.5, 0.75, 1, 1}},
		"milestones": {optim.Milestones(0.1, 2, 3), []float64{1, 1, 0.1, 0.01, 0.01}},
	} {
		for i, w := range c.want {
			if got := c.s(int64(i)); math.Abs(got-w) > 1e-8 {
				t.Errorf("%s, step %d: %v, want %v", name, i, got, w)
			}
		}
	}
}

// Steps hold flat memory without any help by the program.
func TestStepsHoldFlatMemory(t *testing.T) {
	d := gpus[1]
	l := nn.To(nn.Linear(100, 100), d)
	o := optim.Adam(nn.Parameters(l), 1e-3, optim.AdamOptions{})
	x := d.Rand(4, 100)
	step := func() {
		locus.Scoped(func(s *locus.Scope) {
			loss := l.Forward(s.Use(x)).Square().Mean()
			o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(o.Params())))
		})
	}
	flat(t, d, 500, step)
}

// flat fails if memory grows in so many steps, or the collector is needed.
func flat(t *testing.T, d locus.Device, steps int, step func()) {
	t.Helper()
	for range 10 {
		step()
	}
	d.Collect()
	before := d.MemoryStats()
	for range steps {
		step()
	}
	if after := d.MemoryStats(); after.InUse > before.InUse+8192 || after.Collections != before.Collections {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

func TestFrozenParametersStay(t *testing.T) {
	n := newNet(locus.CPU())
	n.Q.Freeze()
	o := optim.SGD(nn.Parameters(n), 0.1, optim.SGDOptions{WeightDecay: 1})
	n.loss().Backward()
	o.Step()
	near(t, "frozen", locus.ToSlice[float64](n.Q.Value()), []float64{1, -2})
}
