//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/layout"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.BiasActivate] = (*Device).runBiasAct
	runners[op.ActivationGradSum] = (*Device).runActGradSum
}

// biasParams is BiasAct of kernels/bias.cu.
type biasParams struct {
	out, in, bias   uintptr
	n               uint64
	channels, inner uint32
	act, _          int32
}

// runBiasAct queues adding a bias to each channel, and the activation of that. The result
// may be written over the operand: there is one launch, and nothing that starts over behind it.
func (d *Device) runBiasAct(c *backend.Call) error {
	x, bias, t := c.In[0], c.In[1], c.Out.DType
	if err := d.inOrder([]*backend.View{&x, &bias}, func(v *backend.View) bool {
		return v.Contiguous() || v == &x && x.ChannelsLast() && c.Out.ChannelsLast()
	}); err != nil {
		return err
	}
	n, channels, inner := x.Elements(), x.Shape[1], op.Elements(x.Shape[2:])
	p := biasParams{out: addr(&c.Out), in: addr(&x), bias: addr(&bias), n: uint64(n), channels: uint32(channels), act: activations[c.Attrs.(op.Epilogue).Act]}
	last := inner == 1 || x.ChannelsLast()
	if !last {
		p.inner = uint32(inner)
	}
	v, name := lanes(t), "bias_act_"
	switch aligned := (p.out|p.in)%16 == 0; {
	case aligned && last && channels%v == 0 && p.bias%16 == 0:
		name, p.n, p.channels = "bias_act_wide_", uint64(n/v), uint32(channels/v)
	case aligned && !last && inner%v == 0:
		name, p.n, p.inner = "bias_act_wide_", uint64(n/v), uint32(inner/v)
	}
	return runKernel(d, "bias", name+typeName(t), &p, oneEach(int(p.n)))
}

// gradSumParams is ActGradSum of kernels/bias.cu.
type gradSumParams struct {
	reduceParams
	y, result uintptr
	act, _    int32
}

// gradSums are the kernels of gradients with sums, and what those that share one are called there.
var gradSums = map[op.ID]struct {
	stem string
	act  op.ID
}{
	op.ReluGrad: {"act", op.Relu}, op.Relu6Grad: {"act", op.Relu6}, op.SigmoidGrad: {"act", op.Sigmoid}, op.TanhGrad: {"act", op.Tanh},
	op.GeluGrad: {stem: "gelu"}, op.GeluTanhGrad: {stem: "gelu_tanh"}, op.SiluGrad: {stem: "silu"},
}

// runActGradSum queues the gradient of an activation and its sums: in one launch where
// sums are of more than a few elements each, else as the two ops that they are.
func (d *Device) runActGradSum(c *backend.Call) error {
	a, t := c.Attrs.(op.GradSum), c.Out.DType
	g, y, sums := &c.In[0], &c.In[1], &c.More[0]
	kind, ok := gradSums[a.Grad]
	last := g.ChannelsLast() && y.ChannelsLast() && c.Out.ChannelsLast()
	if ok && t != dtype.Float64 && (last || g.Contiguous() && y.Contiguous() && c.Out.Contiguous()) && (addr(g)|addr(y)|addr(&c.Out))%16 == 0 {
		p := (*gradSumParams)(unsafe.Pointer(&d.params)) // see reduce
		which, grid, err := d.planReduce(&p.reduceParams, op.Sum, g, a.Axes, addr(sums))
		if err != nil {
			return err
		}
		if which != colKernel {
			k, err := d.kernel("bias", kind.stem+"_grad_sum"+reduceNames[which]+typeName(t))
			if err != nil {
				return err
			}
			p := paramsOf[gradSumParams](d, k)
			p.y, p.result, p.act = addr(y), addr(&c.Out), activations[kind.act]
			return d.launch(k, grid)
		}
	}
	single := backend.Call{Op: a.Grad, In: c.In, Out: c.Out}
	if last {
		single.In, single.Out = []backend.View{layout.Pixels(*g), layout.Pixels(*y)}, layout.Pixels(c.Out)
	}
	if err := runners[a.Grad](d, &single); err != nil {
		return err
	}
	return d.reduce(op.Sum, &c.Out, a.Axes, addr(sums))
}
