// Package model has the networks that the command can train, and keeps them in
// files that say what they are.
package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Names lists the networks, from the smallest to the largest.
var Names = []string{"softmax", "mlp", "lenet", "resnet"}

// About says in a few words what a network is.
var About = map[string]string{
	"softmax": "one linear layer",
	"mlp":     "two linear layers, 256 hidden units",
	"lenet":   "two convolutions, three linear layers",
	"resnet":  "three stages of residual blocks with batch normalization",
}

// LearningRate is a rate at which Adam trains a network well.
var LearningRate = map[string]float64{"softmax": 0.02, "mlp": 0.002, "lenet": 0.002, "resnet": 0.005}

// Build makes a network for images of shape (channels, height, width), with
// first values from seed.
func Build(name string, input []int, classes int, seed uint64) (net *nn.SequentialLayer, err error) {
	if !slices.Contains(Names, name) {
		return nil, fmt.Errorf("there is no model %q; there are %s", name, strings.Join(Names, ", "))
	}
	// Shapes come from files: one that claims too much must not fill the memory.
	const most = 1 << 22
	if len(input) != 3 || slices.Min(input) < 1 || slices.Max(input) > most || input[0]*input[1] > most || input[0]*input[1]*input[2] > most || classes < 1 || classes > 1<<17 {
		return nil, fmt.Errorf("cannot make a network for inputs of shape %v and %d classes", input, classes)
	}
	err = locus.Try(func() {
		keys := &keys{from: locus.NewKey(seed).Fold(1)}
		switch name {
		case "softmax":
			net = nn.Sequential(nn.Flatten(), nn.LazyLinear(classes, keys.next()))
		case "mlp":
			net = nn.Sequential(nn.Flatten(), nn.LazyLinear(256, keys.next()), nn.ReLU(), nn.LazyLinear(classes, keys.next()))
		case "lenet":
			net = lenet(input, classes, keys)
		case "resnet":
			net = resnet(input, classes, keys)
		}
		// Lazy layers learn their sizes here, so that the network is whole.
		nn.Eval(net)
		locus.NoGrad(func() { net.Forward(locus.CPU().Zeros(append([]int{1}, input...)...)) })
		nn.Train(net)
	})
	return net, err
}

// keys returns a key for each layer.
type keys struct {
	from locus.Key
	n    uint64
}

func (k *keys) next() nn.Option {
	k.n++
	return nn.WithKey(k.from.Fold(k.n))
}

// lenet has 5×5 convolutions, and 3×3 ones for images that those would use up.
func lenet(input []int, classes int, k *keys) *nn.SequentialLayer {
	first, second := locus.ConvOptions{Padding: 2}, locus.ConvOptions{}
	size := locus.Pair(5)
	if min(input[1], input[2]) < 16 {
		size, first, second = 3, locus.ConvOptions{Padding: 1}, locus.ConvOptions{Padding: 1}
	}
	return nn.Sequential(
		nn.LazyConv2D(6, size, first, k.next()), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{Ceil: true}),
		nn.LazyConv2D(16, size, second, k.next()), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{Ceil: true}),
		nn.Flatten(),
		nn.LazyLinear(120, k.next()), nn.ReLU(),
		nn.LazyLinear(84, k.next()), nn.ReLU(),
		nn.LazyLinear(classes, k.next()))
}

// resnet halves the image from stage to stage while it is large enough.
func resnet(input []int, classes int, k *keys) *nn.SequentialLayer {
	net := nn.Sequential(conv3(input[0], 16, 1, k), nn.BatchNorm(16), nn.ReLU())
	channels := 16
	for i, out := range []int{16, 32, 64} {
		stride := 1
		if i > 0 {
			stride = 2
		}
		net.Add(block(channels, out, stride, k), nn.ReLU())
		channels = out
	}
	return net.Add(nn.GlobalAvgPool(), nn.Flatten(), nn.LazyLinear(classes, k.next()))
}

func block(in, out, stride int, k *keys) nn.Module {
	body := nn.Sequential(conv3(in, out, stride, k), nn.BatchNorm(out), nn.ReLU(), conv3(out, out, 1, k), nn.BatchNorm(out))
	if in == out && stride == 1 {
		return nn.Residual(body, nil)
	}
	shortcut := nn.Conv2D(in, out, 1, locus.ConvOptions{Stride: locus.Pair(stride)}, nn.NoBias(), k.next())
	return nn.Residual(body, nn.Sequential(shortcut, nn.BatchNorm(out)))
}

func conv3(in, out, stride int, k *keys) nn.Module {
	return nn.Conv2D(in, out, 3, locus.ConvOptions{Stride: locus.Pair(stride), Padding: 1}, nn.NoBias(), k.next())
}
