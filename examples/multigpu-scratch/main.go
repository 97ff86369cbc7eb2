// Command multigpu-scratch trains a convolutional network on several GPUs with nothing
// but tensors: the parameters are copied to each GPU, each batch is split over them,
// gradients are added up by hand, and every GPU takes the same step. ../multigpu does
// the same with a trainer, in one line.
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
)

func main() {
	if err := run(os.Stdout, 10); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, epochs int) error {
	if n := locus.NumGPUs(); n < 2 {
		fmt.Fprintf(w, "%d GPU(s) found; adding virtual ones. They share this machine's cores, so expect no gain in speed.\n\n", n)
		locus.AddVirtualGPUs(2-n, 256<<20)
	}
	one, err := fit([]locus.Device{locus.GPU(0)}, epochs)
	if err != nil {
		return err
	}
	two, err := fit([]locus.Device{locus.GPU(0), locus.GPU(1)}, epochs)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "epoch   loss on one   loss on two    difference")
	for i := range one.losses {
		fmt.Fprintf(w, "%5d   %11.6f   %11.6f   %11.1e\n", i+1, one.losses[i], two.losses[i], math.Abs(one.losses[i]-two.losses[i]))
	}
	fmt.Fprintf(w, "\naccuracy on unseen digits: %.3f and %.3f\n", one.accuracy, two.accuracy)
	fmt.Fprintf(w, "an epoch took %v on one GPU, %v on two: %.2f times as fast\n", one.epoch.Round(time.Millisecond), two.epoch.Round(time.Millisecond), one.epoch.Seconds()/two.epoch.Seconds())
	return nil
}

// outcome is what a run gave.
type outcome struct {
	losses   []float64
	accuracy float64
	epoch    time.Duration // the fastest
	params   [][]*locus.Tensor
}

// first makes the parameters of the network, on the CPU.
func first() []*locus.Tensor {
	k := locus.NewKey(7).Split(4)
	// The variance of signals is kept: 2 by the number of inputs, for rectifiers.
	normal := func(i, inputs int, shape ...int) *locus.Tensor {
		return locus.CPU().Key(k[i]).Randn(shape...).Mul(math.Sqrt(2 / float64(inputs)))
	}
	return []*locus.Tensor{
		normal(0, 3*3, 12, 1, 3, 3), locus.Zeros(12),
		normal(1, 12*3*3, 24, 12, 3, 3), locus.Zeros(24),
		normal(2, 24*2*2, 64, 24*2*2), locus.Zeros(64),
		normal(3, 64, 10, 64), locus.Zeros(10),
	}
}

// network computes scores for images x (N, 1, 8, 8), on whatever device x and p are.
func network(x *locus.Tensor, p []*locus.Tensor) *locus.Tensor {
	same := locus.ConvOptions{Padding: 1}
	h := locus.AvgPool2D(locus.Conv2D(x, p[0], p[1], same, locus.ReluActivation), 2, locus.PoolOptions{})
	h = locus.AvgPool2D(locus.Conv2D(h, p[2], p[3], same, locus.ReluActivation), 2, locus.PoolOptions{})
	h = locus.Linear(h.Reshape(x.Dim(0), -1), p[4], p[5], locus.ReluActivation)
	return locus.Linear(h, p[6], p[7])
}

// place copies the parameters to a device. CopyTo, not To: each device needs its own.
func place(params []*locus.Tensor, d locus.Device) []*locus.Tensor {
	copies := make([]*locus.Tensor, len(params))
	for i, p := range params {
		copies[i] = p.CopyTo(d).RequireGrad()
	}
	return copies
}

// splitBatch shares a batch out over the devices.
func splitBatch(x, y *locus.Tensor, devices []locus.Device) (xs, ys []*locus.Tensor) {
	n := x.Dim(0)
	for i, d := range devices {
		from, to := n*i/len(devices), n*(i+1)/len(devices)
		xs = append(xs, x.Narrow(0, from, to).To(d))
		ys = append(ys, y.Narrow(0, from, to).To(d))
	}
	return xs, ys
}

// allreduce adds tensors of several devices up on the first, and returns the sum on
// each. Copies between devices are explicit, and queued like everything else.
func allreduce(parts []*locus.Tensor) []*locus.Tensor {
	sum := parts[0]
	for _, p := range parts[1:] {
		sum = sum.Add(p.To(sum.Device()))
	}
	sums := make([]*locus.Tensor, len(parts))
	for i, p := range parts {
		sums[i] = sum.To(p.Device())
	}
	return sums
}

// trainBatch takes a step and returns the sum of the examples' losses on each device.
// Nothing in it waits: the devices compute while the loop goes on.
func trainBatch(x, y *locus.Tensor, params [][]*locus.Tensor, devices []locus.Device, rate float64) []*locus.Tensor {
	xs, ys := splitBatch(x, y, devices)
	losses := make([]*locus.Tensor, len(devices))
	grads := make([][]*locus.Tensor, len(devices))
	for i := range devices { // all devices' work is queued before any is done
		loss := locus.CrossEntropy(network(xs[i], params[i]), ys[i], locus.CrossEntropyOptions{Reduction: locus.ReduceSum})
		grads[i] = locus.GradOf(loss, params[i]...)
		losses[i] = loss.Detach()
	}
	step := rate / float64(x.Dim(0)) // the mean over the whole batch, however it was split
	for j := range params[0] {
		parts := make([]*locus.Tensor, len(devices))
		for i := range devices {
			parts[i] = grads[i][j]
		}
		for i, g := range allreduce(parts) {
			params[i][j] = params[i][j].Detach().Sub(g.Mul(step)).RequireGrad()
		}
	}
	return losses
}

func fit(devices []locus.Device, epochs int) (*outcome, error) {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return nil, err
	}
	loader, err := data.NewLoader(learn, data.Options{BatchSize: 32, Shuffle: true, Key: locus.NewKey(1)})
	if err != nil {
		return nil, err
	}
	o := &outcome{epoch: math.MaxInt64}
	for _, d := range devices {
		o.params = append(o.params, place(first(), d))
	}
	for epoch := range epochs {
		start := time.Now()
		totals := make([]*locus.Tensor, len(devices))
		for i, d := range devices {
			totals[i] = d.Zeros()
		}
		for batch, err := range loader.Epoch(epoch) {
			if err != nil {
				return nil, err
			}
			for i, l := range trainBatch(batch.X(), batch.Y(), o.params, devices, 0.1) {
				totals[i] = totals[i].Add(l)
			}
		}
		sum := 0.0
		for _, t := range totals {
			sum += t.Item() // the only wait of the epoch
		}
		o.losses = append(o.losses, sum/float64(learn.Len()))
		o.epoch = min(o.epoch, time.Since(start))
	}
	o.accuracy, err = accuracy(test, o.params[0], devices[0])
	return o, err
}

// accuracy tests on the first device, which has all that was learned.
func accuracy(test data.Dataset, params []*locus.Tensor, d locus.Device) (float64, error) {
	loader, err := data.NewLoader(test, data.Options{BatchSize: test.Len(), Device: d})
	if err != nil {
		return 0, err
	}
	right := 0.0
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			return 0, err
		}
		locus.NoGrad(func() {
			right += network(batch.X(), params).ArgMax(1).Eq(batch.Y()).Cast(locus.Float32).Mean().Item()
		})
	}
	return right, nil
}
