package nn_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// records holds what PyTorch computed: testdata/record.py wrote it.
var records = sync.OnceValue(func() map[string]*locus.Tensor {
	all := map[string]*locus.Tensor{}
	for _, name := range []string{"layers", "volumes"} {
		f, err := weights.Open("testdata/" + name + ".safetensors")
		if err != nil {
			panic(err)
		}
		some, err := f.LoadAll(locus.CPU())
		if err != nil {
			panic(err)
		}
		maps.Copy(all, some)
		f.Close()
	}
	return all
})

// numbered returns the records prefix/0, prefix/1, … on a device.
func numbered(prefix string, d locus.Device) []*locus.Tensor {
	var l []*locus.Tensor
	for {
		t, ok := records()[fmt.Sprint(prefix, "/", len(l))]
		if !ok {
			return l
		}
		l = append(l, t.To(d))
	}
}

// named returns the records below a prefix by the rest of their names.
func named(prefix string) map[string]*locus.Tensor {
	m := map[string]*locus.Tensor{}
	for n, t := range records() {
		if rest, ok := strings.CutPrefix(n, prefix+"/"); ok {
			m[rest] = t
		}
	}
	return m
}

// near fails if got differs from want by more than rounding.
func near(t *testing.T, what string, got, want *locus.Tensor, tolerance float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: there is none", what)
		return
	}
	if !slices.Equal(got.Shape(), want.Shape()) {
		t.Errorf("%s: shape %v, want %v", what, got.Shape(), want.Shape())
		return
	}
	a, b := values(got), values(want)
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= tolerance*(1+math.Abs(b[i]))) {
			t.Errorf("%s: element %d is %v, want %v", what, i, a[i], b[i])
			return
		}
	}
}

// f64 makes parameters in float64, as the records are.
var f64 = nn.WithDType(locus.Float64)

type tensors = []*locus.Tensor

// case of a layer: how it is made and how it is called.
type layerCase struct {
	layer any
	call  func(layer any, in tensors) tensors
	lazy  func() any // the same layer before it knows its inputs; nil if it is never lazy
}

// module calls Forward.
func module(layer any, in tensors) tensors {
	return tensors{layer.(nn.Module).Forward(in[0])}
}

func recurrent(layer any, in tensors) tensors {
	var s nn.RecurrentState
	if len(in) > 1 {
		s.H = in[1]
	}
	if len(in) > 2 {
		s.C = in[2]
	}
	y, s := layer.(*nn.RecurrentLayer).Run(in[0], s)
	if s.C != nil {
		return tensors{y, s.H, s.C}
	}
	return tensors{y, s.H}
}

func plain(l any) layerCase { return layerCase{layer: l, call: module} }

