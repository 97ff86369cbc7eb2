package nn_test

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Images (N, C, H, W): a 3×3 kernel takes a border of one pixel away, unless the padding
// is Same. A stride of 2 halves the size.
func ExampleConv2D() {
	x := locus.Ones(1, 3, 32, 32)
	fmt.Println(nn.Conv2D(3, 8, 3, locus.ConvOptions{}).Forward(x).Shape())
	fmt.Println(nn.Conv2D(3, 8, 3, locus.ConvOptions{Padding: locus.Same}).Forward(x).Shape())
	fmt.Println(nn.Conv2D(3, 8, 3, locus.ConvOptions{Padding: 1, Stride: 2}).Forward(x).Shape())
	// Output:
	// [1 8 30 30]
	// [1 8 32 32]
	// [1 8 16 16]
}

// Kernels and their options are one number for both axes, or height and width. Groups of
// channels have kernels of their own: as many groups as channels is a depthwise
// convolution. A dilation spreads the kernel out, so that it sees more with as many weights.
func ExampleConv2D_options() {
	x := locus.Ones(1, 4, 32, 32)
	wide := nn.Conv2D(4, 8, locus.HW(1, 7), locus.ConvOptions{Padding: locus.HW(0, 3), Stride: locus.HW(1, 2)})
	fmt.Println("wide:", wide.Forward(x).Shape(), wide.Weight.Value().Shape())
	depthwise := nn.Conv2D(4, 4, 3, locus.ConvOptions{Groups: 4, Padding: 1}, nn.NoBias())
	fmt.Println("depthwise:", depthwise.Forward(x).Shape(), depthwise.Weight.Value().Shape())
	dilated := nn.Conv2D(4, 8, 3, locus.ConvOptions{Dilation: 4})
	fmt.Println("dilated:", dilated.Forward(x).Shape(), dilated.Weight.Value().Shape())
	// Output:
	// wide: [1 8 32 16] [8 4 1 7]
	// depthwise: [1 4 32 32] [4 1 3 3]
	// dilated: [1 8 24 24] [8 4 3 3]
}

// The number of input channels is found at the first batch: a small network for images of
// any number of channels and any size.
func ExampleLazyConv2D() {
	net := nn.Sequential(
		nn.LazyConv2D(8, 3, locus.ConvOptions{Padding: 1}), nn.BatchNorm(0), nn.ReLU(),
		nn.MaxPool2D(2, locus.PoolOptions{}),
		nn.LazyConv2D(16, 3, locus.ConvOptions{Padding: 1}), nn.ReLU(),
		nn.GlobalAvgPool(), nn.LazyLinear(10),
	)
	fmt.Println(net.Forward(locus.Ones(2, 3, 28, 20)).Shape())
	fmt.Println(net.At(0).(*nn.ConvLayer).Weight.Value().Shape())
	// Output:
	// [2 10]
	// [8 3 3 3]
}

// Sequences (N, C, L), such as sound or measurements over time, with a kernel that
// smooths each of them: the mean of three neighbors.
func ExampleConv1D() {
	smooth := nn.Conv1D(1, 1, 3, locus.ConvOptions{}, nn.WithInit(nn.Constant(1./3)), nn.NoBias())
	fmt.Println(smooth.Forward(locus.From([]float32{3, 3, 6, 6, 0}, 1, 1, 5)).Reshape(3))
	// Output: [4 5 4] float32 (3,) on cpu
}

// A stack of dilated convolutions of sequences sees 15 steps with three small kernels.
// The number of channels is found at the first batch.
func ExampleLazyConv1D() {
	net := nn.Sequential()
	for _, dilation := range []locus.Pair{1, 2, 4} {
		net.Add(nn.LazyConv1D(16, 3, locus.ConvOptions{Dilation: dilation, Padding: dilation}), nn.ReLU())
	}
	fmt.Println(net.Forward(locus.Ones(5, 2, 100)).Shape())
	// Output: [5 16 100]
}

// A transposed convolution enlarges images: with a stride of 2 to twice the size. Where
// the convolution that it undoes maps two sizes to one, OutputPadding chooses the larger.
func ExampleConvTranspose2D() {
	x := locus.Ones(1, 8, 7, 7)
	up := nn.ConvTranspose2D(8, 4, 2, locus.ConvTransposeOptions{Stride: 2})
	fmt.Println(up.Forward(x).Shape())
	back := locus.ConvTransposeOptions{Stride: 2, Padding: 1}
	fmt.Println(nn.ConvTranspose2D(8, 4, 3, back).Forward(x).Shape())
	back.OutputPadding = 1
	fmt.Println(nn.ConvTranspose2D(8, 4, 3, back).Forward(x).Shape())
	// Output:
	// [1 4 14 14]
	// [1 4 13 13]
	// [1 4 14 14]
}

