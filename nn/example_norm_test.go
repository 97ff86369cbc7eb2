package nn_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
)

// In training each channel gets the mean 0 and the deviation 1 over the batch; in use it
// is normalized with the running statistics, which Momentum says how fast to update.
func ExampleBatchNorm() {
	norm := nn.BatchNorm(1)
	norm.Momentum = 0.5
	x := locus.From([][]float32{{2}, {6}})
	fmt.Println("training:", norm.Forward(x))
	fmt.Println("running mean:", norm.RunningMean.Value())
	nn.Eval(norm)
	fmt.Printf("in use: %.2f\n", norm.Forward(locus.From([][]float32{{2}})).Item())
	// Output:
	// training: [[-1.0000]
	//  [ 1.0000]] float32 (2, 1) on cpu
	// running mean: [2] float32 (1,) on cpu
	// in use: 0.00
}

// 0 channels: the number is found at the first batch.
func ExampleBatchNorm_lazy() {
	net := nn.Sequential(nn.LazyConv2D(8, 3, locus.ConvOptions{}), nn.BatchNorm(0), nn.ReLU())
	net.Forward(locus.Ones(2, 3, 9, 9))
	fmt.Println(net.At(1).(*nn.BatchNormLayer).Weight.Value().Shape())
	// Output: [8]
}

// Each position of a sequence is normalized by itself, whatever the batch. Eps keeps what
// is nearly constant from being blown up.
func ExampleLayerNorm() {
	norm := nn.LayerNorm(4)
	norm.Eps = 1e-6
	y := norm.Forward(locus.As(locus.Float32).Arange(2*3*4).Reshape(2, 3, 4))
	fmt.Printf("%v mean %.2f deviation %.2f\n", y.Shape(), y.Index(0, 0).Mean().Abs().Item(), y.Index(0, 0).Square().Mean().Sqrt().Item())
	both := nn.LayerNorm(3, 4) // over the last two axes at once
	fmt.Println(both.Weight.Value().Shape())
	// Output:
	// [2 3 4] mean 0.00 deviation 1.00
	// [3 4]
}

// Division by the size alone, as language models do it: no mean is taken away, and there
// is no bias.
func ExampleRMSNorm() {
	norm := nn.RMSNorm(2)
	y := locus.ToSlice[float32](norm.Forward(locus.From([][]float32{{1, 7}}))) // of size 5
	fmt.Printf("%.2f %.2f\n", y[0], y[1])
	// Output: 0.20 1.40
}

// Statistics of each image over groups of channels: for batches too small for BatchNorm.
func ExampleGroupNorm() {
	norm := nn.GroupNorm(4, 32) // four groups of eight channels
	x := locus.CPU().Key(locus.NewKey(0)).Randn(1, 32, 5, 5).Mul(3).Add(2)
	y := norm.Forward(x).Reshape(4, -1)
	fmt.Printf("%.1f %.1f\n", y.Mean(1).Abs().Max().Item(), y.Std(1).Mean().Item())
	// Output: 0.0 1.0
}

// Statistics of each channel of each image, so that contrast and brightness of a single
// image do not matter: for style transfer.
func ExampleInstanceNorm() {
	norm := nn.InstanceNorm(3)
	dark := locus.CPU().Key(locus.NewKey(0)).Rand(1, 3, 8, 8)
	bright := dark.Mul(2).Add(1)
	fmt.Println(norm.Forward(dark).AllClose(norm.Forward(bright), 0, 1e-3))
	// Output: true
}

// Two replicas that see half of a batch each, normalized with the statistics of the whole
// batch: the result is that of one network.
func ExampleSyncBatchNorm() {
	x := locus.As(locus.Float32).Arange(8).Reshape(8, 1)
	want := nn.BatchNorm(1).Forward(x)
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU()})
	if err != nil {
		fmt.Println(err)
		return
	}
	parts := make([]*locus.Tensor, 2)
	var wg sync.WaitGroup
	for rank, g := range groups {
		wg.Go(func() {
			defer g.Close()
			replica := nn.SyncBatchNorm(nn.BatchNorm(1), g.Peers(context.Background()))
			parts[rank] = replica.Forward(x.Narrow(0, 4*rank, 4*rank+4))
		})
	}
	wg.Wait()
	fmt.Println(locus.Concat(0, parts...).AllClose(want, 0, 1e-5))
	// Output: true
}
