// Command placement trains a network whose layers are on two devices. Nothing but To
// says so: where a stage ends, its result is moved to the next one's device, and
// gradients come back the same way.
//
// With a whole batch at a time one device waits while the other works. Cut into
// micro-batches the batch goes through as in a pipeline: the second device works on
// one part while the first works on the next. The program queues everything from one
// goroutine, and the timeline tells how much of the work overlaps.
package main

import (
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func main() {
	if err := run(os.Stdout, 512, 3); err != nil {
		log.Fatal(err)
	}
}

// Pipeline is a network in stages, each on a device of its own.
type Pipeline struct {
	Stages []nn.Module
	places []locus.Device
}

// newPipeline puts the stages on the devices, in turn.
func newPipeline(devices []locus.Device, stages ...nn.Module) *Pipeline {
	p := &Pipeline{}
	for i, s := range stages {
		d := devices[i%len(devices)]
		p.Stages = append(p.Stages, nn.To(s, d))
		p.places = append(p.places, d)
	}
	return p
}

// Forward computes the network; the result is on the last device.
func (p *Pipeline) Forward(x *locus.Tensor) *locus.Tensor {
	for i, s := range p.Stages {
		x = s.Forward(x.To(p.places[i]))
	}
	return x
}

// last is where targets belong.
func (p *Pipeline) last() locus.Device { return p.places[len(p.places)-1] }

// Step collects the gradients of a batch that is cut into micro-batches, and returns
// the batch's mean loss. First all parts go forwards, then all backwards, so that each
// device's queue is full and no device waits for the program.
func (p *Pipeline) Step(x, y *locus.Tensor, parts int) *locus.Tensor {
	n := x.Dim(0)
	// Before anything is queued: in between, a copy would stand behind the first
	// device's work on the second one's queue, and make each wait for the other.
	y = y.To(p.last())
	losses := make([]*locus.Tensor, parts)
	for i := range parts {
		from, to := n*i/parts, n*(i+1)/parts
		scores := p.Forward(x.Narrow(0, from, to))
		// A part counts by its size, so uneven parts are right too.
		losses[i] = locus.CrossEntropy(scores, y.Narrow(0, from, to), locus.CrossEntropyOptions{Reduction: locus.ReduceSum}).Div(float64(n))
	}
	total := p.last().Zeros()
	for _, l := range losses {
		l.Backward() // adds to what the parameters have collected
		total = total.Add(l.Detach())
	}
	return total
}

func run(w io.Writer, width, epochs int) error {
	if n := locus.NumGPUs(); n < 2 {
		fmt.Fprintf(w, "%d GPU(s) found; adding virtual ones. They share this machine's cores: LOCUS_THREADS=1 gives each one.\n\n", n)
		locus.AddVirtualGPUs(2-n, 512<<20)
	}
	devices := []locus.Device{locus.GPU(0), locus.GPU(1)}
	net := newPipeline(devices, stages(width)...)
	for _, p := range nn.Parameters(net) {
		fmt.Fprintf(w, "%-20s %-10s on %s\n", p.Name, fmt.Sprint(p.Value().Shape()), p.Value().Device())
	}

	fmt.Fprintf(w, "\n%12s %12s %24s\n", "parts", "a step", "both devices at work")
	x, y, err := examples(512, devices[0])
	if err != nil {
		return err
	}
	for _, parts := range []int{1, 2, 4, 8} {
		if err := measure(w, net, x, y, parts); err != nil {
			return err
		}
	}

	fmt.Fprintln(w)
	one, err := fit(newPipeline(devices[:1], stages(width)...), epochs, 1)
	if err != nil {
		return err
	}
	two, err := fit(newPipeline(devices, stages(width)...), epochs, 4)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "epoch   one device   two, 4 parts    difference")
	for i := range one {
		fmt.Fprintf(w, "%5d   %10.6f   %12.6f   %11.1e\n", i+1, one[i], two[i], math.Abs(one[i]-two[i]))
	}
	return nil
}

// stages makes the network's halves, from the same first values every time.
func stages(width int) []nn.Module {
	l := func(key uint64, in, out int) nn.Module { return nn.Linear(in, out, nn.WithKey(locus.NewKey(key))) }
	return []nn.Module{
		nn.Sequential(nn.Flatten(), l(1, 64, width), nn.ReLU(), l(2, width, width), nn.ReLU()),
		nn.Sequential(l(3, width, width), nn.ReLU(), l(4, width, 10)),
	}
}

// examples returns digits as one batch.
func examples(n int, d locus.Device) (x, y *locus.Tensor, err error) {
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return nil, nil, err
	}
	loader, err := data.NewLoader(learn, data.Options{BatchSize: n, Device: d})
	if err != nil {
		return nil, nil, err
	}
	for batch, err := range loader.Epoch(0) {
		return batch.X(), batch.Y(), err
	}
	return nil, nil, fmt.Errorf("there are no digits")
}

// measure prints what a step takes, and the part of the busier device's time in which
// the other was at work too.
func measure(w io.Writer, net *Pipeline, x, y *locus.Tensor, parts int) error {
	params := nn.Parameters(net)
	step := func() {
		net.Step(x, y, parts)
		for _, p := range params {
			p.Value().ZeroGrad()
		}
	}
	best := time.Duration(math.MaxInt64)
	for range 4 { // the first loads what the step needs
		start := time.Now()
		step()
		for _, d := range net.places {
			if err := d.Synchronize(); err != nil {
				return err
			}
		}
		best = min(best, time.Since(start))
	}
	share := 0.0
	for range 3 {
		share = max(share, overlap(locus.Profile(step), net.places[0], net.last()))
	}
	fmt.Fprintf(w, "%12d %12v %22.0f %%\n", parts, best.Round(10*time.Microsecond), 100*share)
	return nil
}

// overlap is the part of the busier device's time in which the other was busy too.
func overlap(t *locus.Timeline, a, b locus.Device) float64 {
	return t.Overlap(a, b).Seconds() / max(t.Busy(a), t.Busy(b)).Seconds()
}

// fit trains, and returns the mean loss of each epoch.
func fit(net *Pipeline, epochs, parts int) ([]float64, error) {
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return nil, err
	}
	loader, err := data.NewLoader(learn, data.Options{BatchSize: 64, Shuffle: true, Key: locus.NewKey(1), Device: net.places[0]})
	if err != nil {
		return nil, err
	}
	opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{}) // one update per device
	var losses []float64
	for epoch := range epochs {
		total := net.last().Zeros()
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				return nil, err
			}
			total = total.Add(net.Step(batch.X(), batch.Y(), min(parts, batch.Size)).Mul(float64(batch.Size)))
			opt.Step()
		}
		losses = append(losses, total.Item()/float64(learn.Len()))
	}
	return losses, nil
}
