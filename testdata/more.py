"""More samples of ops, in a file of their own: those that PyTorch's users look for.
The helpers and the references of ops that have samples already come from ops.py."""

import math

import numpy as np
import torch

from ops import FIXED, NZ, F, attention, binary, creation, dims, moments, op, pooling, prod, reduction, unary, view, visible  # noqa: F401
from recorder import ANY, FINITE, FLOATS, INF, INTS, NUMBERS, OPS, SPECIAL, Fixed, L, S, X, given, index, mask

BOTH = ["float32", "float64"]
SOME = ["float32", "float64", "int64", "bfloat16"]

# ---- reductions ---------------------------------------------------------

def count(keep):
    return lambda x, axes=(): x.sum(dims(x, axes), keepdim=keep) if x.dim() else x.sum()


op("Tensor.Sum", count(False), ["bool"], S(X(2, 3)), S(X(2, 3), axes=[1]), S(X(3, 2, 4), axes=[0, -1]), S(X()), S(X(0, 3), axes=[0]), grad=False)
op("Tensor.SumKeep", count(True), ["bool"], S(X(2, 3)), S(X(2, 3), axes=[1]), S(X(0, 3), axes=[0]), grad=False)
op("Tensor.CumSum", lambda x, axis: torch.cumsum(x, axis), ["bool"], S(X(5), axis=0), S(X(2, 3), axis=-1), S(X(0, 3), axis=0), grad=False)
reduction("Tensor.ProdKeep", prod, NUMBERS, keep=True, lo=-2, hi=2)
reduction("Tensor.AnyKeep", lambda x, d, k: torch.any(x, d, keepdim=k), ["bool"], grad=False, keep=True)
reduction("Tensor.AllKeep", lambda x, d, k: torch.all(x, d, keepdim=k), ["bool"], grad=False, keep=True)
moments("Tensor.VarKeep", torch.var, 1, keep=True)
moments("Tensor.StdKeep", torch.std, 1, keep=True)
for n, f in ("VarWith", torch.var), ("StdWith", torch.std):
    op("Tensor." + n, lambda x, correction, keep=False, axes=(), f=f: f(x, dims(x, axes), correction=correction, keepdim=keep), FLOATS,
       S(X(2, 3), correction=0), S(X(2, 3), axes=[1], correction=0, keep=True), S(X(3, 2, 4), axes=[0, -1], correction=2), S(X(6), axes=[-1], correction=1), S(X(0, 3), axes=[1], correction=0),
       S(X(5, 1), axes=[1], correction=0, grad=False), S(X(2, 3), axes=[1], correction=4, grad=False))
reduction("Tensor.NormKeep", lambda x, d, k: torch.linalg.vector_norm(x, 2, d, keepdim=k), FLOATS, empty=False, keep=True)
op("Tensor.NormPKeep", lambda x, p, axes=(): torch.linalg.vector_norm(x, p, dims(x, axes), keepdim=True), FLOATS,
   *[S(X(3, 4, away=0.2, distinct=True), p=p, axes=[1]) for p in (0.0, 1.0, 2.0, 3.0, INF, -INF)], S(X(2, 3, away=0.2), p=3.0), S(X(0, 2), p=1.0, axes=[1]))
