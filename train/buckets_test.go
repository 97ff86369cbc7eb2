package train_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// knotty is a network whose gradients come in parts, in another order than that of its
// parameters, or not at all.
type knotty struct {
	In     nn.Module
	Tied   *nn.Parameter // used twice
	Unused *nn.Parameter
	Packed *nn.Parameter // used in slices
	Out    nn.Module
}

func (k *knotty) Forward(x *locus.Tensor) *locus.Tensor {
	h := k.In.Forward(x).Tanh()
	p := k.Packed.Value().Chunk(2, 1)
	t := k.Tied.Value()
	h = h.MatMul(t).Add(h.MatMul(p[0]).Sigmoid())
	return k.Out.Forward(h.Tanh().MatMul(t).Mul(h.MatMul(p[1])))
}

func newKnotty(seed uint64) *train.Supervised {
	k := locus.NewKey(seed).Split(5)
	param := func(i int, shape ...int) *nn.Parameter {
		return nn.NewParameter(locus.CPU().Key(k[i]).Randn(shape...).Mul(0.4))
	}
	m := train.Classifier(&knotty{nn.Linear(2, 8, nn.WithKey(k[0])), param(1, 8, 8), param(2, 3, 5), param(3, 8, 16), nn.Linear(8, 2, nn.WithKey(k[4]))})
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.05, optim.SGDOptions{Momentum: 0.9}) }
	return m
}

// overTCP makes ranks that are goroutines and talk over TCP.
func overTCP(t *testing.T, size int) []*collective.Group {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	groups := make([]*collective.Group, size)
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			groups[r], errs[r] = collective.Join(context.Background(), collective.At(collective.Place{Rank: r, Size: size, Addr: addr, Token: "t"}), collective.Engine("ring"), collective.Timeout(time.Minute))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return groups
}

