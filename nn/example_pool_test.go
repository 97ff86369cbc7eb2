package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// The largest of each 2×2 window: half the height and width.
func ExampleMaxPool2D() {
	x := locus.As(locus.Float32).Arange(16).Reshape(1, 1, 4, 4)
	fmt.Println(nn.MaxPool2D(2, locus.PoolOptions{}).Forward(x).Reshape(2, 2))
	fmt.Println(nn.AvgPool2D(2, locus.PoolOptions{}).Forward(x).Reshape(2, 2))
	// Output:
	// [[ 5  7]
	//  [13 15]] float32 (2, 2) on cpu
	// [[ 2.5000  4.5000]
	//  [10.5000 12.5000]] float32 (2, 2) on cpu
}

// Windows that overlap (Stride), stick out (Ceil) or have gaps (Dilation); see
// locus.PoolOptions.
func ExampleMaxPool2D_options() {
	x := locus.Ones(1, 8, 32, 32)
	for _, o := range []locus.PoolOptions{{}, {Stride: 2, Padding: 1}, {Ceil: true}, {Dilation: 2}} {
		fmt.Println(nn.MaxPool2D(3, o).Forward(x).Shape())
	}
	// Output:
	// [1 8 10 10]
	// [1 8 16 16]
	// [1 8 11 11]
	// [1 8 10 10]
}

// Means at the border: zeros of the padding count as elements, unless they are excluded.
func ExampleAvgPool2D() {
	x := locus.Ones(1, 1, 1, 3)
	with := nn.AvgPool2D(locus.HW(1, 3), locus.PoolOptions{Stride: 1, Padding: locus.HW(0, 1)})
	without := nn.AvgPool2D(locus.HW(1, 3), locus.PoolOptions{Stride: 1, Padding: locus.HW(0, 1), ExcludePadding: true})
	fmt.Println(with.Forward(x).Reshape(3))
	fmt.Println(without.Forward(x).Reshape(3))
	// Output:
	// [0.6667 1.0000 0.6667] float32 (3,) on cpu
	// [1 1 1] float32 (3,) on cpu
}

// Sequences (N, C, L): the peak, or the mean, of each four steps.
func ExampleMaxPool1D() {
	x := locus.As(locus.Float32).Arange(8).Reshape(1, 1, 8)
	fmt.Println(nn.MaxPool1D(4, locus.PoolOptions{}).Forward(x).Reshape(2))
	fmt.Println(nn.AvgPool1D(4, locus.PoolOptions{}).Forward(x).Reshape(2))
	// Output:
	// [3 7] float32 (2,) on cpu
	// [1.5000 5.5000] float32 (2,) on cpu
}

// Volumes (N, C, D, H, W): a window that leaves the depth as it is.
func ExampleMaxPool3D() {
	x := locus.Ones(1, 4, 6, 16, 16)
	fmt.Println(nn.MaxPool3D(locus.DHW(1, 2, 2), locus.Pool3DOptions{}).Forward(x).Shape())
	fmt.Println(nn.AvgPool3D(2, locus.Pool3DOptions{}).Forward(x).Shape())
	// Output:
	// [1 4 6 8 8]
	// [1 4 3 8 8]
}

// A fixed size from images of any size, so that a linear layer fits behind it.
func ExampleAdaptiveAvgPool2D() {
	net := nn.Sequential(nn.AdaptiveAvgPool2D(locus.HW(4, 2)), nn.Flatten(), nn.Linear(3*4*2, 10))
	fmt.Println(net.Forward(locus.Ones(1, 3, 37, 50)).Shape())
	fmt.Println(net.Forward(locus.Ones(1, 3, 8, 9)).Shape())
	fmt.Println(nn.AdaptiveMaxPool2D(1).Forward(locus.Ones(1, 3, 8, 9)).Shape())
	// Output:
	// [1 10]
	// [1 10]
	// [1 3 1 1]
}