for n, f in ("ArgMax", torch.argmax), ("ArgMin", torch.argmin):
    op("Tensor." + n, lambda x, f=f: f(x), NUMBERS, S(X(2, 3)), S(X(3, 2, 4)), S(X()), S(L([1.0, 3.0, 3.0, 1.0])), grad=False)
    op("Tensor." + n + "Keep", lambda x, axis=None, f=f: f(x, axis, keepdim=True) if axis is not None or not x.dim() else f(x).reshape([1] * x.dim()), NUMBERS,
       S(X(2, 3), axis=1), S(X(3, 2, 4), axis=0), S(X(2, 3)), S(X()), S(X(0, 3), axis=1), S(L([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), axis=-1), grad=False)


def extreme(arg, keep):
    """The first of equal elements, to which the gradient flows; NaN counts as extreme."""
    def f(x, axis):
        at = arg(x, axis, keepdim=True)
        v = x.gather(axis, at)
        return (v, at) if keep else (v.squeeze(axis), at.squeeze(axis))
    return f


for n, f in ("Max", torch.argmax), ("Min", torch.argmin):
    for keep in False, True:
        op(f"Tensor.{n}WithPositions" + ("Keep" if keep else ""), extreme(f, keep), NUMBERS, S(X(2, 3, distinct=True), axis=1), S(X(3, 2, 4, distinct=True), axis=0), S(X(5, distinct=True), axis=-1), S(X(2, 3, 2, distinct=True), axis=-2),
           S(X(0, 3), axis=1), S(L([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]), axis=1, smooth=False), S(L([[1.0, math.nan, 9.0], [INF, 2.0, -INF]]), axis=1, only=FLOATS, grad=False))


def lines(x, axes):
    """The reduced axes as one, behind the others."""
    d = [a % x.dim() for a in axes] if axes else list(range(x.dim()))
    rest = [i for i in range(x.dim()) if i not in d]
    return x.permute(rest + sorted(d)).reshape([x.shape[i] for i in rest] + [math.prod(x.shape[i] for i in d)]), [1 if i in d else n for i, n in enumerate(x.shape)]


def along(f, keep):
    def g(x, axes=(), **a):
        if x.dim() == 0:
            return f(x.reshape(1), **a)
        y, kept = lines(x, axes)
        r = f(y, **a)
        return r.reshape(kept) if keep else r
    return g


for keep in False, True:
    suffix = "Keep" if keep else ""
    op("Tensor.Median" + suffix, along(lambda x: x.median(-1).values, keep), NUMBERS, S(X(2, 3, distinct=True)), S(X(2, 4, distinct=True), axes=[1]), S(X(3, 2, 4, distinct=True), axes=[0, -1]), S(X()), S(X(5, 1, distinct=True), axes=[1]), S(X(0, 3), axes=[1], grad=False),
       S(L([[1.0, math.nan, 2.0], [INF, 1.0, -1.0]]), axes=[1], grad=False, only=FLOATS), S(X(9, 7, distinct=True), axes=[0]))
    for q in 0.0, 0.25, 0.5, 0.9, 1.0:
        op("Tensor.Quantile" + suffix, along(lambda x, q: (torch.quantile(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x, q, -1)).to(x.dtype), keep), FLOATS,
           S(X(2, 3, distinct=True), q=q), S(X(2, 4, distinct=True), q=q, axes=[1]), S(X(3, 2, 4, distinct=True), q=q, axes=[0, -1]), S(X(), q=q), S(L([[1.0, math.nan, 2.0], [3.0, 1.0, -1.0]]), q=q, axes=[1], grad=False))

# ---- element by element -------------------------------------------------

unary("Tensor.Erfc", torch.erfc)
op("Tensor.Erfc", torch.erfc, BOTH, S(L([3.0, 5.0, 8.0, 9.5, -5.0]), smooth=False))

# ---- two operands and choices -------------------------------------------


EVEN = dict(choice=[-2.5, -1.5, -1.0, -0.75, 0.5, 0.75, 1.25, 1.5, 2.0, 2.5], away=0.4)
binary("Tensor.Fmod", lambda x, y: torch.fmod(x, y), NUMBERS, special=[(p, q) for p in SPECIAL for q in SPECIAL], b=EVEN)
binary("Tensor.LogAddExp", lambda x, y: torch.logaddexp(x, torch.as_tensor(y, dtype=x.dtype)), FLOATS, special=[(p, q) for p in SPECIAL + [80.0, -80.0, 1000.0] for q in SPECIAL + [80.0, -80.0, 1000.0]])
op("Tensor.LogAddExp", torch.logaddexp, BOTH, S(L([0.0, -INF, 1.0, 1000.0, -1000.0]), L([0.0, 1.0, -INF, 0.0, -1001.0]), smooth=False))
op("Tensor.Where", lambda c, x, y: torch.where(c, x, y).to(torch.int64), ["int64"], S(mask(2, 3), x=1, y=0), S(mask(), x=-2, y=7), S(mask(0, 2), x=1, y=0), grad=False)
op("Tensor.MaskedFill", lambda x, m, *v, value=None: x.masked_fill(m, v[0] if v else value), ANY, S(X(2, 3), mask(2, 3), value=1), S(X(2, 3), mask(3), value=0), S(X(), mask(), value=1), S(X(0, 3), mask(1, 3), value=0))
op("Tensor.MaskedFill", lambda x, m, v: x.masked_fill(m, v), BOTH, S(X(2, 3), mask(2, 1), X()), S(L(SPECIAL), Fixed("bool", lambda rng: np.arange(len(SPECIAL)) % 2 == 0), X(), grad=False))


def clamp(x, *borders, lo=None, hi=None, low=False, high=False):
    if borders:
        b = list(borders)
        return torch.clamp(x, b.pop(0) if low else None, b.pop(0) if high else None)
    return torch.clamp(x, lo, hi)


op("Tensor.Clamp", clamp, NUMBERS, S(X(3, 4), lo=1), S(X(3, 4), hi=1), S(X(0, 2), lo=1), S(X(3, 4), X(4, choice=[-1.0, 0.5]), low=True), S(X(3, 4), X(3, 1, choice=[-1.0, 0.5]), high=True), S(L(SPECIAL), lo=0, grad=False, only=FLOATS), S(L(SPECIAL), hi=0, grad=False, only=FLOATS))
op("Tensor.ClampMin", lambda x, *b, lo=None: torch.clamp(x, b[0] if b else lo), NUMBERS, S(X(3, 4), lo=1), S(X(), lo=0), S(X(0, 2), lo=1), S(X(3, 4), X(4, choice=[-1.0, 0.5])), S(L(SPECIAL), lo=0, grad=False, only=FLOATS))
op("Tensor.ClampMax", lambda x, *b, hi=None: torch.clamp(x, None, b[0] if b else hi), NUMBERS, S(X(3, 4), hi=1), S(X(), hi=0), S(X(0, 2), hi=1), S(X(3, 4), X(4, choice=[-1.0, 0.5])), S(L(SPECIAL), hi=0, grad=False, only=FLOATS))
NEAR = [(1.0, 1.0), (1.0, 1.0 + 2.0**-10), (1.0, 1.25), (1.0, 2.0), (0.0, 2.0**-10), (INF, INF), (INF, -INF), (INF, 1.0), (1.0, INF), (math.nan, math.nan), (1.0, math.nan), (-2.0, -2.5)]
op("Tensor.IsClose", lambda x, *ys, y=None, rtol, atol: torch.isclose(*torch.broadcast_tensors(x, ys[0] if ys else torch.full_like(x, y)), rtol, atol),
   NUMBERS, S(X(2, 3), X(2, 3), rtol=0.5, atol=0.25), S(X(2, 3), X(3), rtol=0.0, atol=1.0), S(X(4), y=1, rtol=0.5, atol=0.0), S(X(0, 2), X(2), rtol=0.0, atol=0.0), S(X(), X(), rtol=9.0, atol=9.0),
   S(L([p for p, _ in NEAR]), L([q for _, q in NEAR]), rtol=2.0**-8, atol=2.0**-12, only=BOTH), S(L([p for p, _ in NEAR]), y=1, rtol=0.25, atol=0.0, only=BOTH), grad=False)

# ---- cutting and repeating ----------------------------------------------

view("Tensor.SplitSizes", lambda x, sizes, axis: torch.split(x, sizes, axis), S(X(6, 2), sizes=[1, 3, 2], axis=0), S(X(2, 5), sizes=[5], axis=-1), S(X(4), sizes=[0, 4, 0], axis=0), S(X(0, 3), sizes=[0], axis=0))
view("Tensor.Unbind", lambda x, axis: torch.unbind(x, axis), S(X(3, 2), axis=0), S(X(2, 3, 2), axis=-1), S(X(4), axis=0), S(X(1, 0), axis=0))
view("Tensor.RepeatInterleave", lambda x, *r, axis, n=None: torch.repeat_interleave(x, r[0].long() if r else n, axis), S(X(2, 3), n=2, axis=0), S(X(2, 3), n=3, axis=1), S(X(3), n=0, axis=0), S(X(2, 1, 3), n=2, axis=-2), S(X(0, 2), n=2, axis=0))
op("Tensor.RepeatInterleave", lambda x, r, axis: torch.repeat_interleave(x, r.long(), axis), SOME, S(X(3, 2), given("int64", [2, 0, 3]), axis=0), S(X(2, 3), given("int32", [1, 1, 2]), axis=-1), S(X(2), given("int64", [0, 0]), axis=0))

# ---- finding and choosing -----------------------------------------------

op("Tensor.BottomK", lambda x, k, axis: (lambda v, i: (v.narrow(axis, 0, k), i.narrow(axis, 0, k)))(*torch.sort(x, dim=axis, stable=True)), NUMBERS,
   S(X(7, distinct=True), k=3, axis=0), S(X(3, 4, distinct=True), k=2, axis=1), S(X(4, 3, distinct=True), k=4, axis=-2), S(X(5, distinct=True), k=0, axis=0), S(X(0, 3, distinct=True), k=1, axis=1))
op("Tensor.SearchSorted", lambda x, v, right: torch.searchsorted(x, v, right=right), NUMBERS, *[S(L(sorted([0.0, 1.0, 1.0, 2.0, 5.0])), L(v), right=r) for r in (False, True) for v in ([0.0, 1.0, 3.0, 9.0], [[2.0], [5.0]], 1.0)],
   S(L([], (0,)), L([1.0, 2.0]), right=False), S(L([1.0, 2.0]), L([], (0, 2)), right=True), S(L([float(k) for k in range(40)]), L([0.0, 7.0, 16.0, 39.0, 40.0, 33.0]), right=True, only=BOTH + ["int64"]), grad=False)
op("Tensor.NonZero", torch.nonzero, ANY, S(X(2, 3)), S(L([0.0, 1.0, 0.0, 2.0])), S(L([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])), S(L(1.0)), S(L(0.0)), S(X(0, 3)), S(L([[[0.0, 1.0, 0.0]], [[1.0, 1.0, 0.0]]])), S(L(SPECIAL), only=FLOATS), grad=False)
op("Tensor.MaskedSelect", lambda x, m: torch.masked_select(x, m), ANY, S(X(2, 3), mask(2, 3)), S(X(2, 3), mask(3)), S(X(4), mask(2, 4)), S(X(), mask()), S(X(0, 3), mask(3)), S(X(3), given("bool", [False, False, False])), S(X(5, 7), mask(5, 7)))


def unique(x):
    return torch.unique(x, return_inverse=True, return_counts=True)


op("Tensor.Unique", unique, NUMBERS, S(L([3.0, 1.0, 3.0, 2.0, 1.0])), S(L([[2.0, 2.0], [2.0, 0.0]])), S(L(5.0)), S(X(0, 3)), S(L([1.0, INF, -INF, 1.0]), only=FLOATS), S(X(7, 9, lo=-1, hi=1)), grad=False)
op("Tensor.OneHot", lambda x, n: F.one_hot(x.long()).float(), ["int64", "int32", "uint8"], S(L([0.0, 2.0, 1.0]), n=-1), S(L([[1.0, 0.0], [3.0, 9.0]]), n=-1), S(L(2.0), n=-1), grad=False)

# ---- networks -----------------------------------------------------------

op("Tensor.SoftplusWith", lambda x, beta, threshold: F.softplus(x, beta, threshold), FLOATS, *[S(X(*shape), beta=b, threshold=20.0) for shape, b in (((2, 3), 1.0), ((7,), 2.0), ((), 0.5), ((0, 3), 1.0))],
   S(X(2, 3, away=0.3), beta=1.0, threshold=0.1, smooth=False), S(L(FINITE + [40.0, 100.0, -100.0]), beta=2.0, threshold=20.0, grad=False))


def weights(q, k, m=None, causal=False, scale=None, grouped=False):
    """Attention with the unit matrix as values gives the weights."""
    v = torch.eye(k.shape[-2], dtype=q.dtype).expand(k.shape[:-2] + (k.shape[-2],) * 2)
    return attention(q, k, v, m, causal, scale, grouped)


op("AttentionWeights", weights, ["float32", "float64", "bfloat16"], S(X(2, 3, 4), X(2, 5, 4)), S(X(1, 2, 3, 4), X(1, 2, 3, 4), causal=True), S(X(3, 2), X(4, 2), scale=0.5), S(X(2, 3, 4), X(2, 5, 4), visible(3, 5)),
   S(X(2, 3, 4), X(2, 5, 4), X(3, 5)), S(X(1, 4, 3, 2), X(1, 2, 5, 2), grouped=True))
D = dict(distinct=True)
with_positions = pooling(lambda *a: F.max_pool2d(*a, return_indices=True))
op("MaxPool2DWithPositions", with_positions, ["float32", "float64", "bfloat16"], S(X(2, 2, 4, 4, **D), window=2), S(X(1, 2, 5, 6, **D), window=3, stride=2, padding=1), S(X(2, 5, 4, **D), window=[2, 3], stride=1), S(X(1, 1, 7, 6, **D), window=2, dilation=2),
   S(X(1, 1, 5, 5, **D), window=2, ceil=True))
op("MaxPool1DWithPositions", pooling(lambda *a: F.max_pool1d(*a, return_indices=True)), ["float32", "float64", "bfloat16"], S(X(2, 2, 7, **D), window=2), S(X(2, 6, **D), window=3, stride=2, padding=1))

# ---- putting and cumulating ---------------------------------------------

op("Tensor.Scatter", lambda x, i, *s, axis, value=None: torch.scatter(x, axis, i.long(), s[0] if s else value), ANY,
   S(X(3, 4), given("int64", [[2, 0, 1, 1], [0, 2, 0, 2]]), X(2, 4), axis=0), S(X(3, 4), given("int64", [[1, 3], [0, 1], [2, 0]]), X(3, 2), axis=1), S(X(5), index(4, below=5, dtype="int32", distinct=True), X(4), axis=-1),
   S(X(3, 4), index(0, 4, below=3), X(0, 4), axis=0), S(X(3, 4), index(2, 4, below=3), axis=0, value=1), S(X(7), index(5, below=7), axis=0, value=0))


def last(x, i, s, axis):
    """Several for one place: the last stays. One after the other, since PyTorch leaves it open."""
    for k in range(i.shape[axis]):
        x = torch.scatter(x, axis, i.narrow(axis, k, 1), s.narrow(axis, k, 1))
    return x


op("Tensor.Scatter", last, SOME, S(X(3), given("int64", [1, 1, 0, 1, 2, 0]), X(6), axis=0), S(X(2, 3), given("int64", [[0, 0, 2, 0], [1, 1, 1, 1]]), X(2, 4), axis=1))
for n, f in ("CumMax", torch.cummax), ("CumMin", torch.cummin):
    op("Tensor." + n, lambda x, axis, f=f: tuple(f(x, axis)), NUMBERS, S(X(5, distinct=True), axis=0), S(X(2, 3, distinct=True), axis=1), S(X(3, 2, 2, distinct=True), axis=0), S(X(2, 4, distinct=True), axis=-2), S(X(0, 3), axis=0), S(X(3, 0), axis=0),
       S(L([1.0, 2.0, 2.0, 1.0, 2.0, 0.0, 0.0]), axis=0, smooth=False), S(L([1.0, math.nan, 2.0, math.nan, INF]), axis=0, grad=False, only=FLOATS), S(L([-INF, INF, -INF]), axis=0, grad=False, only=FLOATS))
