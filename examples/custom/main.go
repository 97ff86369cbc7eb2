// Command custom shows a layer of one's own whose parameters are raw tensors: a
// radial-basis layer, which knows some points of its input space and answers with
// how near an input is to each of them. It learns to draw a ring.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

func main() {
	if err := run(os.Stdout, locus.TryGPU()); err != nil {
		log.Fatal(err)
	}
}

// RadialBasis returns e^(-s·|x-c|²) for each of its points c. Any struct with a
// Forward is a layer; the tag makes a tensor a parameter, which is then trained,
// moved, saved and listed with all others.
type RadialBasis struct {
	Points *locus.Tensor `nn:"param"` // (points, features)
	Scale  *locus.Tensor `nn:"param"` // (points)
}

func newRadialBasis(key locus.Key, points, features int) *RadialBasis {
	return &RadialBasis{
		Points: locus.CPU().Key(key).Randn(points, features).RequireGrad(),
		Scale:  locus.Ones(points).RequireGrad(),
	}
}

// Forward maps x (N, features) to (N, points). Nothing in it names a device: it
// computes where its input and its parameters are.
func (l *RadialBasis) Forward(x *locus.Tensor) *locus.Tensor {
	distance := x.Unsqueeze(1).Sub(l.Points).Square().Sum(-1)
	return distance.Mul(l.Scale).Neg().Exp()
}

// Ring is a network of a layer of one's own and one of the library's.
type Ring struct {
	Near *RadialBasis
	Out  *nn.LinearLayer
}

// Forward returns one score for "outside" and one for "on the ring".
func (n *Ring) Forward(x *locus.Tensor) *locus.Tensor { return n.Out.Forward(n.Near.Forward(x)) }

func run(w io.Writer, device locus.Device) error {
	points := locus.CPU().Key(locus.NewKey(0)).Rand(2000, 2).Mul(4).Sub(2)
	set, err := data.NewTensorDataset(points, onRing(points))
	if err != nil {
		return err
	}

	net := &Ring{newRadialBasis(locus.NewKey(1), 16, 2), nn.LazyLinear(2)}
	model := train.Classifier(net)
	model.Optimizer = func(params []nn.Entry) *optim.Optimizer {
		return optim.Adam(params, 0.03, optim.AdamOptions{})
	}
	report, err := train.New(train.MaxEpochs(15), train.Devices(device)).
		Fit(model, train.Data{Train: set, BatchSize: 50})
	if err != nil {
		return err
	}

	fmt.Fprintf(w, "accuracy %.3f\n\n", report.Last().Train["accuracy"])
	for _, p := range nn.Parameters(net) {
		fmt.Fprintf(w, "%-12s %v on %s\n", p.Name, p.Value().Shape(), p.Value().Device())
	}
	fmt.Fprintln(w)
	draw(w, net, device)
	return nil
}

// onRing tells for each point whether it is at a distance of 0.8 to 1.5 from the
// middle.
func onRing(points *locus.Tensor) *locus.Tensor {
	r := points.Norm(1)
	return r.Gt(0.8).And(r.Lt(1.5)).Cast(locus.Int64)
}

// draw asks the network about a grid of points.
func draw(w io.Writer, net nn.Module, device locus.Device) {
	const rows, columns = 17, 41
	grid := locus.Meshgrid(device.Linspace(-2, 2, rows), device.Linspace(-2, 2, columns))
	points := locus.Stack(1, grid[0].Flatten(), grid[1].Flatten())
	answers := locus.ToSlice[int64](net.Forward(points).ArgMax(1))
	for i, a := range answers {
		fmt.Fprint(w, [2]string{"·", "#"}[a])
		if i%columns == columns-1 {
			fmt.Fprintln(w)
		}
	}
}
