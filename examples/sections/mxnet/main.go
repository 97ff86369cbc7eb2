// Command mxnet is the section "GPUs" of Dive into Deep Learning, translated line by
// line from MXNet (np and npx; nd of older editions beside it). What stood there is in
// the comments.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus" // from mxnet import np, npx
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn" // from mxnet.gluon import nn
	"github.com/locusml/locus/train"
)

func main() {
	locus.AddVirtualGPUs(max(0, 2-locus.NumGPUs()), 0) // the section wants two GPUs
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	fmt.Fprintln(w, locus.CPU(), locus.GPU(), locus.GPU(1)) // npx.cpu(), npx.gpu(), npx.gpu(1)
	fmt.Fprintln(w, locus.NumGPUs())                        // npx.num_gpus()
	fmt.Fprintln(w, locus.TryGPU(), locus.TryGPU(10), locus.TryAllGPUs())

	x := locus.From([]int{1, 2, 3}) // x = np.array([1, 2, 3])
	fmt.Fprintln(w, x.Device())     // x.ctx

	X := locus.TryGPU().Ones(2, 3) // X = np.ones((2, 3), ctx=try_gpu())
	fmt.Fprintln(w, X)
	Y := locus.TryGPU(1).Rand(2, 3) // Y = np.random.uniform(size=(2, 3), ctx=try_gpu(1))
	fmt.Fprintln(w, Y)

	Z := X.CopyTo(locus.TryGPU(1)) // Z = X.copyto(try_gpu(1))
	fmt.Fprintln(w, X)
	fmt.Fprintln(w, Z)

	fmt.Fprintln(w, Y.Add(Z))                       // Y + Z
	fmt.Fprintln(w, Z.To(locus.TryGPU(1)) == Z)     // Z.as_in_ctx(try_gpu(1)) is Z
	fmt.Fprintln(w, Z.CopyTo(locus.TryGPU(1)) == Z) // Z.copyto(try_gpu(1)) is Z
	fmt.Fprintln(w, Z.Add(2).Exp().Mul(Y))          // (Z + 2).exp() * Y

	net := nn.Sequential()          // net = nn.Sequential()
	net.Add(nn.LazyLinear(1))       // net.add(nn.Dense(1))
	net.To(locus.TryGPU())          // net.initialize(ctx=try_gpu())
	fmt.Fprintln(w, net.Forward(X)) // net(X)

	// net[0].weight.data().ctx
	fmt.Fprintln(w, net.At(0).(*nn.LinearLayer).Weight.Device())

	// set_scratch_params_device moves raw arrays that are parameters: the tag does.
	model := &scratch{W: locus.Rand(64, 10).Mul(0.01).RequireGrad(), B: locus.Zeros(10).RequireGrad()}
	nn.To(model, locus.TryGPU())
	fmt.Fprintln(w, model.W.Device(), model.B.Device())

	// prepare_batch and prepare_model are part of the trainer.
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return err
	}
	report, err := train.New(train.MaxEpochs(3), train.Devices(locus.TryGPU())).
		Fit(train.Classifier(model), train.Data{Train: learn, BatchSize: 64})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "trained on %v\n", report.Devices)
	return nil
}

// scratch is a network of raw arrays, as d2l's SoftmaxRegressionScratch.
type scratch struct {
	W *locus.Tensor `nn:"param"`
	B *locus.Tensor `nn:"param"`
}

func (s *scratch) Forward(x *locus.Tensor) *locus.Tensor {
	return x.Reshape(x.Dim(0), -1).MatMul(s.W).Add(s.B)
}
