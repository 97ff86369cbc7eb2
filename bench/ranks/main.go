// Ranks measures what a second rank gains on a second core: a training step of an MLP and of
// LeNet by one rank alone, while the others wait, by all together with the same batch, and by
// each for itself with its part of the batch at the same time, where each step takes as long
// as on the slowest rank: the most that the machine can give.
//
//	go build -o ranks ./bench/ranks
//	LOCUS_THREADS=1 locus launch -n 2 ./ranks     in turns, several rounds; the goal is 1.8
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

const (
	rounds = 5
	skip   = 6  // steps that trace and compile
	steps  = 30 // steps that are timed
)

// work is a network and its batch.
type work struct {
	name  string
	batch int
	shape []int
	net   func(k locus.Key) nn.Module
}

var works = []work{
	{"MLP 784-256-10", 256, []int{784}, func(k locus.Key) nn.Module {
		s := k.Split(2)
		return nn.Sequential(nn.Linear(784, 256, nn.WithKey(s[0])), nn.ReLU(), nn.Linear(256, 10, nn.WithKey(s[1])))
	}},
	{"LeNet", 128, []int{1, 28, 28}, func(k locus.Key) nn.Module {
		s := k.Split(5)
		return nn.Sequential(nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: locus.Same}, nn.WithKey(s[0])), nn.Sigmoid(), nn.AvgPool2D(2, locus.PoolOptions{}),
			nn.Conv2D(6, 16, 5, locus.ConvOptions{}, nn.WithKey(s[1])), nn.Sigmoid(), nn.AvgPool2D(2, locus.PoolOptions{}),
			nn.Flatten(), nn.Linear(400, 120, nn.WithKey(s[2])), nn.Sigmoid(), nn.Linear(120, 84, nn.WithKey(s[3])), nn.Sigmoid(), nn.Linear(84, 10, nn.WithKey(s[4])))
	}},
}

func main() {
	if err := measure(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func measure(ctx context.Context) error {
	g, err := collective.Join(ctx)
	if err != nil {
		return err
	}
	defer g.Close()
	if g.Size() == 1 {
		return fmt.Errorf("one rank has nobody to share with: start it with locus launch -n 2")
	}
	for _, w := range works {
		var alone, together, apart, ratios []float64
		for range rounds {
			one := 0.0
			if g.Rank() == 0 {
				if one, err = fit(w); err != nil {
					return err
				}
			}
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			all, err := fit(w, train.Ranks(g))
			if err != nil {
				return err
			}
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			part := w
			part.batch /= g.Size()
			times, err := stepTimes(part)
			if err != nil {
				return err
			}
			slowest, err := g.AllReduce(ctx, locus.From(times), collective.Max).Wait()
			if err != nil {
				return err
			}
			own := median(locus.ToSlice[float64](slowest))
			alone, together, apart, ratios = append(alone, one), append(together, all), append(apart, own), append(ratios, one/all)
		}
		if g.Rank() == 0 {
			fmt.Printf("%s, batch %d, by %s: %.2f ms alone, %.2f ms on %d ranks, %.2f ms without exchange; %.2f times as fast (of each round: %.2f)\n",
				w.name, w.batch, g.Engine(locus.CPU()), 1e3*median(alone), 1e3*median(together), g.Size(), 1e3*median(apart), median(ratios), ratios)
		}
	}
	return nil
}

func median(l []float64) float64 {
	l = slices.Sorted(slices.Values(l))
	return l[len(l)/2]
}

// fit trains and returns the seconds of a step, the loader's work included.
func fit(w work, opts ...train.Option) (float64, error) {
	times, err := stepTimes(w, opts...)
	if err != nil {
		return 0, err
	}
	return median(times), nil
}

func stepTimes(w work, opts ...train.Option) ([]float64, error) {
	x := locus.CPU().Key(locus.NewKey(1)).Rand(append([]int{4 * w.batch}, w.shape...)...)
	set, err := data.NewTensorDataset(x, locus.CPU().Key(locus.NewKey(2)).Randint(0, 10, 4*w.batch))
	if err != nil {
		return nil, err
	}
	m := train.Classifier(w.net(locus.NewKey(3)))
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.01, optim.SGDOptions{}) }
	var times []float64
	last, seen := time.Time{}, 0
	after := train.AfterStep(func(*train.Step) error {
		if seen++; seen > skip {
			times = append(times, time.Since(last).Seconds())
		}
		last = time.Now()
		return nil
	})
	all := append([]train.Option{train.Devices(locus.CPU()), train.MaxEpochs((skip+steps)/4 + 1), train.LogEvery(0), after}, opts...)
	if _, err := train.New(all...).Fit(m, train.Data{Train: set, BatchSize: w.batch}); err != nil {
		return nil, err
	}
	return times, nil
}
