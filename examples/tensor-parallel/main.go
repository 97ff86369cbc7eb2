// Command tensor-parallel spreads the layers of a network over ranks: each rank has a
// part of every weight, so a network that is too large for one device fits several.
// Of two linear layers behind each other the first is split by its outputs and the
// second by its inputs; what lies between needs no communication, and each pair costs
// one all-reduce forwards and one backwards.
//
// The ranks are goroutines with a virtual GPU each where the program is started alone,
// and processes where a launcher starts it: locus launch -n 4 ./tensor-parallel
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func main() {
	if err := run(context.Background(), os.Stdout, 4, 100); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, w io.Writer, ranks, steps int) error {
	place, err := collective.FromEnv()
	if err != nil {
		return err
	}
	if place.Size > 1 {
		g, err := collective.Join(ctx, collective.At(place))
		if err != nil {
			return err
		}
		defer g.Close()
		return report(ctx, w, g, place.Device(), steps)
	}
	devices := locus.TryAllGPUs()
	if len(devices) < ranks { // enough for all ranks, of one kind
		devices = locus.AddVirtualGPUs(ranks, 64<<20)
	}
	return collective.RunLocal(devices[:ranks], func(g *collective.Group, d locus.Device) error { return report(ctx, w, g, d, steps) })
}

// whole makes the network on the CPU, from the same first values on every rank.
func whole(in, hidden, out int) (up, down *nn.LinearLayer) {
	return nn.Linear(in, hidden, nn.WithKey(locus.NewKey(1))), nn.Linear(hidden, out, nn.WithKey(locus.NewKey(2)))
}

// MLP is a pair of layers that are spread over the ranks.
type MLP struct {
	Up   *Columns
	Down *Rows
}

// Forward computes each rank's part of the hidden units, and the sum.
func (m *MLP) Forward(x *locus.Tensor) *locus.Tensor {
	return m.Down.Forward(m.Up.Forward(x).Relu())
}

// report trains the network on one device and spread over the ranks; rank 0 compares.
func report(ctx context.Context, w io.Writer, g *collective.Group, d locus.Device, steps int) error {
	const hidden = 256
	up, down := whole(64, hidden, 10)
	spread := &MLP{splitColumns(ctx, g, up, d), splitRows(ctx, g, down, d)}
	one := nn.Sequential(up, nn.ReLU(), down)
	all, parts := count(one), count(spread)

	ours, err := fit(spread, d, steps)
	if err != nil || g.Rank() > 0 {
		return err
	}
	alone, err := fit(one.To(d), d, steps) // the other ranks have nothing to do with it
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d ranks: %d of %d parameters on each\n\n%6s %14s %14s %12s\n", g.Size(), parts, all, "step", "on one device", "spread", "difference")
	for i := 0; i < steps; i += max(1, steps/5) {
		fmt.Fprintf(w, "%6d %14.6f %14.6f %12.1e\n", i, alone[i], ours[i], math.Abs(alone[i]-ours[i]))
	}
	return nil
}

func count(net any) int {
	n := 0
	for _, p := range nn.Parameters(net) {
		n += p.Value().Len()
	}
	return n
}

// fit takes steps on the digits, all of them at once, and returns the losses. All ranks
// have the same examples.
func fit(net nn.Module, d locus.Device, steps int) ([]float64, error) {
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return nil, err
	}
	loader, err := data.NewLoader(learn, data.Options{BatchSize: 256, Device: d})
	if err != nil {
		return nil, err
	}
	opt := optim.Adam(nn.Parameters(net), 0.003, optim.AdamOptions{}) // each rank updates its own part
	var losses []float64
	for epoch := 0; len(losses) < steps; epoch++ {
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				return nil, err
			}
			if len(losses) == steps {
				break
			}
			x := batch.X().Reshape(batch.Size, -1)
			loss := locus.CrossEntropy(net.Forward(x), batch.Y(), locus.CrossEntropyOptions{})
			loss.Backward()
			opt.Step()
			losses = append(losses, loss.Item())
		}
	}
	return losses, nil
}
