// Command parameter-server trains with a store that keeps the parameters: workers pull
// them, compute gradients on their share of the data, and push those. The store is
// made of collectives, a reduce and a broadcast, and its keys are spread over all
// ranks, so that no rank carries all the traffic. The same steps with an all-reduce
// stand beside it.
//
// The workers are goroutines with a virtual GPU each where the program is started
// alone, and processes where a launcher starts it:
//
//	go run ./examples/parameter-server
//	go build -o server ./examples/parameter-server && locus launch -n 4 ./server
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
)

func main() {
	if err := run(context.Background(), os.Stdout, 4, 60); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, w io.Writer, workers, steps int) error {
	place, err := collective.FromEnv()
	if err != nil {
		return err
	}
	if place.Size > 1 { // this process is one worker of several
		g, err := collective.Join(ctx, collective.At(place))
		if err != nil {
			return err
		}
		defer g.Close()
		return report(ctx, w, g, locus.CPU(), steps)
	}
	devices := locus.AddVirtualGPUs(workers, 64<<20)
	return collective.RunLocal(devices, func(g *collective.Group, d locus.Device) error {
		return report(ctx, w, g, d, steps)
	})
}

// report trains both ways; rank 0 says what came of it.
func report(ctx context.Context, w io.Writer, g *collective.Group, d locus.Device, steps int) error {
	served, err := fit(ctx, g, d, steps, true)
	if err != nil {
		return err
	}
	reduced, err := fit(ctx, g, d, steps, false)
	if err != nil || g.Rank() > 0 {
		return err
	}
	fmt.Fprintf(w, "%d workers, %d steps\n%-18s %12s %12s\n", g.Size(), steps, "", "loss", "a step")
	fmt.Fprintf(w, "%-18s %12.6f %12v\n", "parameter server", served.loss, served.step.Round(time.Microsecond))
	fmt.Fprintf(w, "%-18s %12.6f %12v\n", "all-reduce", reduced.loss, reduced.step.Round(time.Microsecond))
	for _, p := range served.net {
		fmt.Fprintf(w, "%-18s kept by worker %d\n", p.Name, keeper(p.Name, g.Size()))
	}
	return nil
}

// store keeps values under names. All ranks call push and pull in the same order.
type store struct {
	g    *collective.Group
	kept map[string]*locus.Tensor // those whose keeper this rank is
}

// keeper chooses the rank that keeps a name.
func keeper(name string, size int) int {
	h := 0
	for _, c := range name {
		h = 31*h + int(c)
	}
	return h % size
}

// set puts a first value there.
func (s *store) set(name string, x *locus.Tensor) {
	if keeper(name, s.g.Size()) == s.g.Rank() {
		s.kept[name] = x
	}
}

// push adds the sum of all ranks' x, times a factor, to what is kept.
func (s *store) push(ctx context.Context, name string, x *locus.Tensor, factor float64) error {
	sum, err := s.g.Reduce(ctx, x, collective.Sum, keeper(name, s.g.Size())).Wait()
	if err == nil && sum != nil { // on the keeper
		s.kept[name] = s.kept[name].Add(sum.Mul(factor))
	}
	return err
}

// pull returns what is kept, on every rank, on like's device.
func (s *store) pull(ctx context.Context, name string, like *locus.Tensor) (*locus.Tensor, error) {
	x := s.kept[name]
	if x == nil {
		x = like // of the same shape: what the others have to offer does not matter
	}
	return s.g.Broadcast(ctx, x, keeper(name, s.g.Size())).Wait()
}

// fitted is what a run gave.
type fitted struct {
	loss float64
	step time.Duration
	net  []nn.Entry
}

// fit trains a small network, each rank with its share of the examples.
func fit(ctx context.Context, g *collective.Group, d locus.Device, steps int, served bool) (*fitted, error) {
	set, err := data.SyntheticRegression(locus.NewKey(1), 400, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		return nil, err
	}
	loader, err := data.NewLoader(set, data.Options{BatchSize: set.Len(), Rank: g.Rank(), Ranks: g.Size(), Device: d})
	if err != nil {
		return nil, err
	}
	net := nn.Sequential(nn.Linear(2, 16, nn.WithKey(locus.NewKey(2))), nn.Tanh(), nn.Linear(16, 1, nn.WithKey(locus.NewKey(3)))).To(d)
	params := nn.Parameters(net)
	s := &store{g, map[string]*locus.Tensor{}}
	for _, p := range params {
		s.set(p.Name, p.Value().Detach())
	}
	const rate = 0.05
	o := &fitted{net: params}
	start := time.Now()
	for range steps {
		for batch, err := range loader.Epoch(0) {
			if err != nil {
				return nil, err
			}
			// The mean over all ranks' examples, of which this rank has a part.
			loss := locus.MSELoss(net.Forward(batch.X()), batch.Y(), locus.ReduceSum).Div(float64(batch.Whole))
			grads := locus.GradOf(loss, nn.Values(params)...)
			for i, p := range params {
				if served {
					err = s.push(ctx, p.Name, grads[i], -rate)
				} else {
					grads[i], err = g.AllReduce(ctx, grads[i], collective.Sum).Wait()
				}
				if err != nil {
					return nil, err
				}
			}
			for i, p := range params {
				next := p.Value().Detach()
				if served {
					next, err = s.pull(ctx, p.Name, next)
				} else {
					next = next.Add(grads[i].Mul(-rate))
				}
				if err != nil {
					return nil, err
				}
				p.Set(next)
			}
			total, err := g.AllReduce(ctx, loss.Detach().Reshape(1), collective.Sum).Wait()
			if err != nil {
				return nil, err
			}
			o.loss = total.Item()
		}
	}
	o.step = time.Since(start) / time.Duration(steps)
	return o, nil
}
