package tour

import (
	"context"
	"io"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/weights"
)

// program is the tour: what is between two calls of step is shown, and is what
// runs. show prints; check ends the tour where err is not nil.
func program(ctx context.Context, progress io.Writer, folder string, step func(title, text string), show func(...any), check func(error)) {
	step("Devices", `A device is where tensors live and where ops on them run. The CPU stands for all cores and the main memory; a GPU stands for one card with its own memory. Virtual GPUs live in main memory, but programs cannot tell: they have their own limit, their own queue of work, and they fail as real ones do.`)
	for _, info := range locus.Devices() {
		show(info)
	}

	step("Names", `A device is a small value: compare it with ==, use it as a map key. GPU() is GPU(0), and the spellings of other frameworks are understood.`)
	show(locus.CPU(), locus.GPU(), locus.GPU(1))
	show(locus.GPU() == locus.GPU(0))
	other, err := locus.ParseDevice("cuda:1")
	check(err)
	show(other, other == locus.GPU(1))
	show(locus.NumGPUs(), "GPUs")

	step("Programs that run anywhere", `Naming a GPU does not need one to exist; using it does. TryGPU returns the CPU instead, and TryAllGPUs never returns an empty list.`)
	show(locus.TryGPU(), locus.TryGPU(10), locus.TryAllGPUs())
	show(locus.Try(func() { locus.GPU(10).Ones(2, 3) }))

	step("Tensors have a place", `By default tensors are made in main memory. Printing one always shows its shape, its element type and its place.`)
	a := locus.From([]float32{1, 2, 3})
	show(a)
	show(a.Device())

	step("Made on a GPU", `A device is also where you create: no options, no scopes. The tensor takes memory there and nowhere else.`)
	x := locus.TryGPU().Ones(2, 3)
	y := locus.TryGPU(1).Rand(2, 3)
	show(x)
	show(y)
	show(locus.GPU(0).MemoryStats())

	step("Two devices do not mix", `Where should x + y be computed? Locus does not guess, because a copy is slow and a hidden one is a slow program that looks fine. The error names both operands and the call that would fix it.`)
	show(locus.Try(func() { x.Add(y) }))

	step("Copying", `CopyTo makes a copy on another device. Then both operands are on the same one, and so is their sum.`)
	z := x.CopyTo(locus.GPU(1))
	show(z)
	show(y.Add(z))

	step("Copying only if need be", `To is the everyday verb: if the tensor is there already, it returns the tensor itself, without new memory. CopyTo always makes a copy.`)
	show("To returns z itself:", z.To(locus.GPU(1)) == z)
	show("CopyTo returns other memory:", !z.CopyTo(locus.GPU(1)).SharesMemory(z))

	step("What moved", `Every copy and every wait goes through one place, which keeps a ledger: what kind, how often, how much, how long, from which line. A guard can forbid a kind of transfer, for instance in a training loop. Here it catches the most common mistake, a loss that is read at every step.`)
	locus.ResetLedger()
	loss := y.Sub(z).Square().Mean()
	show(loss.Item())
	show(locus.Ledger())
	allow := locus.Guard(locus.Disallow, locus.DeviceToHost)
	show(locus.Try(func() { loss.Item() }))
	allow()

	step("Networks have a place, too", `A network's parameters live on a device; To moves all of them. The first input tells a lazy layer how large its weights are. With input and parameters on the same GPU, so is the output.`)
	net := nn.Sequential(nn.LazyLinear(1)).To(locus.TryGPU())
	show(net.Forward(x))
	linear := net.At(0).(*nn.LinearLayer)
	show(linear.Weight)
	show("parameters on", linear.Weight.Device(), "and", linear.Bias.Device())

	step("Reading and writing parameters", `Parameters are read and written like any tensor, where they are. A file does not remember the device: saved on a GPU, loaded wherever you like.`)
	linear.Bias.Set(linear.Bias.Value().Add(1))
	file := filepath.Join(folder, "linear.safetensors")
	check(weights.Save(file, nn.TreeOf(net), nil))
	saved, err := weights.Open(file)
	check(err)
	bias, err := saved.Load("0.bias", locus.CPU())
	check(err)
	show(bias)
	check(saved.Close())

	step("Training on two GPUs", `Handwritten digits, 8 by 8 pixels, are part of Locus. The trainer puts a replica of the network on each GPU, splits every batch over them, adds up the gradients, and takes the same step on both. Metrics are added up on the devices: the host reads them at the end of an epoch, not at every step.`)
	digits, test, err := data.DigitsSplit(locus.NewKey(0))
	check(err)
	model := train.Classifier(nn.Sequential(nn.Flatten(),
		nn.LazyLinear(128), nn.ReLU(), nn.LazyLinear(10)))
	model.Optimizer = func(p []nn.Entry) *optim.Optimizer {
		return optim.Adam(p, 0.003, optim.AdamOptions{})
	}
	trainer := train.New(train.MaxEpochs(10), train.NumGPUs(2),
		train.ClipGradients(1), train.Progress(progress))
	report, err := trainer.FitContext(ctx, model,
		train.Data{Train: digits, Validation: test, BatchSize: 64})
	check(err)
	show(report)

	step("Using what was learned", `The trained network is on the first GPU. Here are four digits that it has not seen, its predictions, and the right answers.`)
	batch, err := test.Batch([]int{0, 1, 2, 3}, locus.NewKey(0))
	check(err)
	guess := model.Forward(batch[0].To(locus.GPU(0))).ArgMax(1)
	show(picture(batch[0]))
	show("predicted", locus.ToSlice[int64](guess))
	show("and are  ", locus.ToSlice[int64](batch[1]))
}