// The decoder of an autoencoder, from a code of 16 channels back to images; the number of
// channels of the code is found at the first batch.
func ExampleLazyConvTranspose2D() {
	decoder := nn.Sequential(
		nn.LazyConvTranspose2D(8, 2, locus.ConvTransposeOptions{Stride: 2}), nn.ReLU(),
		nn.LazyConvTranspose2D(1, 2, locus.ConvTransposeOptions{Stride: 2}), nn.Sigmoid(),
	)
	fmt.Println(decoder.Forward(locus.Ones(2, 16, 7, 7)).Shape())
	// Output: [2 1 28 28]
}

// Sequences are enlarged likewise, four times here.
func ExampleConvTranspose1D() {
	up := nn.ConvTranspose1D(2, 3, 4, locus.ConvTransposeOptions{Stride: 4})
	fmt.Println(up.Forward(locus.Ones(1, 2, 25)).Shape())
	// Output: [1 3 100]
}

// Sound from a short code: each layer makes four steps of one, and finds the number of its
// channels at the first batch.
func ExampleLazyConvTranspose1D() {
	decoder := nn.Sequential(
		nn.LazyConvTranspose1D(8, 4, locus.ConvTransposeOptions{Stride: 4}), nn.ReLU(),
		nn.LazyConvTranspose1D(1, 4, locus.ConvTransposeOptions{Stride: 4}), nn.Tanh(),
	)
	fmt.Println(decoder.Forward(locus.Ones(2, 16, 10)).Shape())
	// Output: [2 1 160]
}

// A video (N, C, time, H, W) as a volume: the kernel sees three pictures at a time, and
// the stride halves only the pictures.
func ExampleLazyConv3D() {
	layer := nn.LazyConv3D(8, 3, locus.Conv3DOptions{Padding: 1, Stride: locus.DHW(1, 2, 2)})
	fmt.Println(layer.Forward(locus.Ones(1, 3, 6, 32, 32)).Shape(), layer.Weight.Value().Shape())
	// Output: [1 8 6 16 16] [8 3 3 3 3]
}

// Volumes are enlarged as images are.
func ExampleConvTranspose3D() {
	up := nn.ConvTranspose3D(4, 2, 2, locus.ConvTranspose3DOptions{Stride: 2})
	fmt.Println(up.Forward(locus.Ones(1, 4, 3, 5, 5)).Shape())
	// Output: [1 2 6 10 10]
}

// Pictures of a video twice as large, as many as before; the number of channels is found
// at the first batch.
func ExampleLazyConvTranspose3D() {
	up := nn.LazyConvTranspose3D(2, locus.DHW(1, 2, 2), locus.ConvTranspose3DOptions{Stride: locus.DHW(1, 2, 2)})
	fmt.Println(up.Forward(locus.Ones(1, 4, 3, 5, 5)).Shape(), up.Weight.Value().Shape())
	// Output: [1 2 3 10 10] [4 2 1 2 2]
}

// Images twice as large, without weights: pixels repeated, or with values between them.
func ExampleUpsample() {
	x := locus.From([]float32{0, 4}, 1, 1, 1, 2)
	fmt.Println(nn.Upsample(2, locus.InterpolateNearest).Forward(x).Shape())
	fmt.Println(nn.Upsample(locus.HW(1, 2), locus.InterpolateNearest).Forward(x).Reshape(4))
	fmt.Println(nn.Upsample(locus.HW(1, 2), locus.InterpolateBilinear).Forward(x).Reshape(4))
	// Output:
	// [1 1 2 4]
	// [0 0 4 4] float32 (4,) on cpu
	// [0 1 3 4] float32 (4,) on cpu
}

// The last layer of a network that makes images sharper: it computes four channels for
// each pixel, which become a square of 2×2.
func ExamplePixelShuffle() {
	net := nn.Sequential(nn.Conv2D(3, 3*4, 3, locus.ConvOptions{Padding: 1}), nn.PixelShuffle(2))
	fmt.Println(net.Forward(locus.Ones(1, 3, 10, 10)).Shape())
	// Output: [1 3 20 20]
}

// A shortcut around two layers. Where the body changes the shape, the shortcut needs a
// layer that does so too.
func ExampleResidual() {
	same := nn.Residual(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), nil)
	wider := nn.Residual(nn.Linear(8, 12), nn.Linear(8, 12, nn.NoBias()))
	fmt.Println(nn.Sequential(same, wider).Forward(locus.Ones(2, 8)).Shape())
	zero := nn.Residual(nn.Linear(2, 2, nn.NoBias(), nn.WithInit(nn.Constant(0))), nil)
	fmt.Println(zero.Forward(locus.From([][]float32{{1, 2}}))) // a body of zeros passes x on
	// Output:
	// [2 12]
	// [[1 2]] float32 (1, 2) on cpu
}

// A stage of a ResNet: the first block halves the image and doubles the channels, for
// which its shortcut has weights; the shortcut of the second is the input.
func ExampleResNetBlock() {
	first, second := nn.ResNetBlock(16, 32, 2), nn.ResNetBlock(32, 32, 1)
	fmt.Println(nn.Sequential(first, second).Forward(locus.Ones(2, 16, 8, 8)).Shape())
	fmt.Println(first.Downsample != nil, second.Downsample != nil)
	// Output:
	// [2 32 4 4]
	// true false
}