func layerCases() map[string]layerCase {
	type pool = locus.PoolOptions
	type conv = locus.ConvOptions
	type deconv = locus.ConvTransposeOptions
	type heads = nn.MultiHeadOptions
	type rec = nn.RecurrentOptions
	conv3 := locus.Conv3DOptions{Stride: locus.DHW(1, 2, 1), Padding: locus.DHW(1, 0, 1), Groups: 2}
	deconv3 := locus.ConvTranspose3DOptions{Stride: locus.DHW(2, 1, 2), Padding: locus.DHW(1, 0, 1), OutputPadding: locus.DHW(1, 0, 0), Groups: 2}
	deep := rec{Layers: 2, Bidirectional: true}
	cases := map[string]layerCase{
		"linear":        {nn.Linear(5, 3, f64), module, func() any { return nn.LazyLinear(3, f64) }},
		"linear_nobias": {nn.Linear(5, 3, f64, nn.NoBias()), module, func() any { return nn.LazyLinear(3, f64, nn.NoBias()) }},
		"bilinear":      {layer: nn.Bilinear(3, 5, 2, f64), call: func(l any, in tensors) tensors { return tensors{l.(*nn.BilinearLayer).Forward(in[0], in[1])} }},
		"conv1d":        {nn.Conv1D(4, 6, 3, conv{Stride: 2, Padding: 1, Groups: 2}, f64), module, func() any { return nn.LazyConv1D(6, 3, conv{Stride: 2, Padding: 1, Groups: 2}, f64) }},
		"conv2d": {nn.Conv2D(3, 5, locus.HW(3, 2), conv{Stride: locus.HW(1, 2), Padding: locus.HW(1, 0), Dilation: locus.HW(2, 1)}, f64), module, func() any {
			return nn.LazyConv2D(5, locus.HW(3, 2), conv{Stride: locus.HW(1, 2), Padding: locus.HW(1, 0), Dilation: locus.HW(2, 1)}, f64)
		}},
		"conv_transpose1d": {nn.ConvTranspose1D(3, 4, 3, deconv{Stride: 2, Padding: 1, OutputPadding: 1}, f64), module, func() any { return nn.LazyConvTranspose1D(4, 3, deconv{Stride: 2, Padding: 1, OutputPadding: 1}, f64) }},
		"conv_transpose2d": {nn.ConvTranspose2D(4, 6, locus.HW(3, 2), deconv{Stride: locus.HW(2, 1), Padding: locus.HW(1, 0), Groups: 2}, f64), module, func() any {
			return nn.LazyConvTranspose2D(6, locus.HW(3, 2), deconv{Stride: locus.HW(2, 1), Padding: locus.HW(1, 0), Groups: 2}, f64)
		}},
		"embedding":           plain(nn.Embedding(7, 3, f64, nn.PaddingIndex(2))),
		"prelu":               plain(nn.PReLU(1, f64)),
		"prelu_channels":      plain(nn.PReLU(4, f64)),
		"batch_norm":          {nn.BatchNorm(5, f64), module, func() any { return nn.BatchNorm(0, f64) }},
		"batch_norm_images":   {nn.BatchNorm(3, f64), module, func() any { return nn.BatchNorm(0, f64) }},
		"batch_norm_volumes":  {nn.BatchNorm(3, f64), module, func() any { return nn.BatchNorm(0, f64) }},
		"conv3d":              {nn.Conv3D(4, 6, locus.DHW(2, 3, 2), conv3, f64), module, func() any { return nn.LazyConv3D(6, locus.DHW(2, 3, 2), conv3, f64) }},
		"conv_transpose3d":    {nn.ConvTranspose3D(4, 6, locus.DHW(2, 3, 2), deconv3, f64), module, func() any { return nn.LazyConvTranspose3D(6, locus.DHW(2, 3, 2), deconv3, f64) }},
		"max_pool3d":          plain(nn.MaxPool3D(locus.DHW(3, 2, 2), locus.Pool3DOptions{Stride: 2})),
		"avg_pool3d":          plain(nn.AvgPool3D(locus.DHW(3, 2, 2), locus.Pool3DOptions{Stride: 2})),
		"adaptive_avg_pool3d": plain(nn.AdaptiveAvgPool3D(locus.DHW(3, 2, 2))),
		"adaptive_max_pool3d": plain(nn.AdaptiveMaxPool3D(locus.DHW(3, 2, 2))),
		"batch_norm_eval":     {nn.Eval(nn.BatchNorm(3, f64)), module, func() any { return nn.Eval(nn.BatchNorm(0, f64)) }},
		"layer_norm":          plain(nn.Cast(nn.LayerNorm(3, 5), locus.Float64)),
		"group_norm":          plain(nn.Cast(nn.GroupNorm(3, 6), locus.Float64)),
		"instance_norm":       plain(nn.Cast(nn.InstanceNorm(3), locus.Float64)),
		"rms_norm":            plain(nn.Cast(nn.RMSNorm(5), locus.Float64)),

		"rnn":         {nn.RNN(3, 5, rec{}, f64), recurrent, func() any { return nn.LazyRNN(5, rec{}, f64) }},
		"rnn_relu":    {nn.RNN(3, 5, rec{Layers: 2, Bidirectional: true, ReLU: true}, f64), recurrent, func() any { return nn.LazyRNN(5, rec{Layers: 2, Bidirectional: true, ReLU: true}, f64) }},
		"lstm":        {nn.LSTM(3, 5, rec{}, f64), recurrent, func() any { return nn.LazyLSTM(5, rec{}, f64) }},
		"lstm_deep":   {nn.LSTM(3, 4, rec{Layers: 3, Bidirectional: true}, f64), recurrent, func() any { return nn.LazyLSTM(4, rec{Layers: 3, Bidirectional: true}, f64) }},
		"lstm_nobias": {nn.LSTM(3, 4, rec{}, f64, nn.NoBias()), recurrent, func() any { return nn.LazyLSTM(4, rec{}, f64, nn.NoBias()) }},
		"gru":         {nn.GRU(3, 5, rec{}, f64), recurrent, func() any { return nn.LazyGRU(5, rec{}, f64) }},
		"gru_deep":    {nn.GRU(3, 5, deep, f64, nn.NoBias()), recurrent, func() any { return nn.LazyGRU(5, deep, f64, nn.NoBias()) }},

		"attention":           plain(nn.MultiHeadAttention(6, 3, heads{}, f64)),
		"attention_causal":    plain(nn.MultiHeadAttention(6, 2, heads{Causal: true}, f64)),
		"attention_unbatched": plain(nn.MultiHeadAttention(6, 3, heads{}, f64)),
		"attention_cross": {layer: nn.MultiHeadAttention(6, 3, heads{KeyFeatures: 4, ValueFeatures: 5}, f64), call: func(l any, in tensors) tensors {
			return tensors{l.(*nn.MultiHeadAttentionLayer).Attend(in[0], in[1], in[2], nil)}
		}},
		"attention_padding": {layer: nn.MultiHeadAttention(6, 3, heads{}, f64, nn.NoBias()), call: func(l any, in tensors) tensors {
			return tensors{l.(*nn.MultiHeadAttentionLayer).Attend(in[0], in[1], in[1], nn.PaddingMask(in[2], 7))}
		}},
		"attention_mask": {layer: nn.MultiHeadAttention(6, 3, heads{}, f64), call: func(l any, in tensors) tensors {
			return tensors{l.(*nn.MultiHeadAttentionLayer).Attend(in[0], in[1], in[2], in[3])}
		}},

		"sinusoidal":     plain(nn.Sinusoidal(6, 0)),
		"sinusoidal_odd": plain(nn.Sinusoidal(5, 0)),
		"rotary":         plain(nn.Rotary(4, 0)),

		"resnet_block":      plain(nn.ResNetBlock(3, 3, 1, f64)),
		"resnet_block_down": plain(nn.ResNetBlock(3, 4, 2, f64)),

		"upsample":            plain(nn.Upsample(2, locus.InterpolateBilinear)),
		"upsample_nearest":    plain(nn.Upsample(locus.HW(3, 2), locus.InterpolateNearest)),
		"pixel_shuffle":       plain(nn.PixelShuffle(2)),
		"max_pool1d":          plain(nn.MaxPool1D(3, pool{Stride: 2, Padding: 1})),
		"avg_pool1d":          plain(nn.AvgPool1D(3, pool{Stride: 2, Padding: 1})),
		"max_pool2d":          plain(nn.MaxPool2D(locus.HW(3, 2), pool{Stride: 2})),
		"avg_pool2d":          plain(nn.AvgPool2D(locus.HW(3, 2), pool{Stride: 2})),
		"adaptive_avg_pool1d": plain(nn.AdaptiveAvgPool1D(4)),
		"adaptive_max_pool1d": plain(nn.AdaptiveMaxPool1D(4)),
		"adaptive_avg_pool2d": plain(nn.AdaptiveAvgPool2D(locus.HW(3, 2))),
		"adaptive_max_pool2d": plain(nn.AdaptiveMaxPool2D(locus.HW(3, 2))),
		"global_avg_pool":     plain(nn.GlobalAvgPool()),
		"global_max_pool":     plain(nn.GlobalMaxPool()),
		"flatten":             plain(nn.Flatten()),

		"relu": plain(nn.ReLU()), "sigmoid": plain(nn.Sigmoid()), "tanh": plain(nn.Tanh()), "gelu": plain(nn.GELU()), "gelu_tanh": plain(nn.GELUTanh()),
		"silu": plain(nn.SiLU()), "leaky_relu": plain(nn.LeakyReLU(0.1)), "elu": plain(nn.ELU(0.7)), "celu": plain(nn.CELU(0.7)), "selu": plain(nn.SELU()),
		"relu6": plain(nn.ReLU6()), "mish": plain(nn.Mish()), "softplus": plain(nn.Softplus()), "softsign": plain(nn.Softsign()),
		"log_sigmoid": plain(nn.LogSigmoid()), "hard_sigmoid": plain(nn.HardSigmoid()), "hard_swish": plain(nn.HardSwish()),
		"hard_tanh": plain(nn.HardTanh(-0.5, 1.5)), "tanh_shrink": plain(nn.TanhShrink()), "soft_shrink": plain(nn.SoftShrink(0.4)),
		"hard_shrink": plain(nn.HardShrink(0.4)), "threshold": plain(nn.Threshold(0.2, -1)), "glu": plain(nn.GLU(1)), "softmax": plain(nn.Softmax(1)),
		"softmin": plain(nn.Softmin(1)), "log_softmax": plain(nn.LogSoftmax(1)), "identity": plain(nn.Identity()),
	}
	for kind, o := range map[string]nn.TransformerOptions{"post": {Hidden: 7}, "pre": {Hidden: 7, PreNorm: true, Activation: locus.GeluActivation}} {
		cases["encoder_layer_"+kind] = plain(nn.TransformerEncoderLayer(6, 3, o, f64))
		cases["decoder_layer_"+kind] = layerCase{layer: nn.TransformerDecoderLayer(6, 3, o, f64), call: func(l any, in tensors) tensors {
			return tensors{l.(*nn.DecoderLayer).Decode(in[0], in[1], nil, nil)}
		}}
	}
	cases["encoder"] = layerCase{layer: nn.TransformerEncoder(2, 6, 2, nn.TransformerOptions{Hidden: 7, FinalNorm: true}, f64), call: func(l any, in tensors) tensors {
		return tensors{l.(*nn.Encoder).Encode(in[0], nn.PaddingMask(in[1], 5))}
	}}
	cases["decoder"] = layerCase{layer: nn.TransformerDecoder(2, 6, 2, nn.TransformerOptions{Hidden: 7, FinalNorm: true, PreNorm: true}, f64), call: func(l any, in tensors) tensors {
		return tensors{l.(*nn.Decoder).Decode(in[0], in[1], nil, nn.PaddingMask(in[2], 5))}
	}}
	return cases
}

