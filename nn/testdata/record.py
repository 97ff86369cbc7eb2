"""Records what PyTorch's layers compute, for the tests of package nn.

    python record.py            # or "python record.py volumes" for that file alone

writes, beside itself:
  layers.safetensors    for every case its parameters, inputs, results and gradients, in float64
  volumes.safetensors   the same, of layers of volumes
  resnet.safetensors    state_dict of a small residual network, float32, as PyTorch users save it
  text.safetensors      state_dict of a small recurrent and attending network, the same

It needs torch and safetensors; a GPU is not used. A new case belongs at the end of
layers(): all draw from one sequence, so those before it stay as they are.
"""

import math
import os
import sys

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
records = {}


def put(name, t):
    records[name] = t.detach().clone().contiguous()


def randomize(module):
    for _, p in module.named_parameters():
        p.data = torch.randn_like(p) * 0.4
    for name, b in module.named_buffers():
        if name.endswith("running_mean"):
            b.data = torch.randn_like(b)
        if name.endswith("running_var"):
            b.data = torch.rand_like(b) + 0.5


def record(case, module, *inputs, call=None, fixed=(), keep=False):
    """Computes module on inputs, and the gradient of Σ results·seeds. Inputs
    numbered in fixed get no gradient; keep leaves the parameters as they are."""
    if isinstance(module, nn.Module):
        module.double()
        if not keep:
            with torch.no_grad():
                randomize(module)
        for n, p in module.named_parameters():
            put(f"{case}/state/{n}", p)
        for n, b in module.named_buffers():
            if not n.endswith("num_batches_tracked"):
                put(f"{case}/state/{n}", b)
    inputs = [t.double() if t.is_floating_point() else t for t in inputs]
    for i, t in enumerate(inputs):
        if t.is_floating_point() and i not in fixed:
            t.requires_grad_()
        put(f"{case}/in/{i}", t)
    results = (call or module)(*inputs)
    flat = []

    def flatten(r):
        if isinstance(r, (tuple, list)):
            for x in r:
                flatten(x)
        elif r is not None:
            flat.append(r)

    flatten(results)
    loss = 0
    for i, r in enumerate(flat):
        seed = torch.randn_like(r)
        put(f"{case}/out/{i}", r)
        put(f"{case}/seed/{i}", seed)
        loss = loss + (r * seed).sum()
    loss.backward()
    for i, t in enumerate(inputs):
        if t.requires_grad:
            put(f"{case}/grad_in/{i}", t.grad)
    if isinstance(module, nn.Module):
        for n, p in module.named_parameters():
            put(f"{case}/grad/{n}", p.grad)
        for n, b in module.named_buffers():
            if module.training and not n.endswith("num_batches_tracked"):
                put(f"{case}/after/{n}", b)


def volumes():
    R = torch.randn
    record("conv3d", nn.Conv3d(4, 6, (2, 3, 2), stride=(1, 2, 1), padding=(1, 0, 1), groups=2), R(2, 4, 3, 5, 4))
    record("conv_transpose3d", nn.ConvTranspose3d(4, 6, (2, 3, 2), stride=(2, 1, 2), padding=(1, 0, 1), output_padding=(1, 0, 0), groups=2), R(2, 4, 3, 2, 3))
    record("batch_norm_volumes", nn.BatchNorm3d(3), R(2, 3, 2, 3, 2))
    record("max_pool3d", None, R(2, 3, 5, 4, 5), call=nn.MaxPool3d((3, 2, 2), 2))
    record("avg_pool3d", None, R(2, 3, 5, 4, 5), call=nn.AvgPool3d((3, 2, 2), 2))
    record("adaptive_avg_pool3d", None, R(2, 3, 5, 4, 3), call=nn.AdaptiveAvgPool3d((3, 2, 2)))
    record("adaptive_max_pool3d", None, R(2, 3, 5, 4, 3), call=nn.AdaptiveMaxPool3d((3, 2, 2)))


