package nn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// languageModel predicts the next word: an embedding, recurrent layers, scores.
type languageModel struct {
	Embed *nn.EmbeddingLayer
	Body  *nn.RecurrentLayer
	Out   *nn.LinearLayer
}

func newLanguageModel(kind func(int, int, nn.RecurrentOptions, ...nn.Option) *nn.RecurrentLayer, words, embed, hidden int, o nn.RecurrentOptions) *languageModel {
	k := locus.NewKey(1).Split(3)
	width := hidden
	if o.Bidirectional {
		width *= 2
	}
	return &languageModel{nn.Embedding(words, embed, nn.WithKey(k[0])), kind(embed, hidden, o, nn.WithKey(k[1])), nn.Linear(width, words, nn.WithKey(k[2]))}
}

func (m *languageModel) loss(x, y *locus.Tensor) *locus.Tensor {
	scores := m.Out.Forward(m.Body.Forward(m.Embed.Forward(x)))
	return locus.CrossEntropy(scores.Reshape(-1, scores.Dim(-1)).Cast(locus.Float32), y, locus.CrossEntropyOptions{})
}

var recurrentKinds = map[string]func(int, int, nn.RecurrentOptions, ...nn.Option) *nn.RecurrentLayer{"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}

// A step of training that is compiled, or taken in lower precision, is the step.
func TestRecurrentSteps(t *testing.T) {
	for _, d := range everywhere {
		for name, kind := range recurrentKinds {
			o := nn.RecurrentOptions{Layers: 2, Bidirectional: name != "GRU", Dropout: 0.25}
			run := func(compile, half bool) (losses []float64, f *locus.Compiled) {
				m := nn.To(newLanguageModel(kind, 11, 6, 8, o), d)
				opt := optim.SGD(nn.Parameters(m), 0.5, optim.SGDOptions{})
				x, y := d.Key(locus.NewKey(5)).Randint(0, 11, 3, 7), d.Key(locus.NewKey(6)).Randint(0, 11, 21)
				step := func(a ...*locus.Tensor) []*locus.Tensor {
					net := m
					if half {
						net = nn.Lower(nil, m, locus.BFloat16)
					}
					loss := net.loss(a[0], a[1])
					opt.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(opt.Params())))
					return []*locus.Tensor{loss.Detach()}
				}
				if compile {
					f = locus.Compile(step)
					step = f.Call
				}
				for range 5 {
					losses = append(losses, step(x, y)[0].Item())
				}
				return losses, f
			}
			want, _ := run(false, false)
			got, f := run(true, false)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, %s: compiled %v, want %v", d, name, got, want)
			}
			if !strings.Contains(f.Explain(), ": compiled\n") {
				t.Errorf("%v, %s is not compiled: %s", d, name, f.Explain())
			}
			half, _ := run(false, true)
			for i := range want {
				if e := half[i] - want[i]; e > 0.02 || e < -0.02 || want[i] != want[i] {
					t.Errorf("%v, %s: step %d has loss %v in bfloat16, want %v", d, name, i, half[i], want[i])
				}
			}
			if !(want[4] < want[0]) {
				t.Errorf("%v, %s does not learn: %v", d, name, want)
			}
		}
	}
}

// card returns the machine's GPU.
func card(t testing.TB) locus.Device {
	if len(everywhere) < 3 {
		t.Skip("no GPU on this machine")
	}
	return everywhere[1]
}

// Networks of the size that is used repeat their bits on a card, and agree with the CPU.
func TestRecurrentOnCard(t *testing.T) {
	d := card(t)
	for name, kind := range recurrentKinds {
		for _, tf32 := range []bool{false, true} {
			locus.AllowTF32(tf32)
			run := func(d locus.Device) []*locus.Tensor {
				l := nn.To(kind(48, 128, nn.RecurrentOptions{Layers: 2}, nn.WithKey(locus.NewKey(1))), d)
				x := locus.CPU().Key(locus.NewKey(2)).Randn(32, 20, 48).To(d).RequireGrad()
				y := l.Forward(x)
				return append([]*locus.Tensor{y}, locus.Grad([]*locus.Tensor{y.Square().Sum()}, append(nn.Values(nn.Parameters(l)), x))...)
			}
			want, got, again := run(locus.CPU()), run(d), run(d)
			tolerance := 1e-4
			if tf32 {
				tolerance = 2e-2
			}
			for i, w := range want {
				g := got[i].To(locus.CPU())
				size := w.Abs().Max().Item()
				if e := g.Sub(w).Abs().Max().Item(); !(e <= tolerance*size) {
					t.Errorf("%s, TF32 %v: result %d is off by %v of %v", name, tf32, i, e, size)
				}
				if g.Ne(again[i].To(locus.CPU())).Any().Item() != 0 {
					t.Errorf("%s, TF32 %v: result %d does not repeat its bits", name, tf32, i)
				}
			}
		}
	}
	locus.AllowTF32(false)
}

// A step of a GRU language model of 2×512 with 128 sequences of 64 of 10,000 words, as
// in shared/peers/torch_networks.py, and a layer of it alone.
func BenchmarkGRULanguageModel(b *testing.B) {
	d := card(b)
	locus.AllowTF32(true)
	defer locus.AllowTF32(false)
	b.Run("step", func(b *testing.B) {
		m := nn.To(newLanguageModel(nn.GRU, 10000, 256, 512, nn.RecurrentOptions{Layers: 2}), d)
		o := optim.SGD(nn.Parameters(m), 1, optim.SGDOptions{})
		x, y := d.Randint(0, 10000, 128, 64), d.Randint(0, 10000, 128*64)
		step := func() {
			locus.Scoped(func(s *locus.Scope) {
				o.StepWith(locus.Grad([]*locus.Tensor{m.loss(s.Use(x), y)}, nn.Values(o.Params()), locus.FreeGraph))
			})
		}
		timeOnCard(b, d, step)
	})
	for name, kind := range map[string]func(int, int, nn.RecurrentOptions, ...nn.Option) *nn.RecurrentLayer{"gru": nn.GRU, "lstm": nn.LSTM} {
		l := nn.To(kind(512, 512, nn.RecurrentOptions{}), d)
		x := d.Randn(128, 64, 512)
		b.Run(name+" forward", func(b *testing.B) {
			timeOnCard(b, d, func() { locus.NoGrad(func() { locus.Scoped(func(s *locus.Scope) { l.Forward(s.Use(x)) }) }) })
		})
		b.Run(name+" both ways", func(b *testing.B) {
			timeOnCard(b, d, func() {
				locus.Scoped(func(s *locus.Scope) {
					locus.Grad([]*locus.Tensor{l.Forward(s.Use(x)).Sum()}, nn.Values(nn.Parameters(l)), locus.FreeGraph)
				})
			})
		})
	}
}

// timeOnCard reports the time of f, and the memory that it takes at most.
func timeOnCard(b *testing.B, d locus.Device, f func()) {
	wait := func() {
		if err := d.Synchronize(); err != nil {
			b.Fatal(err)
		}
	}
	for range 3 {
		f()
	}
	wait()
	d.ResetPeak()
	start := time.Now()
	b.ResetTimer()
	for range b.N {
		f()
	}
	queued := time.Since(start)
	wait()
	b.ReportMetric(time.Since(start).Seconds()*1e3/float64(b.N), "ms/step")
	b.ReportMetric(queued.Seconds()*1e3/float64(b.N), "ms-to-queue")
	b.ReportMetric(float64(d.MemoryStats().Peak)/(1<<20), "MiB-peak")
}