// recorded fails unless PyTorch's word on a case is there.
func recorded(t *testing.T, name string) {
	t.Helper()
	if records()[name+"/out/0"] == nil {
		t.Fatalf("there is no record of %q: add it to testdata/record.py, and run that", name)
	}
}

// fill gives a layer the recorded state, which must have its very names.
func fill(t *testing.T, layer any, name string, d locus.Device) {
	t.Helper()
	recorded(t, name)
	state := named(name + "/state")
	for _, e := range nn.State(layer) {
		v, ok := state[e.Name]
		if !ok {
			t.Fatalf("PyTorch has no %s", e.Name)
		}
		delete(state, e.Name)
		if have := e.Value(); have != nil && !slices.Equal(have.Shape(), v.Shape()) {
			t.Fatalf("%s has shape %v, PyTorch's %v", e.Name, have.Shape(), v.Shape())
		}
		e.Set(v.CopyTo(d))
	}
	for n := range state {
		t.Fatalf("the layer has no %s", n)
	}
}

func TestLayersAgainstPyTorch(t *testing.T) {
	cases := layerCases()
	for name := range records() {
		if c, _, _ := strings.Cut(name, "/"); cases[c].layer == nil && c != "resnet" && c != "text" {
			t.Errorf("no test of the records %s", c)
			cases[c] = plain(nn.Identity())
		}
	}
	for name, c := range cases {
		for _, d := range everywhere {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				tolerance := 1e-9
				if name == "celu" || name == "hard_sigmoid" {
					tolerance = 1e-7 // PyTorch has constants of these gradients in float32
				}
				layer := nn.To(nn.CopyTo(c.layer, locus.CPU()), d)
				fill(t, layer, name, d)
				in := numbered(name+"/in", d)
				wantIn := named(name + "/grad_in")
				for i := range in {
					if wantIn[fmt.Sprint(i)] != nil {
						in[i] = in[i].RequireGrad()
					}
				}
				out := c.call(layer, in)
				want := numbered(name+"/out", locus.CPU())
				if len(out) != len(want) || len(want) == 0 {
					t.Fatalf("%d results, want %d", len(out), len(want))
				}
				var loss *locus.Tensor
				for i, seed := range numbered(name+"/seed", d) {
					near(t, fmt.Sprint("result ", i), out[i], want[i], tolerance)
					if out[i].Device() != d {
						t.Error("the result is on", out[i].Device())
					}
					if l := out[i].Mul(seed).Sum(); loss == nil {
						loss = l
					} else {
						loss = loss.Add(l)
					}
				}
				loss.Backward()
				for i, g := range wantIn {
					near(t, "gradient of input "+i, in[int(i[0]-'0')].Grad(), g, tolerance)
				}
				grads := named(name + "/grad")
				for _, e := range nn.Parameters(layer) {
					near(t, "gradient of "+e.Name, e.Value().Grad(), grads[e.Name], tolerance)
				}
				for _, e := range nn.State(layer) {
					if after := records()[name+"/after/"+e.Name]; after != nil {
						near(t, e.Name+" afterwards", e.Value(), after, tolerance)
					}
				}
			})
		}
	}
}
