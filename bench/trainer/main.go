// Command trainer times a training step, loader included, written by hand and made by
// package train, eager and compiled, in turns on one machine:
//
//	go run ./bench/trainer          # on the CPU
//	go run ./bench/trainer -gpu     # on the first GPU, with data in main memory and on the GPU
//
// A row is the median of several rounds, in microseconds per step. The last columns are
// the trainer's time as a multiple of the loop by hand, the median of the rounds'. The tiny network shows the
// overhead itself; the goals, 1.05 on the CPU and 1.1 on a GPU, are for the others.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

var (
	gpu     = flag.Bool("gpu", false, "compute on the first GPU")
	rounds  = flag.Int("rounds", 5, "rounds in which all variants take turns")
	batches = flag.Int("batches", 0, "batches of an epoch; 0 for 64 on the CPU and 400 on a GPU")
	epochs  = flag.Int("epochs", 3, "epochs of a round")
	workers = flag.Int("workers", 0, "goroutines that make batches; 0 for one on the CPU and four on a GPU")
	only    = flag.String("only", "", "tiny, MLP or LeNet")
	profile = flag.String("profile", "", "write a CPU profile of the compiled trainer to a `file`, and measure nothing else")
)

// task is a network with its data.
type task struct {
	name  string
	batch int
	shape []int // of an example
	net   func() nn.Module
}

var tasks = []task{
	{"tiny 8-16-10", 8, []int{8}, func() nn.Module { // what is left is overhead
		return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
	}},
	{"MLP 784-256-10", 256, []int{784}, func() nn.Module {
		return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
	}},
	{"LeNet", 128, []int{1, 28, 28}, func() nn.Module {
		return nn.Sequential(
			nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: locus.Pair(2)}), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{}),
			nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{}),
			nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
	}},
}

const learningRate = 0.01

func optimizer(p []nn.Entry) *optim.Optimizer {
	return optim.SGD(p, learningRate, optim.SGDOptions{Momentum: 0.9})
}

func loss(y, target *locus.Tensor) *locus.Tensor {
	return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{})
}

// timed is a dataset that notes when the first batch of each epoch is asked for.
type timed struct {
	data.Dataset
	epoch func()
}

func (d timed) ForEpoch(locus.Key) data.Dataset {
	d.epoch()
	return d.Dataset
}

// byHand returns a function that runs epochs of a loop that is written out, and returns the
// time of a step.
func byHand(t task, d locus.Device, set data.Dataset, compiled bool) func() float64 {
	net := nn.To(t.net(), d)
	opt := optimizer(nn.Parameters(net))
	params := opt.Params()
	total := nn.NewBuffer(d.Zeros())
	step := func(a ...*locus.Tensor) []*locus.Tensor {
		locus.Scoped(func(s *locus.Scope) {
			l := loss(net.Forward(s.Use(a[0])), a[1])
			opt.StepWith(locus.Grad([]*locus.Tensor{l}, nn.Values(params), locus.FreeGraph))
			total.Update(func(old *locus.Tensor) *locus.Tensor { return old.Add(l.Detach()) })
		})
		return nil
	}
	if compiled {
		c := locus.Compile(step)
		step = c.Call
		defer func() {
			if c.Fallback() != "" {
				log.Fatal(c.Fallback())
			}
		}()
	}
	loader := must(data.NewLoader(set, data.Options{BatchSize: t.batch, Shuffle: true, Key: locus.NewKey(1), Device: d, Workers: *workers}))
	epoch := func(n int) {
		for b, err := range loader.Epoch(n) {
			if err != nil {
				log.Fatal(err)
			}
			step(b.X(), b.Y())
			b.Free()
		}
		_ = total.Value().Item() / float64(loader.Len())
	}
	epoch(0)
	return func() float64 {
		start := time.Now()
		for n := range *epochs {
			epoch(n)
		}
		return perStep(start, loader.Len())
	}
}

func perStep(start time.Time, batches int) float64 {
	return time.Since(start).Seconds() * 1e6 / float64(*epochs*batches)
}

// byTrainer is byHand with a trainer. Each call trains a new run; its first epoch is not
// counted.
func byTrainer(t task, d locus.Device, set data.Dataset, compiled bool) func() float64 {
	model := &train.Supervised{Net: nn.To(t.net(), d), LossFunc: loss, Optimizer: optimizer}
	trainer := train.New(train.MaxEpochs(1+*epochs), train.Devices(d), train.Compile(compiled), train.Seed(1))
	return func() float64 {
		var start time.Time
		n := 0
		r, err := trainer.Fit(model, train.Data{Train: timed{set, func() {
			if n++; n == 2 {
				start = time.Now()
			}
		}}, BatchSize: t.batch, Workers: *workers})
		if err != nil {
			log.Fatal(err)
		}
		if r.Uncompiled != "" {
			log.Fatal(r.Uncompiled)
		}
		return perStep(start, *batches)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func main() {
	flag.Parse()
	d := locus.CPU()
	if *gpu {
		if locus.NumGPUs() == 0 {
			log.Fatal("there is no GPU")
		}
		d = locus.GPU(0)
	}
	if *batches == 0 {
		if *batches = 64; *gpu {
			*batches = 400
		}
	}
	if *workers == 0 {
		if *workers = 1; *gpu {
			*workers = 4
		}
	}
	places := []locus.Device{locus.CPU()}
	if *gpu {
		places = append(places, d)
	}
	fmt.Printf("%-16s %5s %-6s %9s %9s %9s %9s %8s %8s\n", "network", "batch", "data", "hand", "trainer", "hand", "trainer", "eager", "compiled")
	fmt.Printf("%-16s %5s %-6s %9s %9s %9s %9s\n", "", "", "", "eager", "eager", "compiled", "compiled")
	for _, t := range tasks {
		if *only != "" && *only != t.name[:min(len(t.name), len(*only))] {
			continue
		}
		for _, at := range places {
			n := *batches * t.batch
			x := at.Key(locus.NewKey(2)).Randn(append([]int{n}, t.shape...)...)
			y := at.Key(locus.NewKey(3)).Randint(0, 10, n)
			set := must(data.NewTensorDataset(x, y))
			variants := []func() float64{byHand(t, d, set, false), byTrainer(t, d, set, false), byHand(t, d, set, true), byTrainer(t, d, set, true)}
			if *profile != "" {
				variants[3]()
				f := must(os.Create(*profile))
				must(0, pprof.StartCPUProfile(f))
				fmt.Println(variants[3]())
				pprof.StopCPUProfile()
				f.Close()
				return
			}
			times := make([][]float64, len(variants))
			for range *rounds {
				for i, f := range variants {
					times[i] = append(times[i], f())
				}
			}
			m := make([]float64, len(times))
			for i := range times {
				m[i] = median(times[i])
			}
			ratio := func(a, b int) float64 { // of each round, so that a busy machine disturbs both
				l := make([]float64, *rounds)
				for i := range l {
					l[i] = times[a][i] / times[b][i]
				}
				return median(l)
			}
			fmt.Printf("%-16s %5d %-6s %9.1f %9.1f %9.1f %9.1f %7.2f× %7.2f×\n", t.name, t.batch, at, m[0], m[1], m[2], m[3], ratio(1, 0), ratio(3, 2))
			x.Free()
			y.Free()
		}
	}
}
