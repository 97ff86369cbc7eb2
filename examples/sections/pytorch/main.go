// Command pytorch is the section "GPUs" of Dive into Deep Learning, translated line by
// line from PyTorch. What stood there is in the comments.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/locusml/locus" // import torch
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn" // from torch import nn
	"github.com/locusml/locus/train"
)

func main() {
	locus.AddVirtualGPUs(max(0, 2-locus.NumGPUs()), 0) // the section wants two GPUs
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	fmt.Fprintln(w, locus.CPU(), locus.GPU(), locus.GPU(1)) // cpu(), gpu(), gpu(1)
	fmt.Fprintln(w, locus.NumGPUs())                        // torch.cuda.device_count()

	// try_gpu(), try_gpu(10), try_all_gpus()
	fmt.Fprintln(w, locus.TryGPU(), locus.TryGPU(10), locus.TryAllGPUs())

	x := locus.From([]int{1, 2, 3}) // x = torch.tensor([1, 2, 3])
	fmt.Fprintln(w, x.Device())     // x.device

	X := locus.TryGPU().Ones(2, 3) // X = torch.ones(2, 3, device=try_gpu())
	fmt.Fprintln(w, X)
	Y := locus.TryGPU(1).Rand(2, 3) // Y = torch.rand(2, 3, device=try_gpu(1))
	fmt.Fprintln(w, Y)

	Z := X.To(locus.GPU(1)) // Z = X.cuda(1)
	fmt.Fprintln(w, X)      // print(X)
	fmt.Fprintln(w, Z)      // print(Z)

	fmt.Fprintln(w, Y.Add(Z))                // Y + Z
	fmt.Fprintln(w, Z.To(locus.GPU(1)) == Z) // Z.cuda(1) is Z

	net := nn.Sequential(nn.LazyLinear(1)) // net = nn.Sequential(nn.LazyLinear(1))
	net.To(locus.TryGPU())                 // net = net.to(device=try_gpu())
	fmt.Fprintln(w, net.Forward(X))        // net(X)

	// net[0].weight.data.device
	fmt.Fprintln(w, net.At(0).(*nn.LinearLayer).Weight.Value().Device())

	// The section extends d2l's Trainer by num_gpus, prepare_batch and prepare_model.
	// Locus' trainer has all three; min(num_gpus, d2l.num_gpus()) is Devices(TryGPU()).
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return err
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.LazyLinear(10)))
	trainer := train.New(train.MaxEpochs(3), train.Devices(locus.TryGPU()), train.ClipGradients(1)) // Trainer(max_epochs=3, num_gpus=1, gradient_clip_val=1)
	report, err := trainer.Fit(model, train.Data{Train: learn, BatchSize: 64})                      // trainer.fit(model, data)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "trained on %v\n", report.Devices)
	return exercises(w)
}

// exercises are those at the section's end; locus bench measures them with more care.
func exercises(w io.Writer) error {
	gpu := locus.TryGPU()
	for _, n := range []int{8, 256} { // 1. a large product on the CPU and on a GPU; and a small one?
		for _, d := range []locus.Device{locus.CPU(), gpu} {
			a := d.Rand(n, n) // a = torch.rand(n, n, device=d)
			start := time.Now()
			a.MatMul(a)                             // a @ a
			if err := d.Synchronize(); err != nil { // torch.cuda.synchronize()
				return err
			}
			fmt.Fprintf(w, "%d×%d on %s: %v\n", n, n, d, time.Since(start).Round(time.Microsecond))
		}
	}

	// 2. reading and writing parameters on a GPU
	layer := nn.Linear(3, 1)
	nn.To(layer, gpu)                                                  // layer.to(gpu)
	fmt.Fprintln(w, len(locus.ToSlice[float32](layer.Weight.Value()))) // layer.weight.data.tolist()
	layer.Weight.Set(gpu.Ones(1, 3))                                   // layer.weight.data.fill_(1)
	fmt.Fprintln(w, layer.Weight.Value())

	// 3. a thousand products, the norm of each: logged one by one, or kept on the GPU
	a := gpu.Rand(100, 100)
	norms := make([]*locus.Tensor, 1000)
	for i := range norms {
		norms[i] = a.MatMul(a).Norm() // torch.linalg.norm(a @ a), not read yet
	}
	read := locus.ToSlice[float32](locus.Stack(0, norms...)) // torch.stack(norms).tolist(): one copy
	fmt.Fprintln(w, len(read), "norms")

	// 4. two products on two GPUs at once: both are queued before either is waited for
	b := a.To(locus.TryGPU(1))
	a.MatMul(a)
	b.MatMul(b)
	if err := a.Device().Synchronize(); err != nil {
		return err
	}
	return b.Device().Synchronize()
}
