package main

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// job is a network with its batch, loss and optimizer. small is the same at a size
// that a CPU trains in no time, for trying the program out.
type job struct {
	net    func() nn.Module
	x, y   func(d locus.Device) *locus.Tensor
	loss   func(out, y *locus.Tensor) *locus.Tensor
	opt    func(params []nn.Entry) *optim.Optimizer
	times  int  // steps per round
	items  int  // examples or tokens per step
	digits bool // x holds integers, which no precision changes
}

func classes(out, y *locus.Tensor) *locus.Tensor {
	s := out.Shape()
	return locus.CrossEntropy(out.Reshape(-1, s[len(s)-1]), y, locus.CrossEntropyOptions{})
}

func randn(shape ...int) func(d locus.Device) *locus.Tensor {
	return func(d locus.Device) *locus.Tensor { return d.Randn(shape...) }
}

func randint(below int, shape ...int) func(d locus.Device) *locus.Tensor {
	return func(d locus.Device) *locus.Tensor { return d.Randint(0, int64(below), shape...) }
}

func sgd(lr float64) func([]nn.Entry) *optim.Optimizer {
	return func(p []nn.Entry) *optim.Optimizer { return optim.SGD(p, lr, optim.SGDOptions{}) }
}

func adamw(lr float64) func([]nn.Entry) *optim.Optimizer {
	return func(p []nn.Entry) *optim.Optimizer { return optim.AdamW(p, lr, optim.AdamOptions{}) }
}

// jobs are the networks of steps_torch.py and steps_jax.py.
func jobs(small bool) map[string]job {
	pick := func(full, tiny int) int {
		if small {
			return tiny
		}
		return full
	}
	n, l, vocab := pick(8, 2), pick(1024, 32), pick(50304, 128)
	kinds, images, size := pick(1000, 10), pick(64, 4), pick(224, 32)
	rn, rl, words := pick(128, 4), pick(64, 8), pick(10000, 50)
	mn, ms, un, us := pick(128, 8), pick(96, 64), pick(16, 2), pick(128, 32)
	tn, tl, td := pick(8, 2), pick(256, 16), pick(512, 64)
	bn, bs := pick(128, 4), pick(96, 32)
	return map[string]job{
		"mlp":          {net: mlp, x: randn(256, 784), y: randint(10, 256), loss: classes, opt: sgd(0.1), times: 100, items: 256},
		"lenet":        {net: leNet, x: randn(128, 1, 28, 28), y: randint(10, 128), loss: classes, opt: sgd(0.1), times: 50, items: 128},
		"resnet18":     {net: resNet18, x: randn(bn, 3, bs, bs), y: randint(10, bn), loss: classes, opt: sgd(0.1), times: 20, items: bn},
		"transformer6": {net: func() nn.Module { return transformer(pick(6, 2), td, 8) }, x: randn(tn, tl, td), y: randint(1000, tn*tl), loss: classes, opt: adamw(1e-4), times: 10, items: tn * tl},
		"gpt2": {net: func() nn.Module { return gpt2(vocab, l, pick(768, 64), pick(12, 4), pick(12, 2)) }, x: randint(vocab, n, l), y: randint(vocab, n*l),
			loss: classes, opt: adamw(3e-4), times: 10, items: n * l, digits: true},
		"vit-s": {net: func() nn.Module { return vit(size, pick(16, 8), pick(384, 48), pick(6, 3), pick(12, 2), kinds) }, x: randn(images, 3, size, size), y: randint(kinds, images),
			loss: classes, opt: adamw(3e-4), times: 10, items: images},
		"gru": {net: func() nn.Module { return gru(words, pick(256, 16), pick(512, 32)) }, x: randint(words, rn, rl), y: randint(words, rn*rl),
			loss: classes, opt: sgd(1), times: 10, items: rn * rl, digits: true},
		"mobilenetv2": {net: func() nn.Module { return mobileNetV2(kinds) }, x: randn(mn, 3, ms, ms), y: randint(kinds, mn), loss: classes, opt: sgd(0.05), times: 10, items: mn},
		"unet": {net: func() nn.Module { return newUNet(3, pick(64, 8), 3) }, x: randn(un, 3, us, us), y: func(d locus.Device) *locus.Tensor { return d.Rand(un, 1, us, us).Gt(0.5).Cast(locus.Float32) },
			loss: func(out, y *locus.Tensor) *locus.Tensor {
				return locus.BCEWithLogits(out.Cast(locus.Float32), y, locus.BCEOptions{})
			},
			opt: func(p []nn.Entry) *optim.Optimizer { return optim.Adam(p, 1e-3, optim.AdamOptions{}) }, times: 10, items: un},
	}
}

