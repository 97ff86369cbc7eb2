// Command curves trains small networks from fixed weights on fixed batches, in float32
// and in bfloat16, and writes the losses of all steps. curves.py trains the same with
// PyTorch and compares:
//
//	go build -o curves ./bench/curves && python3 bench/curves.py --binary ./curves
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/weights"
)

const (
	examples = 2048
	batch    = 64
	vocab    = 32
	length   = 16
)

// language is a small language model. Its names are those that curves.py uses.
type language struct {
	Embed   *nn.EmbeddingLayer
	Encoder *nn.Encoder
	Head    *nn.LinearLayer
}

func (l *language) Forward(x *locus.Tensor) *locus.Tensor {
	return l.Head.Forward(l.Encoder.Forward(l.Embed.Forward(x)))
}

// job is a network with its data and optimizer.
type job struct {
	net  nn.Module
	x, y *locus.Tensor
	opt  func([]nn.Entry) *optim.Optimizer
}

func jobs(d locus.Device) map[string]job {
	locus.Seed(7)
	// A teacher's classes, which a student of the same kind can learn.
	x := locus.Randn(examples, 20)
	teacher := nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 10))
	y := teacher.Forward(x).ArgMax(1)
	// Sequences in which a token follows from the one before, three times out of four.
	tokens := locus.ToSlice[int64](locus.Randint(0, vocab, examples, length+1))
	luck := locus.ToSlice[int64](locus.Randint(0, 4, examples, length+1))
	for i := range examples {
		for j := 1; j <= length; j++ {
			if at := i*(length+1) + j; luck[at] > 0 {
				tokens[at] = (tokens[at-1]*5 + 3) % vocab
			}
		}
	}
	all := locus.From(tokens, examples, length+1)
	model := &language{nn.Embedding(vocab, 64), nn.TransformerEncoder(2, 64, 4, nn.TransformerOptions{Hidden: 128}), nn.Linear(64, vocab)}
	sgd := func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, 0.05, optim.SGDOptions{}) }
	adamw := func(p []nn.Entry) *optim.Optimizer { return optim.AdamW(p, 1e-3, optim.AdamOptions{}) }
	return map[string]job{
		"mlp":         {nn.To(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), d), x.To(d), y.To(d), sgd},
		"transformer": {nn.To(nn.Train(model), d), all.Narrow(1, 0, length).Copy().To(d), all.Narrow(1, 1, length+1).Copy().To(d), adamw},
	}
}

func main() {
	dir := flag.String("dir", ".", "where files go")
	steps := flag.Int("steps", 1000, "steps")
	var d locus.Device
	flag.TextVar(&d, "device", locus.TryGPU(), "where to run")
	flag.Parse()
	for name, j := range jobs(d) {
		files := map[string]*locus.Tensor{"x": j.x, "y": j.y}
		begin := map[string]*locus.Tensor{}
		for _, e := range nn.State(j.net) {
			begin[e.Name] = e.Value().Copy()
			files["net."+e.Name] = begin[e.Name]
		}
		check(weights.SaveNPZ(filepath.Join(*dir, name+".npz"), files))
		for _, p := range []locus.DType{locus.Float32, locus.BFloat16} {
			for _, e := range nn.State(j.net) {
				e.Set(begin[e.Name].Copy())
			}
			check(write(filepath.Join(*dir, name+"."+p.String()+".txt"), train(j, p, *steps)))
		}
	}
}

// train returns the losses of all steps.
func train(j job, p locus.DType, steps int) []float64 {
	o := j.opt(nn.Parameters(j.net))
	losses := make([]*locus.Tensor, steps)
	for i := range steps {
		from := i * batch % examples
		locus.Scoped(func(s *locus.Scope) {
			x, y := s.Use(j.x.Narrow(0, from, from+batch)), j.y.Narrow(0, from, from+batch)
			net := j.net
			if p != locus.Float32 {
				net = nn.Lower(s, j.net, p)
				if x.DType() == locus.Float32 {
					x = x.Cast(p)
				}
			}
			out := net.Forward(x).Cast(locus.Float32)
			loss := locus.CrossEntropy(out.Reshape(-1, out.Dim(-1)), y.Reshape(-1), locus.CrossEntropyOptions{})
			loss.Backward()
			o.Step()
			losses[i] = s.Keep(loss.Detach())
		})
	}
	all := make([]float64, steps)
	for i, l := range losses {
		all[i] = l.Item()
	}
	return all
}

func write(path string, losses []float64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, l := range losses {
		fmt.Fprintf(w, "%.9g\n", l)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
