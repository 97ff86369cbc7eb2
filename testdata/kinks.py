"""Samples where a function has a kink, or its slope no bound. Finite differences
say nothing about gradients there; PyTorch's choice is ours."""

import torch

import ops  # noqa: F401  the references come from its table
from recorder import INF, OPS, L, S, op


def kinks(name, *samples):
    """Gradients where finite differences say nothing: PyTorch's choice is ours."""
    ref = next(o.ref for o in OPS if o.name == name)
    op(name, ref, ["float32", "float64"], *[S(*s.inputs, smooth=False, only=s.only, **s.attrs) for s in samples])


GRID = [k / 2 for k in range(-6, 7)]
for n in "Abs", "Sign", "Square", "Relu", "Floor", "Ceil", "Round", "Trunc", "Selu", "HardSigmoid", "HardSwish", "Softsign", "LogSigmoid", "TanhShrink", "Gelu", "Silu", "Mish":
    kinks("Tensor." + n, S(L(GRID)))
kinks("Tensor.Relu6", S(L([0.0, 6.0, -1.0, 3.0, 7.0])))
for n in "Sqrt", "Rsqrt", "Log", "Log2", "Log10", "Reciprocal", "Asinh", "Erf":
    kinks("Tensor." + n, S(L([0.0, 1.0, 4.0])))
for n in "Asin", "Acos", "Atanh":
    kinks("Tensor." + n, S(L([-1.0, 0.0, 1.0])))
kinks("Tensor.Acosh", S(L([1.0, 2.0])))
kinks("Tensor.Log1p", S(L([-1.0, 0.0])))
for n, attrs in ("LeakyRelu", dict(slope=0.125)), ("Elu", dict(alpha=0.5)), ("Celu", dict(alpha=2.0)), ("HardTanh", dict(lo=-0.5, hi=2.0)), ("SoftShrink", dict(by=0.5)), ("SoftShrink", dict(by=0.0)), \
        ("HardShrink", dict(limit=0.5)), ("HardShrink", dict(limit=0.0)), ("Threshold", dict(threshold=0.5, value=2.0)), ("Logit", dict(eps=0.25)):
    kinks("Tensor." + n, S(L([0.0, 0.25, 0.5, 0.75, 1.0]) if n == "Logit" else L(GRID), **attrs))
kinks("Tensor.PRelu", S(L([[0.0, 1.0, -1.0]]), L([0.5, 0.25, 0.0])))
PAIRS = [(p, q) for p in (-1.0, 0.0, 1.5, 2.0) for q in (-1.0, 0.0, 1.5, 2.0)]
for n in "Maximum", "Minimum", "Pow", "Div", "Atan2":
    kinks("Tensor." + n, S(L([p for p, _ in PAIRS]), L([q for _, q in PAIRS])))
for n in "FloorDiv", "Mod":
    kinks("Tensor." + n, S(L([p for p, q in PAIRS if q != 0]), L([q for _, q in PAIRS if q != 0])))
for y in 0.0, 0.5, 1.0, 2.0, -1.0:
    kinks("Tensor.Pow", S(L([-1.0, 0.0, 1.0, 2.0]), y=y))


def clamp(x, lo, hi):
    """The borders count as inside: PyTorch's rule since 2018. Its versions 2.14 and 2.15 have 0 there, and halves where they are tensors."""
    lo, hi = torch.as_tensor(lo, dtype=x.dtype), torch.as_tensor(hi, dtype=x.dtype)
    moved = torch.where((x < lo) & (lo < hi), lo, torch.where((x > hi) | (hi < lo), hi, torch.clamp(x, lo, hi).detach()))
    return torch.where((x >= lo) & (x <= hi), x, moved)