// Sequences of any length in three pieces: the mean and the largest of each.
func ExampleAdaptiveAvgPool1D() {
	x := locus.As(locus.Float32).Arange(9).Reshape(1, 1, 9)
	fmt.Println(nn.AdaptiveAvgPool1D(3).Forward(x).Reshape(3))
	fmt.Println(nn.AdaptiveMaxPool1D(3).Forward(x).Reshape(3))
	// Output:
	// [1 4 7] float32 (3,) on cpu
	// [2 5 8] float32 (3,) on cpu
}

// Volumes of any size to a fixed one.
func ExampleAdaptiveAvgPool3D() {
	x := locus.Ones(1, 4, 7, 20, 30)
	fmt.Println(nn.AdaptiveAvgPool3D(2).Forward(x).Shape())
	fmt.Println(nn.AdaptiveMaxPool3D(locus.DHW(1, 3, 3)).Forward(x).Shape())
	// Output:
	// [1 4 2 2 2]
	// [1 4 1 3 3]
}

// One number a channel, of images, sequences or volumes: the usual step between
// convolutions and the last linear layer.
func ExampleGlobalAvgPool() {
	x := locus.As(locus.Float32).Arange(8).Reshape(1, 2, 2, 2)
	fmt.Println(nn.GlobalAvgPool().Forward(x))
	fmt.Println(nn.GlobalMaxPool().Forward(x))
	// Output:
	// [[1.5000 5.5000]] float32 (1, 2) on cpu
	// [[3 7]] float32 (1, 2) on cpu
}

// The mean of each two steps, with one step of padding that does not count.
func ExampleAvgPool1D() {
	x := locus.From([]float32{2, 4, 6, 8}, 1, 1, 4)
	pool := nn.AvgPool1D(2, locus.PoolOptions{Padding: 1, ExcludePadding: true})
	fmt.Println(pool.Forward(x).Reshape(3))
	// Output: [2 5 8] float32 (3,) on cpu
}

// A video at half the number of pictures: the mean of each two.
func ExampleAvgPool3D() {
	x := locus.From([]float32{1, 3, 5, 7}, 1, 1, 4, 1, 1)
	fmt.Println(nn.AvgPool3D(locus.DHW(2, 1, 1), locus.Pool3DOptions{}).Forward(x).Reshape(2))
	// Output: [2 6] float32 (2,) on cpu
}

// The strongest answer of each filter anywhere in a text, whatever its length.
func ExampleAdaptiveMaxPool1D() {
	net := nn.Sequential(nn.Conv1D(8, 16, 3, locus.ConvOptions{}), nn.AdaptiveMaxPool1D(1), nn.Flatten())
	fmt.Println(net.Forward(locus.Ones(2, 8, 10)).Shape(), net.Forward(locus.Ones(2, 8, 37)).Shape())
	// Output: [2 16] [2 16]
}

// The largest of each quarter of an image of any size.
func ExampleAdaptiveMaxPool2D() {
	x := locus.As(locus.Float32).Arange(36).Reshape(1, 1, 6, 6)
	fmt.Println(nn.AdaptiveMaxPool2D(2).Forward(x).Reshape(2, 2))
	// Output:
	// [[14 17]
	//  [32 35]] float32 (2, 2) on cpu
}

// The same of a volume: an eighth each.
func ExampleAdaptiveMaxPool3D() {
	fmt.Println(nn.AdaptiveMaxPool3D(2).Forward(locus.Ones(1, 3, 5, 9, 9)).Shape())
	// Output: [1 3 2 2 2]
}

// Whether a pattern is anywhere in the image: the largest element of each channel.
func ExampleGlobalMaxPool() {
	net := nn.Sequential(nn.Conv2D(1, 4, 3, locus.ConvOptions{}), nn.GlobalMaxPool(), nn.Linear(4, 2))
	fmt.Println(net.Forward(locus.Ones(5, 1, 12, 20)).Shape())
	// Output: [5 2]
}
