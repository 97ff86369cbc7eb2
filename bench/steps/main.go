// Command steps times whole training steps of networks that people train, on the
// first GPU, or on the CPU where there is none:
//
//	go run ./bench/steps -small                    tiny sizes, for a first look
//	go run ./bench/steps -match 'resnet|gpt2' -way eager,compiled
//
// It prints one line per figure: name, value and unit, apart by tabs. steps.py runs
// it beside PyTorch and JAX.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// precision is what products are computed in.
type precision struct {
	tf32 bool
	half bool
}

var precisions = map[string]precision{"f32": {}, "tf32": {tf32: true}, "bf16": {tf32: true, half: true}}

// rows are the networks and precisions that are timed unless -match says otherwise.
var rows = []string{
	"mlp f32", "mlp tf32", "lenet f32", "lenet tf32",
	"resnet18 f32", "resnet18 tf32", "resnet18 bf16",
	"transformer6 f32", "transformer6 tf32", "transformer6 bf16",
	"gpt2 tf32", "gpt2 bf16", "vit-s tf32", "vit-s bf16", "gru tf32", "mobilenetv2 tf32", "unet tf32",
}

var profile, recompute bool

// trainer is a network on its way.
type trainer struct {
	job
	model nn.Module
	o     *optim.Optimizer
	half  bool
	prog  *locus.Compiled // of the compiled way
}

// warm takes steps until the program runs as it will from then on: recorded where the
// device records, and with its fused kernels, which the driver compiles meanwhile. It
// returns how many, and reports false where there is no program, or not within ten
// seconds.
func (t *trainer) warm(d locus.Device, step func() *locus.Tensor) (steps int, ok bool) {
	for began := time.Now(); t.prog != nil && time.Since(began) < 10*time.Second; {
		step().Free()
		steps++
		if t.prog.Fallback() != "" {
			return steps, false
		}
		s := t.prog.Summary()
		if strings.HasPrefix(s, "compiled") && (!d.IsGPU() || strings.Contains(s, "replayed as one piece")) {
			d.Synchronize()
			return steps, true
		}
		if steps > 2 {
			time.Sleep(2 * time.Millisecond) // for the driver; few steps, since the other ways take them too
		}
	}
	return steps, false
}

// forward returns the loss of a batch.
func (t *trainer) forward(s *locus.Scope, x, y *locus.Tensor) *locus.Tensor {
	if !t.half {
		return t.loss(t.model.Forward(x), y)
	}
	net := nn.Lower(s, t.model, locus.BFloat16)
	if !t.digits {
		x = x.Cast(locus.BFloat16)
	}
	return t.loss(net.Forward(x), y) // CrossEntropy computes in float32
}

// A way is how a step is written.
var ways = map[string]func(t *trainer, x, y *locus.Tensor) func() *locus.Tensor{
	// A scope, and gradients that belong to nobody.
	"eager": func(t *trainer, x, y *locus.Tensor) func() *locus.Tensor {
		return func() (kept *locus.Tensor) {
			locus.Scoped(func(s *locus.Scope) {
				loss := t.forward(s, s.Use(x), y)
				t.o.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(t.o.Params()), locus.FreeGraph))
				kept = s.Keep(loss.Detach())
			})
			return kept
		}
	},
	// As people bring it from PyTorch, in a scope.
	"backward": func(t *trainer, x, y *locus.Tensor) func() *locus.Tensor {
		return func() (kept *locus.Tensor) {
			locus.Scoped(func(s *locus.Scope) {
				loss := t.forward(s, s.Use(x), y)
				loss.Backward()
				t.o.Step()
				kept = s.Keep(loss.Detach())
			})
			return kept
		}
	},
	// The same without a scope: the collector finds what is not needed.
	"plain": func(t *trainer, x, y *locus.Tensor) func() *locus.Tensor {
		return func() *locus.Tensor {
			loss := t.forward(nil, x, y)
			loss.Backward()
			t.o.Step()
			return loss.Detach()
		}
	},
	"compiled": func(t *trainer, x, y *locus.Tensor) func() *locus.Tensor {
		c := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
			loss := t.forward(nil, a[0], a[1])
			loss.Backward()
			t.o.Step()
			return []*locus.Tensor{loss.Detach()}
		})
		if recompute {
			c.Recompute()
		}
		t.prog = c
		said := false
		return func() *locus.Tensor {
			loss := c.Call(x, y)[0]
			if why := c.Fallback(); why != "" && !said {
				said = true
				fmt.Fprintln(os.Stderr, "# computed without a program:", why)
			}
			return loss
		}
	},
}