func mlp() nn.Module { return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)) }

func leNet() nn.Module {
	pool := nn.AvgPool2D(2, locus.PoolOptions{})
	return nn.Sequential(
		nn.Conv2D(1, 6, 5, locus.ConvOptions{Padding: 2}), nn.Sigmoid(), pool,
		nn.Conv2D(6, 16, 5, locus.ConvOptions{}), nn.Sigmoid(), pool,
		nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))
}

func resNet18() nn.Module {
	layers := append(convNorm(3, 64, 7, 2, 1), nn.ReLU(), nn.MaxPool2D(3, locus.PoolOptions{Stride: 2, Padding: 1}))
	in := 64
	for _, out := range []int{64, 128, 256, 512} {
		stride := 2
		if out == in {
			stride = 1
		}
		layers = append(layers, nn.ResNetBlock(in, out, stride), nn.ResNetBlock(out, out, 1))
		in = out
	}
	return nn.Sequential(append(layers, nn.GlobalAvgPool(), nn.Linear(512, 10))...)
}

func transformer(layers, d, heads int) nn.Module {
	return nn.Sequential(nn.TransformerEncoder(layers, d, heads, nn.TransformerOptions{Hidden: 4 * d, PreNorm: true, Activation: locus.GeluActivation}), nn.Linear(d, 1000))
}

// gptNet has one table for reading words and for telling them.
type gptNet struct {
	Embed     *nn.EmbeddingLayer
	Positions *nn.LearnedPositionsLayer
	Body      *nn.Encoder
}

func gpt2(vocab, context, d, heads, layers int) nn.Module {
	init := nn.WithInit(nn.Normal(0, 0.02))
	return &gptNet{nn.Embedding(vocab, d, init), nn.LearnedPositions(context, d, init),
		nn.TransformerEncoder(layers, d, heads, nn.TransformerOptions{Hidden: 4 * d, PreNorm: true, Activation: locus.GeluTanhActivation, Causal: true, FinalNorm: true}, init)}
}

func (g *gptNet) Forward(x *locus.Tensor) *locus.Tensor {
	h := g.Body.Forward(g.Positions.Forward(g.Embed.Forward(x)))
	return locus.Linear(h, g.Embed.Weight.Value(), nil, locus.NoActivation)
}

type vitNet struct {
	Patch     *nn.ConvLayer
	Class     *nn.Parameter
	Positions *nn.LearnedPositionsLayer
	Body      *nn.Encoder
	Head      *nn.LinearLayer
}

func vit(size, patch, d, heads, layers, kinds int) nn.Module {
	positions := size / patch * (size / patch)
	return &vitNet{nn.Conv2D(3, d, locus.Pair(patch), locus.ConvOptions{Stride: locus.Pair(patch)}), nn.NewParameter(locus.Randn(1, 1, d).Mul(0.02)),
		nn.LearnedPositions(positions+1, d, nn.WithInit(nn.Normal(0, 0.02))),
		nn.TransformerEncoder(layers, d, heads, nn.TransformerOptions{Hidden: 4 * d, PreNorm: true, Activation: locus.GeluActivation, FinalNorm: true}), nn.Linear(d, kinds)}
}

