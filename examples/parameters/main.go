// Command parameters goes through what a program does with a network's parameters:
// looking at them, giving them first values of its own, sharing them between layers,
// writing them to a file and reading them back.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	net := nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(1))
	x := locus.CPU().Key(locus.NewKey(1)).Rand(2, 4)
	net.Forward(x) // lazy layers learn their sizes

	fmt.Fprintln(w, "looking: all parameters, and one of them")
	for _, p := range nn.Parameters(net) {
		fmt.Fprintf(w, "  %-10s %v\n", p.Name, p.Value().Shape())
	}
	fmt.Fprintln(w, "  bias of the last layer:", net.At(2).(*nn.LinearLayer).Bias.Value().Shape())

	fmt.Fprintln(w, "\nfirst values: of all layers, of one, and by a rule of one's own")
	nn.Initialize(net, locus.NewKey(6), nn.Normal(0, 0.01))
	nn.Initialize(net.At(2), locus.NewKey(3), nn.Constant(42))
	fmt.Fprintf(w, "  spread of the first weight %.4f, the last weight is %g\n", net.At(0).(*nn.LinearLayer).Weight.Value().Std().Item(), locus.ToSlice[float32](net.At(2).(*nn.LinearLayer).Weight.Value())[0])
	own := nn.Linear(4, 1000, nn.WithInit(sparse), nn.WithKey(locus.NewKey(4)))
	v := own.Weight.Value()
	fmt.Fprintf(w, "  by our rule %.2f of the weights are zero, and none of the others is below 5\n", 1-v.Ne(0).Cast(locus.Float32).Mean().Item())

	fmt.Fprintln(w, "\nsharing: a layer that stands in two places has one set of parameters")
	tied := newTied(locus.NewKey(5))
	for _, p := range nn.Parameters(tied) {
		fmt.Fprintf(w, "  %-14s %v\n", p.Name, p.Value().Shape())
	}
	grads := locus.GradOf(tied.Forward(locus.From([][]int{{1, 2}})).Sum(), tied.Words.Weight.Value())
	fmt.Fprintln(w, "  rows of the table with a gradient:", rowsWithGradient(grads[0]), "(two were looked up, all are scored against)")

	fmt.Fprintln(w, "\nreading and writing: tensors, a map of them, a network")
	folder, err := os.MkdirTemp("", "parameters")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	return files(w, folder, net, x)
}

// sparse is an initializer: half of the weights are 0, the others lie between 5 and 10
// or between -10 and -5. The maker knows device, type and key.
func sparse(m locus.Maker, shape []int) *locus.Tensor {
	u := m.Rand(shape...).Mul(20).Sub(10)
	return u.Mul(u.Abs().Ge(5).Cast(u.DType()))
}

// Tied is a language model's first and last layer: the table of words also scores the
// output, so both are one parameter.
type Tied struct {
	Words *nn.EmbeddingLayer
	Body  *nn.LinearLayer
	Out   *nn.LinearLayer // its Weight is Words' own
}

func newTied(key locus.Key) *Tied {
	k := key.Split(3)
	t := &Tied{
		Words: nn.Embedding(6, 4, nn.WithKey(k[0])),
		Body:  nn.Linear(4, 4, nn.WithKey(k[1])),
		Out:   nn.Linear(4, 6, nn.WithKey(k[2]), nn.NoBias()),
	}
	t.Out.Weight = t.Words.Weight // the same *nn.Parameter: one value, one gradient, one entry in a file
	return t
}

// Forward maps words (N, L) to scores of all words (N, L, 6).
func (t *Tied) Forward(x *locus.Tensor) *locus.Tensor {
	return t.Out.Forward(t.Body.Forward(t.Words.Forward(x)).Tanh())
}

func rowsWithGradient(g *locus.Tensor) int {
	n := 0
	for _, any := range locus.ToSlice[float32](g.Abs().Sum(1)) {
		if any > 0 {
			n++
		}
	}
	return n
}

// files writes and reads.
func files(w io.Writer, folder string, net *nn.SequentialLayer, x *locus.Tensor) error {
	// A tensor in NumPy's format, which other programs read too.
	if err := weights.SaveNPY(filepath.Join(folder, "x.npy"), x); err != nil {
		return err
	}
	// Several under names, with a text beside them; each is read by itself, to a device.
	mixed := filepath.Join(folder, "mixed.safetensors")
	if err := weights.Save(mixed, map[string]*locus.Tensor{"x": x, "zeros": locus.Zeros(4)}, map[string]string{"made": "here"}); err != nil {
		return err
	}
	f, err := weights.Open(mixed)
	if err != nil {
		return err
	}
	defer f.Close()
	back, err := f.Load("x", locus.TryGPU())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  %v, x is the same: %v\n", f.Names(), slices.Equal(locus.ToSlice[float32](back), locus.ToSlice[float32](x)))

	// A network's parameters. The program that reads them builds the network again.
	saved := filepath.Join(folder, "mlp.safetensors")
	if err := nn.Save(saved, net); err != nil {
		return err
	}
	clone := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
	if err := nn.Load(saved, clone); err != nil {
		return err
	}
	same := slices.Equal(locus.ToSlice[float32](net.Forward(x)), locus.ToSlice[float32](clone.Forward(x)))
	fmt.Fprintf(w, "  a network that was read gives the same outputs: %v\n", same)
	return nil
}