def layers():
    R = torch.randn
    record("linear", nn.Linear(5, 3), R(2, 3, 5))
    record("linear_nobias", nn.Linear(5, 3, bias=False), R(4, 5))
    record("bilinear", nn.Bilinear(3, 5, 2), R(4, 3), R(4, 5))
    record("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), R(2, 4, 9))
    record("conv2d", nn.Conv2d(3, 5, (3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 1)), R(2, 3, 7, 6))
    record("conv_transpose1d", nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1), R(2, 3, 5))
    record("conv_transpose2d", nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2), R(2, 4, 5, 3))
    record("embedding", nn.Embedding(7, 3, padding_idx=2), torch.tensor([[1, 2, 6], [2, 0, 1]]))
    record("prelu", nn.PReLU(), R(3, 4))
    record("prelu_channels", nn.PReLU(4), R(3, 4, 5))

    record("batch_norm", nn.BatchNorm1d(5), R(7, 5))
    record("batch_norm_images", nn.BatchNorm2d(3), R(2, 3, 5, 3))
    record("batch_norm_eval", nn.BatchNorm2d(3).eval(), R(2, 3, 5, 3))
    record("layer_norm", nn.LayerNorm((3, 5)), R(2, 3, 5))
    record("group_norm", nn.GroupNorm(3, 6), R(2, 6, 5))
    record("instance_norm", nn.InstanceNorm2d(3, affine=True), R(2, 3, 5, 3))
    record("rms_norm", nn.RMSNorm(5, eps=1e-6), R(2, 3, 5))

    def with_state(m):
        return lambda x, *s: m(x, s[0] if len(s) == 1 else tuple(s))

    m = nn.RNN(3, 5, batch_first=True)
    record("rnn", m, R(2, 7, 3))
    m = nn.RNN(3, 5, num_layers=2, nonlinearity="relu", bidirectional=True, batch_first=True)
    record("rnn_relu", m, R(2, 7, 3), R(4, 2, 5), call=with_state(m))
    m = nn.LSTM(3, 5, batch_first=True)
    record("lstm", m, R(2, 7, 3))
    m = nn.LSTM(3, 4, num_layers=3, bidirectional=True, batch_first=True)
    record("lstm_deep", m, R(3, 5, 3), R(6, 3, 4), R(6, 3, 4), call=with_state(m))
    m = nn.LSTM(3, 4, bias=False, batch_first=True)
    record("lstm_nobias", m, R(1, 1, 3))
    m = nn.GRU(3, 5, batch_first=True)
    record("gru", m, R(2, 7, 3))
    m = nn.GRU(3, 5, num_layers=2, bidirectional=True, bias=False, batch_first=True)
    record("gru_deep", m, R(2, 7, 3), R(4, 2, 5), call=with_state(m))

    m = nn.MultiheadAttention(6, 3, batch_first=True)
    record("attention", m, R(2, 5, 6), call=lambda x: m(x, x, x, need_weights=False)[0])
    m2 = nn.MultiheadAttention(6, 2, batch_first=True)
    causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    record("attention_causal", m2, R(2, 5, 6), call=lambda x: m2(x, x, x, attn_mask=causal, need_weights=False)[0])
    m3 = nn.MultiheadAttention(6, 3, kdim=4, vdim=5, batch_first=True)
    record("attention_cross", m3, R(2, 5, 6), R(2, 7, 4), R(2, 7, 5), call=lambda q, k, v: m3(q, k, v, need_weights=False)[0])
    m4 = nn.MultiheadAttention(6, 3, bias=False, batch_first=True)
    lengths = torch.tensor([4, 7])
    pad = torch.arange(7)[None, :] >= lengths[:, None]
    record("attention_padding", m4, R(2, 5, 6), R(2, 7, 6), lengths, call=lambda q, k, _: m4(q, k, k, key_padding_mask=pad, need_weights=False)[0])
    m5 = nn.MultiheadAttention(6, 3, batch_first=True)
    record("attention_mask", m5, R(2, 5, 6), R(2, 5, 6), R(2, 5, 6), R(5, 5), fixed=(3,),
           call=lambda q, k, v, a: m5(q, k, v, attn_mask=a, need_weights=False)[0])
    m6 = nn.MultiheadAttention(6, 3, batch_first=True)
    record("attention_unbatched", m6, R(5, 6), call=lambda x: m6(x, x, x, need_weights=False)[0])

    for norm_first, kind in (False, "post"), (True, "pre"):
        act = F.gelu if norm_first else F.relu
        record(f"encoder_layer_{kind}", nn.TransformerEncoderLayer(6, 3, 7, 0, act, batch_first=True, norm_first=norm_first), R(2, 5, 6))
        d = nn.TransformerDecoderLayer(6, 3, 7, 0, act, batch_first=True, norm_first=norm_first)
        record(f"decoder_layer_{kind}", d, R(2, 5, 6), R(2, 4, 6), call=lambda x, memory, d=d: d(x, memory, tgt_mask=causal))
    e = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 7, 0, batch_first=True), 2, nn.LayerNorm(6), enable_nested_tensor=False)
    keys = torch.tensor([3, 5])
    hidden = torch.arange(5)[None, :] >= keys[:, None]
    record("encoder", e, R(2, 5, 6), keys, call=lambda x, _: e(x, src_key_padding_mask=hidden))
    d = nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 7, 0, batch_first=True, norm_first=True), 2, nn.LayerNorm(6))
    record("decoder", d, R(2, 5, 6), R(2, 5, 6), keys, call=lambda x, memory, _: d(x, memory, tgt_mask=causal, memory_key_padding_mask=hidden))

    def angles(n, features):
        return torch.arange(n).double()[:, None] * 10000.0 ** (-2 * torch.arange((features + 1) // 2).double() / features)

    def sinusoidal(x):
        a = angles(x.shape[-2], x.shape[-1])
        pe = torch.zeros(x.shape[-2:], dtype=x.dtype)
        pe[:, 0::2] = a.sin()
        pe[:, 1::2] = a.cos()[:, : x.shape[-1] // 2]
        return x + pe

    record("sinusoidal", None, R(2, 7, 6), call=sinusoidal)
    record("sinusoidal_odd", None, R(3, 5), call=sinusoidal)

    def rotary(x):  # each pair is a complex number that is turned
        half = x.shape[-1] // 2
        z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones(()).double(), angles(x.shape[-2], x.shape[-1]))
        return torch.cat([z.real, z.imag], -1)

    record("rotary", None, R(2, 3, 7, 4), call=rotary)

    record("resnet_block", BasicBlock(3, 3, 1), R(2, 3, 5, 5))
    record("resnet_block_down", BasicBlock(3, 4, 2), R(2, 3, 5, 5))

    record("upsample", None, R(2, 3, 3, 2), call=nn.Upsample(scale_factor=2, mode="bilinear"))
    record("upsample_nearest", None, R(2, 3, 3, 2), call=nn.Upsample(scale_factor=(3, 2)))
    record("pixel_shuffle", None, R(2, 8, 3, 2), call=nn.PixelShuffle(2))
    record("max_pool1d", None, R(2, 3, 9), call=nn.MaxPool1d(3, 2, 1))
    record("avg_pool1d", None, R(2, 3, 9), call=nn.AvgPool1d(3, 2, 1))
    record("max_pool2d", None, R(2, 3, 7, 5), call=nn.MaxPool2d((3, 2), 2))
    record("avg_pool2d", None, R(2, 3, 7, 5), call=nn.AvgPool2d((3, 2), 2))
    record("adaptive_avg_pool1d", None, R(2, 3, 9), call=nn.AdaptiveAvgPool1d(4))
    record("adaptive_max_pool1d", None, R(2, 3, 9), call=nn.AdaptiveMaxPool1d(4))
    record("adaptive_avg_pool2d", None, R(2, 3, 7, 5), call=nn.AdaptiveAvgPool2d((3, 2)))
    record("adaptive_max_pool2d", None, R(2, 3, 7, 5), call=nn.AdaptiveMaxPool2d((3, 2)))
    record("global_avg_pool", None, R(2, 3, 5), call=lambda x: x.mean(2))
    record("global_max_pool", None, R(2, 3, 5), call=lambda x: x.amax(2))
    record("flatten", None, R(2, 3, 5), call=nn.Flatten())

    for name, f in {
        "relu": nn.ReLU(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU("tanh"), "silu": nn.SiLU(),
        "leaky_relu": nn.LeakyReLU(0.1), "elu": nn.ELU(0.7), "celu": nn.CELU(0.7), "selu": nn.SELU(), "relu6": nn.ReLU6(), "mish": nn.Mish(),
        "softplus": nn.Softplus(), "softsign": nn.Softsign(), "log_sigmoid": nn.LogSigmoid(), "hard_sigmoid": nn.Hardsigmoid(),
        "hard_swish": nn.Hardswish(), "hard_tanh": nn.Hardtanh(-0.5, 1.5), "tanh_shrink": nn.Tanhshrink(), "soft_shrink": nn.Softshrink(0.4),
        "hard_shrink": nn.Hardshrink(0.4), "threshold": nn.Threshold(0.2, -1.0), "glu": nn.GLU(1), "softmax": nn.Softmax(1),
        "softmin": nn.Softmin(1), "log_softmax": nn.LogSoftmax(1), "identity": nn.Identity(),
    }.items():
        record(name, None, R(3, 8) * 3, call=f)


class BasicBlock(nn.Module):
    """The block of ResNet-18, with the names that torchvision gives its parts."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = None
        if cin != cout or stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 3, num_layers=2, bidirectional=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 9, 0, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.encoder(self.lstm(self.embed(x))[0]))


def checkpoint(file, net, x):
    """Saves a network as its users do, and what it gives for x."""
    net.eval()
    safetensors.torch.save_file(net.state_dict(), os.path.join(HERE, file + ".safetensors"), {"torch": torch.__version__, "kind": file})
    put(f"{file}/in/0", x)
    with torch.no_grad():
        put(f"{file}/out/0", net(x))


def save(name):
    assert not any(math.isnan(t.double().sum()) for t in records.values())
    safetensors.torch.save_file(records, os.path.join(HERE, name + ".safetensors"), {"torch": torch.__version__})
    records.clear()


def main():
    torch.manual_seed(21)
    volumes()
    save("volumes")
    if sys.argv[1:] == ["volumes"]:
        return
    torch.manual_seed(20)
    layers()
    resnet = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), BasicBlock(4, 4, 1), BasicBlock(4, 6, 2),
                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))
    with torch.no_grad():
        randomize(resnet)
    checkpoint("resnet", resnet, torch.randn(2, 1, 7, 6))
    checkpoint("text", Text(), torch.randint(0, 11, (3, 5)))
    save("layers")


if __name__ == "__main__":
    main()