func main() {
	match := flag.String("match", "", "regular expression: rows whose names it matches")
	way := flag.String("way", "eager,backward,compiled", "how steps are written: eager, backward, plain, compiled")
	small := flag.Bool("small", false, "tiny sizes")
	rounds := flag.Int("rounds", 5, "repetitions; the median counts")
	list := flag.Bool("list", false, "print the rows' names")
	flag.BoolVar(&recompute, "recompute", false, "compiled steps compute cheap values again instead of keeping them")
	varies := flag.Bool("nondeterminism", false, "with locus.AllowNondeterminism")
	flag.BoolVar(&profile, "profile", false, "print what the ops of a step took, instead of timing steps")
	flag.Parse()
	locus.AllowNondeterminism(*varies)
	wanted, err := regexp.Compile(*match)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	d := locus.CPU()
	if locus.NumGPUs() > 0 {
		d = locus.GPU()
	}
	all := jobs(*small)
	for _, row := range rows {
		if !wanted.MatchString(row) {
			continue
		}
		if *list {
			fmt.Println(row)
			continue
		}
		name, p, _ := strings.Cut(row, " ")
		var losses []float64
		more := 0
		todo := strings.Split(*way, ",") // the compiled one first: it finds no kernels loaded, and says how many steps it took
		if i := slices.Index(todo, "compiled"); i > 0 {
			todo = slices.Insert(slices.Delete(todo, i, i+1), 0, "compiled")
		}
		for _, w := range todo {
			if ways[w] == nil {
				fmt.Fprintf(os.Stderr, "no way %q: eager, backward, plain or compiled\n", w)
				os.Exit(2)
			}
			err := locus.Try(func() {
				losses = append(losses, measure(d, row+" ["+w+"]", all[name], precisions[p], w, *rounds, &more))
			})
			if err != nil {
				fmt.Printf("%s [%s]\tfailed\t%s\n", row, w, strings.ReplaceAll(err.Error(), "\n", " "))
			}
			d.Collect()
			d.FreeCache()
		}
		// Programs may have images channels last, and tensor cores then add up in another order.
		near := 0.0
		if p != "f32" && slices.Contains([]string{"resnet18", "mobilenetv2", "unet"}, name) {
			near = 0.1
		}
		if len(losses) > 0 && slices.Max(losses)-slices.Min(losses) > near*slices.Max(losses) {
			fmt.Printf("%s\tfailed\tthe ways end at different losses: %v\n", row, losses)
		}
	}
}

// measure prints time, peak of memory, blocks and launches of a step, and returns the last loss.
// more counts the steps that are taken beside those that all ways take.
func measure(d locus.Device, name string, j job, p precision, way string, rounds int, more *int) float64 {
	locus.Seed(1)
	locus.AllowTF32(p.tf32)
	defer locus.AllowTF32(false)
	model := nn.To(nn.Train(j.net()), d)
	x, y := j.x(d), j.y(d)
	began := time.Now()
	t := &trainer{job: j, model: model, o: j.opt(nn.Parameters(model)), half: p.half}
	step := ways[way](t, x, y)
	first := step().Item()
	firstStep := time.Since(began)
	warmed, warm := t.warm(d, step)
	firstCompiled := time.Since(began)
	for range 4 {
		step().Free()
	}
	d.Synchronize()
	if profile {
		fmt.Printf("%s\n%s\n", name, locus.Profile(func() { step().Free() }))
		return 0
	}
	d.ResetPeak()
	blocks, launched := stats(d).Allocations, launches(x)
	step().Free()
	blocks, launched = stats(d).Allocations-blocks, launches(x).Sub(launched)
	var times []float64
	for range rounds {
		began := time.Now()
		for range j.times {
			step().Free()
		}
		d.Synchronize()
		times = append(times, time.Since(began).Seconds()/float64(j.times))
	}
	slices.Sort(times)
	median := times[len(times)/2]
	for range *more {
		step().Free()
	}
	*more += warmed // the ways behind the compiled one take as many steps, so that losses can be compared
	last := step().Item()
	put := func(what string, v float64, unit string) { fmt.Printf("%s %s\t%.6g\t%s\n", name, what, v, unit) }
	put("step", median*1e3, "ms")
	put("throughput", float64(j.items)/median, "items/s")
	put("peak memory", float64(stats(d).Peak)/(1<<20), "MiB")
	put("blocks", float64(blocks), "per step")
	if n := launched.Total(); n > 0 {
		put("launches", float64(n), "per step")
	}
	put("first step", firstStep.Seconds(), "s")
	if warm {
		put("first compiled step", firstCompiled.Seconds(), "s")
	}
	fmt.Fprintf(os.Stderr, "# %s: loss %.5f, then %.5f\n", name, first, last)
	if !(last < first) {
		fmt.Fprintf(os.Stderr, "# WARNING: %s does not learn\n", name)
	}
	return last
}

// launches returns what was handed over so far to the device that x lives on, which is
// known of CUDA's alone.
func launches(x *locus.Tensor) cuda.Launches {
	if d, ok := lend.Backend(x).(interface{ Launches() cuda.Launches }); ok {
		return d.Launches()
	}
	return cuda.Launches{}
}

func stats(d locus.Device) locus.MemoryStats { return d.MemoryStats() }
