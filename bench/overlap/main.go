// Overlap measures what training a transformer with several ranks costs: how much of the
// time of the sums over ranks has ops of the backward pass in flight, by the timeline, and
// how long a step of the Trainer takes compared with the sum of its parts, which are a step
// of one rank alone with its part of the batch, and the sums alone.
//
//	go build -o overlap ./bench/overlap
//	locus launch -n 2 ./overlap                  the ring over TCP, on the CPU
//	locus launch -n 2 ./overlap -device gpu:0    NCCL where it serves, else staged
//
// -trace writes the timeline of rank 0 for ui.perfetto.dev.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

var (
	device = flag.String("device", "cpu", "where ranks compute")
	layers = flag.Int("layers", 6, "layers of the transformer")
	width  = flag.Int("width", 256, "width of the transformer")
	tokens = flag.Int("tokens", 64, "tokens of an example")
	batch  = flag.Int("batch", 8, "examples of a batch over all ranks")
	steps  = flag.Int("steps", 16, "steps that are timed")
	eager  = flag.Bool("eager", false, "do not compile")
	trace  = flag.String("trace", "", "write the timeline of rank 0 to a `file`")
)

func main() {
	flag.Parse()
	if err := measure(); err != nil {
		log.Fatal(err)
	}
}

func measure() error {
	d, err := locus.ParseDevice(*device)
	if err != nil {
		return err
	}
	ctx := context.Background()
	g, err := collective.Join(ctx)
	if err != nil {
		return err
	}
	defer g.Close()
	if g.Size() == 1 {
		return fmt.Errorf("one rank has nobody to sum gradients with: start it with locus launch -n 2")
	}
	const profiled = 4
	var line *locus.Timeline
	together, model, err := fit(d, *batch, train.Ranks(g), train.Profile(*steps+8, profiled, func(p train.Profiled) error {
		line = p.Timeline
		return nil
	}))
	if err != nil {
		return err
	}
	alone, _, err := fit(d, *batch/g.Size())
	if err != nil {
		return err
	}
	sums, bytes, err := reduce(ctx, g, model)
	if err != nil {
		return err
	}
	sum, hidden, n := overlap(line, d)
	if *trace != "" && g.Rank() == 0 {
		f, err := os.Create(*trace)
		if err != nil {
			return err
		}
		if err := line.WriteTrace(f); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	for r := range g.Size() { // one after the other
		if r == g.Rank() {
			ms := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }
			fmt.Printf("rank %d of %d, %s, by %s: gradients of %.1f MB in %d sums per step\n", r, g.Size(), d, g.Engine(d), float64(bytes)/1e6, n/profiled)
			fmt.Printf("  of %s of sums per step, %.0f %% with backward ops in flight\n", ms(sum/profiled), 100*hidden.Seconds()/max(sum.Seconds(), 1e-9))
			fmt.Printf("  a step: %s; its parts: %s alone + %s of sums = %s; ratio %.2f\n", ms(together), ms(alone), ms(sums), ms(alone+sums), together.Seconds()/(alone+sums).Seconds())
		}
		if err := g.Barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fit trains and returns the median time of a step, once it is compiled.
func fit(d locus.Device, batch int, opts ...train.Option) (time.Duration, *train.Supervised, error) {
	x := locus.CPU().Key(locus.NewKey(1)).Randn(4*batch, *tokens, *width)
	set, err := data.NewTensorDataset(x, locus.CPU().Key(locus.NewKey(2)).Randint(0, 1000, 4*batch))
	if err != nil {
		return 0, nil, err
	}
	k := nn.WithKey(locus.NewKey(3))
	m := train.Classifier(&pooled{nn.TransformerEncoder(*layers, *width, 8, nn.TransformerOptions{Hidden: 4 * *width, PreNorm: true, Activation: locus.GeluActivation}, k), nn.Linear(*width, 1000, k)})
	m.Optimizer = func(p []nn.Entry) *optim.Optimizer { return optim.AdamW(p, 1e-4, optim.AdamOptions{}) }
	var times []time.Duration
	var last time.Time
	skip, seen := 8, 0
	after := train.AfterStep(func(*train.Step) error {
		if err := d.Synchronize(); err != nil {
			return err
		}
		if seen++; seen > skip && seen <= skip+*steps {
			times = append(times, time.Since(last))
		}
		last = time.Now()
		return nil
	})
	all := append([]train.Option{train.Devices(d), train.MaxEpochs((skip+*steps)/4 + 3), train.LogEvery(0), train.Compile(!*eager), after}, opts...)
	report, err := train.New(all...).Fit(m, train.Data{Train: set, BatchSize: batch})
	if err != nil {
		return 0, nil, err
	}
	if report.Uncompiled != "" {
		fmt.Println("not compiled:", report.Uncompiled)
	}
	slices.Sort(times)
	return times[len(times)/2], m, nil
}

// pooled classifies by the mean over the tokens.
type pooled struct{ Encoder, Out nn.Module }

// Forward returns a score per class.
func (p *pooled) Forward(x *locus.Tensor) *locus.Tensor {
	return p.Out.Forward(p.Encoder.Forward(x).Mean(1))
}

// reduce returns how long the sums of a model's gradients take alone.
func reduce(ctx context.Context, g *collective.Group, m *train.Supervised) (time.Duration, int, error) {
	bytes := 0
	var d locus.Device
	for _, e := range nn.Parameters(m) {
		bytes += e.Value().Bytes()
		d = e.Value().Device()
	}
	const pieces = 8
	x := d.Ones(bytes / 4 / pieces)
	var times []time.Duration
	for range 9 {
		if err := g.Barrier(ctx); err != nil {
			return 0, 0, err
		}
		started := time.Now()
		var pending []*collective.Pending
		for range pieces {
			pending = append(pending, g.AllReduce(ctx, x, collective.Sum))
		}
		for _, p := range pending {
			y, err := p.Wait()
			if err != nil {
				return 0, 0, err
			}
			y.Free()
		}
		if err := d.Synchronize(); err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	return times[len(times)/2], bytes, nil
}

// overlap returns how long sums of gradients took, for how much of that the device ran ops,
// and their number.
func overlap(t *locus.Timeline, d locus.Device) (sum, hidden time.Duration, n int) {
	for _, c := range t.Spans {
		if !c.Host && !c.Beside || c.Name != "AllReduce" || !strings.Contains(c.Detail, "sum of float") {
			continue
		}
		n++
		sum += c.Time()
		at := c.Start
		for _, s := range t.Spans { // in order of their start
			if s.Host || s.Beside || s.Device != d || s.End <= at || s.Start >= c.End {
				continue
			}
			from, to := max(s.Start, at), min(s.End, c.End)
			hidden += to - from
			at = to
		}
	}
	return sum, hidden, n
}
