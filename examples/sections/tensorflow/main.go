// Command tensorflow is the section "GPUs" of Dive into Deep Learning, translated line
// by line from TensorFlow. What stood there is in the comments.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus" // import tensorflow as tf
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

func main() {
	locus.AddVirtualGPUs(max(0, 2-locus.NumGPUs()), 0) // the section wants two GPUs
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	fmt.Fprintln(w, locus.CPU(), locus.GPU(), locus.GPU(1)) // tf.device('/CPU:0'), tf.device('/GPU:0'), …
	fmt.Fprintln(w, locus.NumGPUs())                        // len(tf.config.experimental.list_physical_devices('GPU'))
	fmt.Fprintln(w, locus.TryGPU(), locus.TryGPU(10), locus.TryAllGPUs())

	x := locus.From([]int{1, 2, 3}) // x = tf.constant([1, 2, 3])
	fmt.Fprintln(w, x.Device())     // x.device; here the CPU unless a GPU makes it

	X := locus.TryGPU().Ones(2, 3) // with try_gpu(): X = tf.ones((2, 3))
	fmt.Fprintln(w, X)
	Y := locus.TryGPU(1).Rand(2, 3) // with try_gpu(1): Y = tf.random.uniform((2, 3))
	fmt.Fprintln(w, Y)

	Z := X.To(locus.TryGPU(1)) // with try_gpu(1): Z = X
	fmt.Fprintln(w, X)
	fmt.Fprintln(w, Z)

	fmt.Fprintln(w, Y.Add(Z))              // Y + Z
	fmt.Fprintln(w, Z.To(Z.Device()) == Z) // with try_gpu(1): Z2 = Z; Z2 is Z

	// strategy = tf.distribute.MirroredStrategy(); with strategy.scope(): net = …
	// A replica per GPU is made by the trainer, below. To build layers on a device:
	var net *nn.SequentialLayer
	locus.WithDevice(locus.TryGPU(), func() {
		net = nn.Sequential(nn.LazyLinear(1)) // tf.keras.models.Sequential([tf.keras.layers.Dense(1)])
	})
	fmt.Fprintln(w, net.Forward(X)) // net(X)

	// net.layers[0].weights[0].device, net.layers[0].weights[1].device
	l := net.At(0).(*nn.LinearLayer)
	fmt.Fprintln(w, l.Weight.Device(), l.Bias.Device())

	// Training under the strategy: mirrored on all GPUs, or on the CPU.
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return err
	}
	model := train.Classifier(nn.Sequential(nn.Flatten(), nn.LazyLinear(10)))
	report, err := train.New(train.MaxEpochs(3), train.Devices(locus.TryAllGPUs()...)). // model.fit(X, y, epochs=3, batch_size=64)
												Fit(model, train.Data{Train: learn, BatchSize: 64})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "trained on %v\n", report.Devices)
	return nil
}