// Sums of gradients in buckets, sent while backward goes on, train as one device does, with
// whatever options, engine and number of ranks, compiled and not, to the same bits.
func TestBuckets(t *testing.T) {
	defer train.SmallBuckets()()
	set := train.Data{Train: spirals(t, 65), Validation: spirals(t, 20), BatchSize: 16} // the last batch has 1
	freeze := train.AfterStep(func(s *train.Step) error {
		for _, m := range s.Models {
			k := m.(*train.Supervised).Net.(*knotty)
			switch s.Steps {
			case 2:
				k.Tied.Freeze()
				nn.Freeze(k.In)
			case 4:
				nn.Unfreeze(k.In)
				k.Tied.Unfreeze()
			}
		}
		return nil
	})
	midway := train.AfterStep(func(s *train.Step) error {
		for _, m := range s.Models {
			k := m.(*train.Supervised).Net.(*knotty)
			if s.Steps == 3 {
				k.Packed.Freeze()
			}
			if s.Steps == 5 {
				k.Packed.Unfreeze()
			}
		}
		return nil
	})
	for name, opts := range map[string][]train.Option{
		"plain":               nil,
		"accumulated":         {train.Accumulate(2)},
		"accumulated, frozen": {train.Accumulate(3), freeze},
		"clipped":             {train.ClipGradients(0.05), midway},
		"frozen":              {freeze},
		"float16":             {train.Precision(locus.Float16), train.ClipGradients(0.5), train.Accumulate(2)},
		"bfloat16, averaged":  {train.Precision(locus.BFloat16), train.AverageWeights(0.9), freeze},
	} {
		opts := append([]train.Option{train.MaxEpochs(3), train.Seed(5), train.LogEvery(0)}, opts...)
		tol := 2e-5
		if strings.Contains(name, "float16") {
			tol = 2e-2
		}
		one := alone(t, newKnotty(3), set, opts...)
		for _, devices := range [][]locus.Device{cpus(2), gpus} { // of one program
			what := fmt.Sprintf("%s on %v", name, devices)
			run := func(compile bool) ranked {
				return alone(t, newKnotty(3), set, append(slices.Clip(opts), train.Devices(devices...), train.Compile(compile), train.AfterStep(replicasEqual))...)
			}
			a, b := run(true), run(false)
			near(t, what, one, a, tol)
			if a.report.Uncompiled != one.report.Uncompiled {
				t.Errorf("%s: not compiled: %s", what, a.report.Uncompiled)
			}
			if !slices.Equal(weights(a.model), weights(b.model)) {
				t.Errorf("%s: compiled and not compiled differ", what)
			}
		}
		for _, size := range []int{2, 3} {
			for engine, make := range map[string]func() ([]*collective.Group, []locus.Device){
				"local": func() ([]*collective.Group, []locus.Device) {
					g, err := collective.Local(cpus(size), collective.Timeout(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					return g, cpus(size)
				},
				"GPUs": func() ([]*collective.Group, []locus.Device) {
					g, err := collective.Local(gpus[:size], collective.Timeout(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					return g, gpus
				},
				"ring": func() ([]*collective.Group, []locus.Device) { return overTCP(t, size), cpus(size) },
			} {
				if engine == "GPUs" && size == 2 {
					continue
				}
				run := func(compile bool) ranked {
					groups, devices := make()
					out := slices.Repeat([]ranked{{}}, size)
					var wg sync.WaitGroup
					for i, g := range groups {
						wg.Go(func() {
							defer g.Close()
							out[i].model = newKnotty(3 + uint64(i)) // rank 0's count
							out[i].report, out[i].err = train.New(append([]train.Option{train.Ranks(g), train.Devices(devices[i]), train.Compile(compile)}, opts...)...).Fit(out[i].model, set)
						})
					}
					wg.Wait()
					return sameEverywhere(t, out)
				}
				what := fmt.Sprintf("%s, %d ranks by %s", name, size, engine)
				a, b := run(true), run(false)
				near(t, what, one, a, tol)
				if a.report.Uncompiled != one.report.Uncompiled {
					t.Errorf("%s: not compiled: %s", what, a.report.Uncompiled)
				}
				if !slices.Equal(weights(a.model), weights(b.model)) || fmt.Sprint(a.report.Last().Train) != fmt.Sprint(b.report.Last().Train) {
					t.Errorf("%s: compiled and not compiled differ", what)
				}
			}
		}
	}
}

// The step over ranks is one program, in which sums begin before the backward pass has ended
// and are waited for behind it.
func TestStepOfRanksIsOneProgram(t *testing.T) {
	defer train.SmallBuckets()()
	set := train.Data{Train: spirals(t, 128), BatchSize: 16}
	for _, accumulate := range []int{1, 2} {
		var text [3]bytes.Buffer
		sameEverywhere(t, onRanks(t, cpus(2), func(rank int) (*train.Supervised, train.Data, []train.Option) {
			return newKnotty(3), set, []train.Option{train.MaxEpochs(3), train.Accumulate(accumulate), train.Explain(&text[rank])}
		}))
		alone(t, newKnotty(3), set, train.MaxEpochs(3), train.Accumulate(accumulate), train.Explain(&text[2]), train.Devices(gpus...)) // the same for devices of one program
		for rank := range text {
			_, step, ok := strings.Cut(text[rank].String(), "a step:")
			if !ok || !strings.Contains(step, "signature 0") || strings.Contains(step, "computed without a program") {
				t.Fatalf("rank %d: no program in\n%s", rank, text[rank].String())
			}
			if at := strings.Index(step, "\nthe "); at > 0 {
				step = step[:at]
			}
			first, last := strings.Index(step, "begin("), strings.LastIndex(step, "begin(")
			wait, product, update := strings.Index(step, "await("), strings.LastIndex(step, "matmul("), strings.Index(step, "update_all(")
			if first < 0 || first == last || first > product || wait < product || update < wait {
				t.Errorf("rank %d, %d batches per step: first sum at %d, last at %d; last product at %d, first wait at %d, update at %d:\n%s", rank, accumulate, first, last, product, wait, update, step)
			}
		}
	}
}