EDGES = [(x, lo, hi) for x in (-1.0, 0.0, 1.0, 2.0) for lo in (-1.0, 0.0, 1.0) for hi in (0.0, 1.0, 2.0)]
op("Tensor.Clamp", clamp, ["float32", "float64"], *[S(L(GRID), lo=lo, hi=hi, smooth=False) for lo, hi in ((-1, 2), (1, 1), (2, -1), (0, INF))], S(*[L(list(v)) for v in zip(*EDGES)], smooth=False))
op("ClipByValue", lambda x, limit: clamp(x, -limit, limit), ["float32", "float64"], S(L(GRID), limit=1.5, smooth=False))
kinks("Tensor.Norm", S(L([[0.0, 0.0], [0.0, -2.0]]), axes=[1]))
kinks("Tensor.NormP", *[S(L([[0.0, 0.0, 0.0], [0.0, -2.0, 2.0], [-1.0, -1.0, -1.0]]), p=p, axes=[1]) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF, -INF)])
for n in "Var", "Std":
    kinks("Tensor." + n, S(L([[1.0, 1.0], [1.0, 2.0]]), axes=[1]))
kinks("Tensor.LogSumExp", S(L([[1.0, 1.0], [-INF, 2.0]]), axes=[1]))
kinks("Tensor.Prod", S(L([[0.0, 0.0], [0.0, 2.0]]), axes=[1]))
kinks("Tensor.CumProd", S(L([[0.0, 2.0, 0.0, 3.0], [2.0, 0.0, 3.0, 4.0]]), axis=1))
kinks("Normalize", *[S(L([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [0.75, 1.0]]), p=p, axis=1, eps=5.0) for p in (1.0, 2.0, INF)], S(L([[0.0, 0.0], [3.0, 0.0]]), p=2.0, axis=1, eps=0.0))
# Below eps a norm is a constant here; PyTorch's gradient goes on through it.
kinks("CosineSimilarity", S(L([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]), L([[3.0, 4.0], [8.0, -6.0], [1.0, 2.0], [1.0, 5.0]]), axis=1, eps=5.0))
kinks("PairwiseDistance", *[S(L([[1.0, 1.0], [2.0, 0.0]]), L([[1.0, 1.0], [2.0, 1.0]]), p=p, eps=0.0) for p in (1.0, 2.0, 3.0)])
for r in "sum", "none":
    kinks("L1Loss", S(L([1.0, 2.0]), L([1.0, 0.0]), reduction=r))
    kinks("HuberLoss", S(L([1.0, 2.0, 0.0, -1.0]), L([1.0, 1.0, 1.0, 1.0]), delta=1.0, reduction=r))
    kinks("SmoothL1Loss", S(L([1.0, 2.0, 0.0, -1.0]), L([1.0, 1.0, 1.0, 1.0]), beta=1.0, reduction=r), S(L([1.0, 2.0]), L([1.0, 0.0]), beta=0.0, reduction=r))
    # Where p is 0 or 1 the slope of the target is 100 at most, here as in the loss, and PyTorch's has no bound.
    kinks("BCELoss", S(L([0.0, 1.0, 1.0, 0.0, 0.5]), L([1.0, 0.0, 1.0, 0.0, 0.5], grad=False), reduction=r, only=["float32"]))
    # Of the target 0 the slope is finite here, and PyTorch's NaN.
    kinks("KLDiv", S(L([[-1.0, -2.0]]), L([[0.0, 1.0]], grad=False), reduction=r))
    kinks("HingeEmbedding", S(L([1.0, 2.0, 1.0, 0.0]), L([-1.0, -1.0, 1.0, 1.0], grad=False), margin=1.0, reduction=r))
    kinks("MarginRanking", S(L([1.0, 2.0, 2.0]), L([1.0, 2.0, 1.0]), L([1.0, -1.0, 1.0], grad=False), margin=0.0, reduction=r))
    kinks("CosineEmbedding", S(L([[1.0, 0.0], [2.0, 1.0]]), L([[0.0, 1.0], [-1.0, 2.0]]), L([-1.0, -1.0], grad=False), margin=0.0, reduction=r))
    kinks("GaussianNLL", S(L([1.0, 2.0, 0.5]), L([0.0, 1.0, 1.0]), L([0.5, 0.25, 1.0]), eps=0.5, reduction=r))
kinks("ClipByNorm", S(L([3.0, 4.0]), limit=5.0))
kinks("ClipGlobalNorm", S(L([3.0]), L([4.0]), limit=5.0))