func (v *vitNet) Forward(x *locus.Tensor) *locus.Tensor {
	p := v.Patch.Forward(x)
	s := p.Shape()
	p = p.Reshape(s[0], s[1], s[2]*s[3]).Transpose(1, 2)
	class := v.Class.Value().Expand(s[0], 1, s[1])
	h := v.Body.Forward(v.Positions.Forward(locus.Concat(1, class, p)))
	return v.Head.Forward(h.Narrow(1, 0, 1).Reshape(s[0], s[1]))
}

type gruNet struct {
	Embed *nn.EmbeddingLayer
	RNN   *nn.RecurrentLayer
	Out   *nn.LinearLayer
}

func gru(words, embed, hidden int) nn.Module {
	return &gruNet{nn.Embedding(words, embed), nn.GRU(embed, hidden, nn.RecurrentOptions{Layers: 2}), nn.Linear(hidden, words)}
}

func (g *gruNet) Forward(x *locus.Tensor) *locus.Tensor {
	return g.Out.Forward(g.RNN.Forward(g.Embed.Forward(x)))
}

// convNorm is a convolution that keeps the size of images, but for its stride, and a
// normalization.
func convNorm(in, out, kernel, stride, groups int) []nn.Module {
	geo := locus.ConvOptions{Stride: locus.Pair(stride), Padding: locus.Pair(kernel / 2), Groups: groups}
	return []nn.Module{nn.Conv2D(in, out, locus.Pair(kernel), geo, nn.NoBias()), nn.BatchNorm(out)}
}

func mobileNetV2(kinds int) nn.Module {
	net, in := append(convNorm(3, 32, 3, 2, 1), nn.ReLU6()), 32
	for _, s := range []struct{ expand, out, repeat, stride int }{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}} {
		for k := range s.repeat {
			stride, hidden := 1, in*s.expand
			if k == 0 {
				stride = s.stride
			}
			var body []nn.Module
			if s.expand != 1 {
				body = append(convNorm(in, hidden, 1, 1, 1), nn.ReLU6())
			}
			body = append(append(body, convNorm(hidden, hidden, 3, stride, hidden)...), nn.ReLU6())
			block := nn.Module(nn.Sequential(append(body, convNorm(hidden, s.out, 1, 1, 1)...)...))
			if stride == 1 && in == s.out {
				block = nn.Residual(block, nil)
			}
			net, in = append(net, block), s.out
		}
	}
	return nn.Sequential(append(append(net, convNorm(in, 1280, 1, 1, 1)...), nn.ReLU6(), nn.GlobalAvgPool(), nn.Linear(1280, kinds))...)
}

func twice(in, out int) nn.Module {
	return nn.Sequential(append(append(convNorm(in, out, 3, 1, 1), nn.ReLU()), append(convNorm(out, out, 3, 1, 1), nn.ReLU())...)...)
}

type uNet struct {
	Down   []nn.Module
	Bottom nn.Module
	Up     []nn.Module
	Merge  []nn.Module
	Out    *nn.ConvLayer
}

func newUNet(in, base, levels int) nn.Module {
	u := &uNet{Bottom: twice(base<<(levels-1), base<<levels), Out: nn.Conv2D(base, 1, 1, locus.ConvOptions{})}
	for k := range levels {
		out := base << k
		u.Down = append(u.Down, twice(in, out))
		in = out
	}
	for k := levels - 1; k >= 0; k-- {
		out := base << k
		u.Up = append(u.Up, nn.ConvTranspose2D(2*out, out, 2, locus.ConvTransposeOptions{Stride: 2}))
		u.Merge = append(u.Merge, twice(2*out, out))
	}
	return u
}

func (u *uNet) Forward(x *locus.Tensor) *locus.Tensor {
	var skips []*locus.Tensor
	for _, d := range u.Down {
		x = d.Forward(x)
		skips = append(skips, x)
		x = locus.MaxPool2D(x, 2, locus.PoolOptions{})
	}
	x = u.Bottom.Forward(x)
	for i, up := range u.Up {
		skip := skips[len(skips)-1-i]
		x = u.Merge[i].Forward(locus.Concat(1, skip, up.Forward(x)))
	}
	return u.Out.Forward(x)
}
