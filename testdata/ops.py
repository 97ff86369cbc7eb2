"""The samples of the ops that the table in internal/optest names, with the
PyTorch functions that define their results."""

import math

import numpy as np
import torch

from recorder import ANY, FINITE, FLOATS, INF, INTS, NUMBERS, SPECIAL, Fixed, L, S, X, given, index, mask, op

# ---- one operand --------------------------------------------------------


def unary(name, ref, dtypes=FLOATS, special=SPECIAL, grad=True, **domain):
    op(name, ref, dtypes,
       S(X(2, 3, **domain)),
       S(X(7, **domain)),
       S(X(**domain)),
       S(X(0, 3, **domain)),
       S(X(2, 1, 5, **domain)),
       S(L(special), grad=False),
       grad=grad)


unary("Tensor.Neg", lambda x: -x, NUMBERS)
unary("Tensor.Abs", torch.abs, NUMBERS)
# Of NaN PyTorch's sign is 0 and ours NaN, as IEEE's rules would have it.
unary("Tensor.Sign", torch.sign, NUMBERS, FINITE + [INF, -INF])
unary("Tensor.Square", torch.square, NUMBERS)
unary("Tensor.Sqrt", torch.sqrt, lo=0.1)
unary("Tensor.Rsqrt", torch.rsqrt, lo=0.2)
unary("Tensor.Reciprocal", torch.reciprocal, away=0.2)
unary("Tensor.Exp", torch.exp)
unary("Tensor.Exp2", torch.exp2)
unary("Tensor.Expm1", torch.expm1)
unary("Tensor.Log", torch.log, lo=0.2)
unary("Tensor.Log2", torch.log2, lo=0.2)
unary("Tensor.Log10", torch.log10, lo=0.2)
unary("Tensor.Log1p", torch.log1p, lo=-0.8)
unary("Tensor.Sin", torch.sin)
unary("Tensor.Cos", torch.cos)
unary("Tensor.Tan", torch.tan, lo=-1.2, hi=1.2)
unary("Tensor.Asin", torch.asin, lo=-0.9, hi=0.9)
unary("Tensor.Acos", torch.acos, lo=-0.9, hi=0.9)
unary("Tensor.Atan", torch.atan)
unary("Tensor.Sinh", torch.sinh)
unary("Tensor.Cosh", torch.cosh)
unary("Tensor.Tanh", torch.tanh)
unary("Tensor.Asinh", torch.asinh)
unary("Tensor.Acosh", torch.acosh, lo=1.2)
unary("Tensor.Atanh", torch.atanh, lo=-0.9, hi=0.9)
unary("Tensor.Sigmoid", torch.sigmoid)
# PyTorch turns to the identity above 20: the threshold is out of reach here.
unary("Tensor.Softplus", lambda x: torch.nn.functional.softplus(x, threshold=1e9 if x.dtype == torch.float64 else 80), special=FINITE + [-INF])
unary("Tensor.Relu", torch.relu, NUMBERS)
unary("Tensor.Gelu", torch.nn.functional.gelu, special=FINITE)
unary("Tensor.GeluTanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh"), special=FINITE)
unary("Tensor.Silu", torch.nn.functional.silu, special=FINITE)
unary("Tensor.Erf", torch.erf)
unary("Tensor.Floor", torch.floor)
unary("Tensor.Ceil", torch.ceil)
unary("Tensor.Round", torch.round)
unary("Tensor.Trunc", torch.trunc)
unary("Tensor.IsNaN", torch.isnan, grad=False)
unary("Tensor.IsInf", torch.isinf, grad=False)
unary("Tensor.IsFinite", torch.isfinite, grad=False)
unary("Tensor.Not", torch.logical_not, ["bool"], grad=False)
unary("Tensor.Copy", torch.clone, ANY)
unary("Tensor.Contiguous", lambda x: x.contiguous(), ANY)
unary("Tensor.ZerosLike", torch.zeros_like, ANY, grad=False)
unary("Tensor.OnesLike", torch.ones_like, ANY, grad=False)

op("Tensor.Cast", lambda x, to: x.to(getattr(torch, to)), ANY,
   *[S(X(2, 3, lo=0 if t == "uint8" else -3), to=t, smooth=t == "float64") for t in ANY], S(X(), to="int64"), S(X(0, 2), to="bool"), S(X(5), to="float64"), S(L(FINITE), to="int32", grad=False))

# ---- two operands -------------------------------------------------------


def binary(name, ref, dtypes, special=None, number=1.5, grad=True, a={}, b={}):
    """ref takes two tensors, or a tensor and the number y."""
    def f(x, z=None, y=None):
        return ref(x, z if y is None else y)

    pairs = special or [(p, q) for p in FINITE for q in FINITE + [INF]]
    whole = 3
    op(name, f, dtypes,
       S(X(2, 3, **a), X(2, 3, **b)),
       S(X(2, 3, **a), X(3, **b)),
       S(X(4, 1, **a), X(2, 1, 5, **b)),
       S(X(**a), X(3, **b)),
       S(X(2, 1, **a), X(**b)),
       S(X(0, 3, **a), X(1, 3, **b)),
       S(X(2, 4, **a), y=number, only=[d for d in dtypes if d in FLOATS]),
       S(X(2, 4, **a), y=whole, only=[d for d in dtypes if d != "bool"]),
       S(L([p for p, _ in pairs]), L([q for _, q in pairs]), grad=False, only=[d for d in dtypes if d in FLOATS]),
       grad=grad)


NZ = dict(away=0.4)
# Even multiples of 1/32: neither equal to the other operand nor a divisor of it.
EVEN = dict(choice=[-2.5, -1.5, -1.0, -0.75, 0.5, 0.75, 1.25, 1.5, 2.0, 2.5], away=0.4)
binary("Tensor.Add", torch.add, NUMBERS)
binary("Tensor.Sub", torch.sub, NUMBERS)
binary("Tensor.Mul", torch.mul, NUMBERS)
binary("Tensor.Div", torch.div, FLOATS, b=NZ)
binary("Tensor.Pow", lambda x, y: torch.pow(x, y), NUMBERS, special=[(p, q) for p in (0.5, 1.0, 2.0, 1.5) for q in (0.0, 1.0, -1.0, 2.0, 0.5, INF, -INF)],
       a=dict(lo=0.2), b=dict(lo=0.2))
binary("Tensor.Maximum", lambda x, y: torch.maximum(x, torch.as_tensor(y, dtype=x.dtype)), NUMBERS, special=[(1.0, math.nan), (math.nan, 2.0), (INF, 1.0), (-INF, 1.0)], b=EVEN)
binary("Tensor.Minimum", lambda x, y: torch.minimum(x, torch.as_tensor(y, dtype=x.dtype)), NUMBERS, special=[(1.0, math.nan), (math.nan, 2.0), (INF, 1.0), (-INF, 1.0)], b=EVEN)


def quotient(name, ref):
    """Edge cases, and tenths, whose quotients are near whole numbers."""
    binary(name, ref, NUMBERS, special=[(p, q) for p in SPECIAL for q in SPECIAL], b=EVEN)
    tenths = [float(np.float32(k / 10)) for k in range(-20, 21)]
    op(name, ref, ["float32", "float64"], S(L([p for p in tenths for _ in tenths]), L([q for _ in tenths for q in tenths]), grad=False))


quotient("Tensor.FloorDiv", lambda x, y: torch.div(x, y, rounding_mode="floor"))
quotient("Tensor.Mod", lambda x, y: torch.remainder(x, y))
binary("Tensor.Atan2", lambda x, y: torch.atan2(x, torch.as_tensor(y, dtype=x.dtype)), FLOATS, a=NZ, b=NZ)
for n, f in ("And", torch.bitwise_and), ("Or", torch.bitwise_or), ("Xor", torch.bitwise_xor):
    binary("Tensor." + n, f, INTS + ["bool"], grad=False)
for n, f in ("Eq", torch.eq), ("Ne", torch.ne):
    binary("Tensor." + n, f, ANY, grad=False, special=[(p, q) for p in SPECIAL for q in SPECIAL])
for n, f in ("Lt", torch.lt), ("Le", torch.le), ("Gt", torch.gt), ("Ge", torch.ge):
    binary("Tensor." + n, f, NUMBERS, grad=False, special=[(p, q) for p in SPECIAL for q in SPECIAL])


def where(c, *xs, x=None, y=None):
    xs = list(xs)
    a = xs.pop(0) if x is None else x
    b = xs.pop(0) if y is None else y
    return torch.where(c, a, b).to((a if x is None else b).dtype)


WHERE = [S(mask(2, 3), X(2, 3), X(2, 3)), S(mask(3), X(2, 3), X()), S(mask(), X(4), X(2, 1)), S(mask(0, 2), X(0, 2), X(2)),
         S(mask(2, 3), X(2, 3), y=1), S(mask(2, 3), X(3), x=0)]
op("Tensor.Where", where, ANY, *WHERE)
op("Where", where, ["float32", "float64"], *WHERE)
op("Tensor.Clamp", lambda x, *borders, lo=None, hi=None: torch.clamp(x, *borders) if borders else torch.clamp(x, lo, hi), NUMBERS,
   S(X(3, 4), lo=0, hi=1), S(X(), lo=1, hi=2), S(X(0, 2), lo=0, hi=1), S(X(9), lo=0, hi=2), S(L(SPECIAL), lo=0, hi=2, grad=False, only=FLOATS),
   S(X(3, 4), X(4, choice=[-2.5, -1.0, -0.5]), X(3, 1, choice=[0.25, 1.5, 2.0])))

# ---- reductions ---------------------------------------------------------


def dims(x, axes):
    return tuple(axes) if axes else tuple(range(x.dim()))


def reduction(name, ref, dtypes, empty=True, grad=True, keep=False, special=True, **domain):
    def f(x, axes=()):
        y = ref(x, dims(x, axes), keep) if x.dim() else ref(x.reshape(1), (0,), False)
        return y.to(x.dtype) if y.dtype == torch.int64 else y

    samples = [S(X(2, 3, **domain)), S(X(2, 3, **domain), axes=[1]), S(X(3, 2, 4, **domain), axes=[0, -1]), S(X(4, 3, **domain), axes=[-2]),
               S(X(**domain)), S(X(5, 1, **domain), axes=[1]), S(X(0, 3, **domain), axes=[1])]
    if empty:
        samples += [S(X(0, 3, **domain), axes=[0], smooth=False), S(X(2, 0, **domain), smooth=False)]
    if special:
        samples += [S(L([[1.0, math.nan, 2.0], [INF, 1.0, -1.0], [-INF, INF, 0.0], [-INF, -INF, -INF]]), axes=[1], grad=False, only=[d for d in dtypes if d in FLOATS])]
    op(name, f, dtypes, *samples, grad=grad)


reduction("Tensor.Sum", lambda x, d, k: x.sum(d, keepdim=k), NUMBERS)
reduction("Tensor.SumKeep", lambda x, d, k: x.sum(d, keepdim=k), NUMBERS, keep=True)


def prod(x, d, k):
    for i in sorted((j % x.dim() for j in d), reverse=True):
        x = x.prod(i, keepdim=k)
    return x


reduction("Tensor.Prod", prod, NUMBERS, lo=-2, hi=2)
op("Tensor.Prod", lambda x, axes: x.prod(axes[0]), ["float32", "float64"], S(L([[0.0, 1.5, 2.0], [0.0, 0.0, 3.0], [0.5, 1.0, 2.0]]), axes=[1]))
reduction("Tensor.Max", lambda x, d, k: x.amax(d, keepdim=k), ANY, empty=False, distinct=True)
reduction("Tensor.MaxKeep", lambda x, d, k: x.amax(d, keepdim=k), ANY, empty=False, keep=True, distinct=True)
reduction("Tensor.Min", lambda x, d, k: x.amin(d, keepdim=k), ANY, empty=False, distinct=True)
reduction("Tensor.MinKeep", lambda x, d, k: x.amin(d, keepdim=k), ANY, empty=False, keep=True, distinct=True)
op("Tensor.Max", lambda x, axes: x.amax(axes), ["float32", "float64"], S(L([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]), axes=[1], smooth=False))
op("Tensor.Min", lambda x, axes: x.amin(axes), ["float32", "float64"], S(L([[1.0, 1.0, 2.0], [3.0, 3.0, 3.0]]), axes=[1], smooth=False))
reduction("Tensor.LogSumExp", lambda x, d, k: x.logsumexp(d, keepdim=k), FLOATS)
reduction("Tensor.LogSumExpKeep", lambda x, d, k: x.logsumexp(d, keepdim=k), FLOATS, keep=True)
op("Tensor.LogSumExp", lambda x, axes: x.logsumexp(axes), ["float32", "float64"], S(L([[500.0, 501.0], [-500.0, -501.0]]), axes=[1]))
reduction("Tensor.Mean", lambda x, d, k: x.mean(d, keepdim=k), FLOATS)
reduction("Tensor.MeanKeep", lambda x, d, k: x.mean(d, keepdim=k), FLOATS, keep=True)


def spread(f, correction):
    return lambda x, d, k: f(x, d, correction=correction, keepdim=k)


def moments(name, f, correction, keep=False):
    """Variances need two elements and more."""
    op(name, lambda x, axes=(): f(x, dims(x, axes), correction=correction, keepdim=keep), FLOATS,
       S(X(2, 3)), S(X(2, 3), axes=[1]), S(X(3, 2, 4), axes=[0, -1]), S(X(6), axes=[-1]), S(X(0, 3), axes=[1]),
       S(X(5, 1), axes=[1], grad=False), S(X(0, 3), axes=[0], grad=False), S(L([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]]), axes=[1], smooth=False))


moments("Tensor.Var", torch.var, 1)
moments("Tensor.VarBiased", torch.var, 0, keep=True)
moments("Tensor.Std", torch.std, 1)
reduction("Tensor.Norm", lambda x, d, k: torch.linalg.vector_norm(x, 2, d, keepdim=k), FLOATS, empty=False)
op("Tensor.Norm", lambda x, axes: torch.linalg.vector_norm(x, 2, axes), ["float32", "float64"], S(L([[0.0, 0.0], [3.0, 4.0]]), axes=[1], smooth=False))
op("Tensor.NormP", lambda x, p, axes=(): torch.linalg.vector_norm(x, p, dims(x, axes)), FLOATS,
   *[S(X(3, 4, away=0.2, distinct=True), p=p, axes=[1]) for p in (0.0, 1.0, 2.0, 3.0, 2.5, INF, -INF)], S(X(2, 3, away=0.2), p=3.0), S(X(0, 2), p=1.0, axes=[1]),
   S(L([[0.0, 0.0], [3.0, 4.0]]), p=3.0, axes=[1], smooth=False))
reduction("Tensor.Any", lambda x, d, k: torch.any(x, d, keepdim=k), ["bool"], grad=False)
reduction("Tensor.All", lambda x, d, k: torch.all(x, d, keepdim=k), ["bool"], grad=False)
for n, f in ("ArgMax", torch.argmax), ("ArgMin", torch.argmin):
    op("Tensor." + n, lambda x, axis, f=f: f(x, axis), NUMBERS, S(X(2, 3), axis=1), S(X(3, 2, 4), axis=0), S(X(5), axis=-1), S(X(2, 3, 2), axis=-2),
       S(X(0, 3), axis=1), S(L([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), axis=1), S(L([[1.0, math.nan, 9.0], [INF, 2.0, -INF]]), axis=1, only=FLOATS), grad=False)

# ---- products -----------------------------------------------------------

op("Tensor.MatMul", torch.matmul, ["float32", "float64", "float16", "bfloat16", "int64", "int32"],
   S(X(2, 3), X(3, 4)), S(X(3), X(3, 2)), S(X(2, 3), X(3)), S(X(3), X(3)), S(X(4, 2, 3), X(4, 3, 2)), S(X(4, 2, 3), X(3, 5)), S(X(2, 1, 2, 3), X(3, 3, 1)),
   S(X(0, 3), X(3, 2)), S(X(2, 0), X(0, 3)), S(X(1, 1), X(1, 1)), S(X(7, 9), X(9, 5)), S(X(3), X(2, 3, 2)))
op("Tensor.Dot", torch.dot, ["float32", "float64", "float16", "bfloat16", "int64"], S(X(4), X(4)), S(X(1), X(1)), S(X(17), X(17)), S(X(0), X(0)))

# ---- views --------------------------------------------------------------


def view(name, ref, *samples):
    op(name, ref, ["float32", "float64", "int64", "bool", "bfloat16"], *samples)


view("Tensor.Reshape", lambda x, shape: x.reshape(shape), S(X(2, 3), shape=[3, 2]), S(X(2, 3, 4), shape=[-1, 4]), S(X(), shape=[1, 1]), S(X(1), shape=[]),
     S(X(0, 3), shape=[3, 0]), S(X(6), shape=[2, -1]), S(X(4, 3), shape=[4, 3]))
view("Tensor.Flatten", torch.flatten, S(X(2, 3)), S(X()), S(X(2, 3, 4)), S(X(0, 3)))
view("Tensor.FlattenFrom", lambda x, axis: torch.flatten(x, axis), S(X(2, 3, 4), axis=1), S(X(2, 3, 4), axis=-2), S(X(5), axis=0), S(X(2, 0, 3), axis=1))
view("Tensor.Permute", lambda x, axes: x.permute(axes), S(X(2, 3), axes=[1, 0]), S(X(2, 3, 4), axes=[2, 0, 1]), S(X(2, 3, 4), axes=[-1, -3, 1]), S(X(), axes=[]),
     S(X(0, 3), axes=[1, 0]))
view("Tensor.Transpose", lambda x, a, b: x.transpose(a, b), S(X(2, 3), a=0, b=1), S(X(2, 3, 4), a=-1, b=0), S(X(4), a=0, b=0), S(X(2, 0), a=0, b=1))
view("Tensor.T", lambda x: x.mT, S(X(2, 3)), S(X(4, 2, 3)), S(X(0, 3)), S(X(1, 5)))
view("Tensor.MoveAxis", lambda x, a, b: torch.movedim(x, a, b), S(X(2, 3, 4), a=0, b=2), S(X(2, 3, 4), a=-1, b=0), S(X(2, 3), a=1, b=1), S(X(2, 0, 3), a=1, b=-1))
view("Tensor.Expand", lambda x, shape: x.expand(shape), S(X(3), shape=[2, 3]), S(X(2, 1), shape=[2, 4]), S(X(), shape=[2, 2]), S(X(2, 1), shape=[-1, 3]),
     S(X(1, 3), shape=[0, 3]), S(X(2, 1, 3), shape=[4, 2, 5, 3]))
view("Tensor.Squeeze", lambda x, axes=(): x.squeeze(tuple(axes)) if axes else x.squeeze(), S(X(1, 3, 1)), S(X(1, 3, 1), axes=[0]), S(X(1, 3, 1), axes=[-1]),
     S(X(1, 3, 1), axes=[0, 2]), S(X()), S(X(1, 0)))
view("Tensor.Unsqueeze", lambda x, axis: x.unsqueeze(axis), S(X(2, 3), axis=0), S(X(2, 3), axis=-1), S(X(2, 3), axis=1), S(X(), axis=0), S(X(0, 2), axis=-2))
view("Tensor.Diagonal", lambda x, offset, a, b: torch.diagonal(x, offset, a, b), S(X(3, 3), offset=0, a=0, b=1), S(X(3, 4), offset=1, a=0, b=1),
     S(X(3, 4), offset=-2, a=0, b=1), S(X(2, 3, 4), offset=1, a=2, b=0), S(X(2, 3, 4), offset=0, a=-2, b=-1), S(X(2, 2), offset=5, a=0, b=1), S(X(0, 3), offset=0, a=0, b=1))


def sliced(x, ranges):
    """ranges holds three numbers an axis; 99 stands for none, and a step of 0
    for one position."""
    out = []
    for start, stop, step in zip(ranges[::3], ranges[1::3], ranges[2::3]):
        out.append(start if step == 0 else (start, stop, step))
    idx, flips, axis = [], [], 0
    for r in out:
        if isinstance(r, int):
            idx.append(r)
            continue
        start, stop, step = r
        s = slice(None if start == 99 else start, None if stop == 99 else stop, step)
        if step < 0:
            n = x.shape[len(idx)]
            idx.append(torch.tensor(list(range(*s.indices(n))), dtype=torch.int64))
        else:
            idx.append(s)
    y = x
    axis = 0
    for i in idx:
        if isinstance(i, int):
            y = y.select(axis, i)
            continue
        y = y.index_select(axis, i) if isinstance(i, torch.Tensor) else y[(slice(None),) * axis + (i,)]
        axis += 1
    return y


view("Tensor.Slice", sliced, S(X(5, 4), ranges=[1, 4, 1]), S(X(5, 4), ranges=[99, 99, 1, 0, 4, 2]), S(X(5, 4), ranges=[4, 1, -1, -3, 99, 1]), S(X(5, 4), ranges=[2, 0, 0]),
     S(X(5, 4), ranges=[-1, 0, 0, 1, 100, 1]), S(X(5), ranges=[3, 3, 1]), S(X(7), ranges=[6, 0, -2]), S(X(8, 2), ranges=[0, 8, 3]), S(X(9), ranges=[8, 1, -3]), S(X(3, 3, 3), ranges=[0, 2, 1, 1, 0, 0, 2, 0, -1]), S(X(0, 3), ranges=[0, 5, 1]))
view("Tensor.Index", lambda x, at: x[tuple(at)], S(X(3, 4), at=[1]), S(X(3, 4), at=[-1, 2]), S(X(3), at=[0]), S(X(2, 3, 4), at=[1, -1]), S(X(2, 0), at=[1]))
view("Tensor.Narrow", lambda x, axis, start, stop: x.narrow(axis, start, stop - start), S(X(5, 3), axis=0, start=1, stop=4), S(X(5, 3), axis=-1, start=0, stop=2),
     S(X(4), axis=0, start=2, stop=2), S(X(4), axis=0, start=0, stop=4), S(X(0, 3), axis=1, start=1, stop=2))
view("Tensor.Flip", lambda x, axes=(): torch.flip(x, dims(x, axes)), S(X(2, 3)), S(X(2, 3), axes=[0]), S(X(2, 3, 4), axes=[-1, 0]), S(X(0, 3), axes=[0]), S(X(5)))
view("Tensor.Split", lambda x, size, axis: torch.split(x, size, axis), S(X(6, 2), size=2, axis=0), S(X(5, 3), size=2, axis=0), S(X(2, 5), size=3, axis=-1), S(X(3), size=5, axis=0),
     S(X(4, 0), size=3, axis=0))
view("Tensor.Chunk", lambda x, n, axis: torch.tensor_split(x, n, axis), S(X(6, 2), n=3, axis=0), S(X(7), n=3, axis=0), S(X(2, 5), n=2, axis=-1), S(X(2), n=3, axis=0), S(X(0, 2), n=2, axis=0))

# ---- indexing -----------------------------------------------------------

op("Tensor.Gather", lambda x, i, axis: torch.gather(x, axis, i.long()), ANY, S(X(3, 4), index(2, 4, below=3), axis=0), S(X(3, 4), index(3, 2, below=4), axis=1),
   S(X(5), index(7, below=5, dtype="int32"), axis=-1), S(X(2, 3, 4), index(2, 1, 4, below=3), axis=1), S(X(3, 4), index(0, 4, below=3), axis=0))
op("Tensor.Take", lambda x, i, axis: torch.index_select(x, axis, i.reshape(-1).long()).reshape(x.shape[: axis % x.dim()] + i.shape + x.shape[axis % x.dim() + 1:]), ANY,
   S(X(4, 3), index(5, below=4), axis=0), S(X(4, 3), index(2, 2, below=3), axis=1), S(X(4, 3), index(below=4), axis=0), S(X(2, 3, 4), index(2, below=4, dtype="int32"), axis=-1),
   S(X(4, 3), index(0, below=4), axis=0))
op("Tensor.ScatterAdd", lambda x, i, s, axis: torch.scatter_add(x, axis, i.long(), s), ["float32", "float64", "int64", "bfloat16"],
   S(X(3, 4), index(2, 4, below=3), X(2, 4), axis=0), S(X(3, 4), index(3, 6, below=4), X(3, 6), axis=1), S(X(5), index(9, below=5, dtype="int32"), X(9), axis=-1),
   S(X(3, 4), index(0, 4, below=3), X(0, 4), axis=0))


def index_add(x, i, s, axis):
    a = axis % x.dim()
    return torch.index_add(x, a, i.reshape(-1).long(), s.reshape(x.shape[:a] + (-1,) + x.shape[a + 1:]) if s.numel() else s.reshape(x.shape[:a] + (0,) + x.shape[a + 1:]))


op("Tensor.IndexAdd", index_add, ["float32", "float64", "int64", "bfloat16"],
   S(X(4, 3), index(5, below=4), X(5, 3), axis=0), S(X(4, 3), index(2, 2, below=3), X(4, 2, 2), axis=1), S(X(2, 3, 4), index(3, below=4, dtype="int32"), X(2, 3, 3), axis=-1),
   S(X(4, 3), index(0, below=4), X(0, 3), axis=0))
op("Tensor.OneHot", lambda x, n: (x.long().unsqueeze(-1) == torch.arange(n)).float(), ["int64", "int32", "uint8"],
   S(L([0.0, 2.0, 1.0]), n=3), S(L([[1.0, 0.0], [3.0, 9.0]]), n=4), S(L(2.0), n=3), S(L([], (0,)), n=2), S(L([0.0, 1.0]), n=0), grad=False)
op("Concat", lambda *xs, axis: torch.cat(xs, axis), ["float32", "float64", "int64", "bool", "bfloat16"],
   S(X(2, 3), X(4, 3), axis=0), S(X(2, 3), X(2, 1), X(2, 2), axis=-1), S(X(3), axis=0), S(X(0, 2), X(3, 2), axis=0), S(X(2, 1, 3), X(2, 4, 3), axis=1), S(X(0, 2), X(0, 2), axis=0))
op("Stack", lambda *xs, axis: torch.stack(xs, axis), ["float32", "float64", "int64", "bool", "bfloat16"],
   S(X(2, 3), X(2, 3), axis=0), S(X(2, 3), X(2, 3), X(2, 3), axis=-1), S(X(), X(), axis=0), S(X(3), axis=1), S(X(0, 2), X(0, 2), axis=1))


def pad(x, amounts, value):
    return torch.nn.functional.pad(x, [v for i in reversed(range(0, len(amounts), 2)) for v in amounts[i: i + 2]] if len(amounts) == 2 * x.dim() else
                                   [0, 0] * (x.dim() - len(amounts) // 2) + [v for i in reversed(range(0, len(amounts), 2)) for v in amounts[i: i + 2]], value=value)


op("Tensor.Pad", pad, ["float32", "float64", "int64", "bfloat16"], S(X(2, 3), amounts=[1, 1, 2, 0], value=0), S(X(2, 3), amounts=[1, 0], value=2), S(X(5), amounts=[-1, 2], value=1),
   S(X(2, 3, 2), amounts=[0, 0, 1, 2, -1, 0], value=0), S(X(0, 2), amounts=[1, 1, 0, 0], value=3), S(X(4), amounts=[-2, -1], value=0))
op("Tensor.CumSum", lambda x, axis: torch.cumsum(x, axis).to(x.dtype), NUMBERS, S(X(5), axis=0), S(X(2, 3), axis=1), S(X(3, 2, 2), axis=0), S(X(2, 4), axis=-2), S(X(0, 3), axis=0), S(X(3, 0), axis=0))
SORTS = [S(X(7, distinct=True), axis=0, descending=False), S(X(3, 4, distinct=True), axis=1, descending=True), S(X(4, 3, distinct=True), axis=0, descending=False),
         S(X(2, 3, 2, distinct=True), axis=-2, descending=True), S(X(0, 3), axis=0, descending=False), S(L([2.0, 1.0, 2.0, 1.0, 0.0]), axis=0, descending=True, smooth=False),
         S(L([1.0, math.nan, -INF, INF, 0.0]), axis=0, descending=False, grad=False, only=FLOATS)]
op("Tensor.ArgSort", lambda x, axis, descending: torch.argsort(x, dim=axis, descending=descending, stable=True), ANY, *SORTS, grad=False)
op("Tensor.Sort", lambda x, axis, descending: torch.sort(x, dim=axis, descending=descending, stable=True), NUMBERS, *SORTS)
op("Tensor.TopK", lambda x, k, axis: (lambda v, i: (v.narrow(axis, 0, k), i.narrow(axis, 0, k)))(*torch.sort(x, dim=axis, descending=True, stable=True)), NUMBERS,
   S(X(7, distinct=True), k=3, axis=0), S(X(3, 4, distinct=True), k=2, axis=1), S(X(4, 3, distinct=True), k=4, axis=-2), S(X(5, distinct=True), k=0, axis=0), S(X(0, 3, distinct=True), k=1, axis=1))
view("Tensor.Repeat", lambda x, counts: x.repeat(counts), S(X(2, 3), counts=[2, 1]), S(X(3), counts=[2, 2]), S(X(), counts=[3]), S(X(2, 1, 2), counts=[1, 3, 2]), S(X(2, 3), counts=[0, 1]),
     S(X(1, 2, 1, 2, 1), counts=[2, 1, 2, 1, 2]))

# ---- creation: ref takes the element type -------------------------------


def creation(name, ref, dtypes, *samples):
    op(name, ref, dtypes, *samples, grad=False)


creation("Maker.Full", lambda t, value, shape: torch.full(shape, value, dtype=t), NUMBERS, S(value=3, shape=[2, 3]), S(value=7, shape=[]), S(value=1, shape=[0, 2]))
creation("Maker.Zeros", lambda t, shape: torch.zeros(shape, dtype=t), ANY, S(shape=[2, 3]), S(shape=[]), S(shape=[3, 0]))
creation("Maker.Ones", lambda t, shape: torch.ones(shape, dtype=t), ANY, S(shape=[2, 3]), S(shape=[]), S(shape=[3, 0]))
creation("Maker.Arange", lambda t, args: torch.arange(*args).to(t), NUMBERS, S(args=[5]), S(args=[2, 9]), S(args=[10, 1, -3]), S(args=[0]), S(args=[5, 5]))
creation("Maker.Linspace", lambda t, start, stop, n: torch.linspace(start, stop, n, dtype=torch.float64).to(t), FLOATS, S(start=0, stop=1, n=5), S(start=2, stop=-2, n=9), S(start=3, stop=4, n=1),
         S(start=3, stop=4, n=0))
creation("Maker.Eye", lambda t, n, columns=None: torch.eye(n, columns or n, dtype=t), NUMBERS, S(n=3), S(n=2, columns=4), S(n=4, columns=2), S(n=0))
creation("Maker.From", lambda t, data, shape: torch.tensor(data, dtype=t).reshape(shape), NUMBERS, S(data=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3]), S(data=[4.0], shape=[]), S(data=[], shape=[0]))

# ---- activations --------------------------------------------------------

F = torch.nn.functional


def activation(name, ref, *attrs, special=FINITE, **domain):
    """One sample of each shape, with each of the given attributes in turn."""
    attrs = attrs or ({},)
    op("Tensor." + name, ref, FLOATS, *[S(X(*shape, **domain), **attrs[i % len(attrs)]) for i, shape in enumerate([(2, 3), (7,), (), (0, 3), (2, 1, 5)])],
       *[S(L(special), grad=False, **a) for a in attrs])


for n, f in ("Softmax", F.softmax), ("LogSoftmax", F.log_softmax), ("Softmin", F.softmin):
    op("Tensor." + n, lambda x, axis, f=f: f(x, axis), FLOATS, S(X(2, 3), axis=1), S(X(3, 4), axis=0), S(X(5), axis=-1), S(X(2, 3, 4), axis=-2), S(X(0, 3), axis=1), S(X(2, 1), axis=1),
       S(L([[90.0, 91.0, -90.0], [-INF, 1.0, 2.0]]), axis=1, grad=False), S(X(3, 40), axis=1))
op("Tensor.Glu", lambda x, axis: F.glu(x, axis), FLOATS, S(X(2, 4), axis=1), S(X(6), axis=0), S(X(2, 4, 3), axis=-2), S(X(0, 2), axis=1))
activation("LeakyRelu", lambda x, slope: F.leaky_relu(x, slope), dict(slope=0.125), dict(slope=0.0))
activation("Elu", lambda x, alpha: F.elu(x, alpha), dict(alpha=1.0), dict(alpha=0.5))
activation("Selu", F.selu)
activation("Celu", lambda x, alpha: F.celu(x, alpha), dict(alpha=1.0), dict(alpha=2.0))
activation("Mish", F.mish)
activation("HardTanh", lambda x, lo, hi: F.hardtanh(x, lo, hi), dict(lo=-1.0, hi=1.0), dict(lo=-0.5, hi=2.0))
activation("Relu6", F.relu6, lo=-4, hi=7.9)
# PyTorch's own has the gradient float32(1/6) in float64 too.
activation("HardSigmoid", lambda x: F.relu6(x + 3) / 6, lo=-5, hi=5)
activation("HardSwish", F.hardswish, lo=-5, hi=5)
activation("Softsign", F.softsign)
activation("LogSigmoid", F.logsigmoid)
activation("TanhShrink", F.tanhshrink)
activation("SoftShrink", lambda x, by: F.softshrink(x, by), dict(by=0.5), dict(by=1.0))
activation("HardShrink", lambda x, limit: F.hardshrink(x, limit), dict(limit=0.5), dict(limit=1.0))
activation("Threshold", lambda x, threshold, value: F.threshold(x, threshold, value), dict(threshold=0.5, value=2.0), dict(threshold=-1.0, value=-9.0))
activation("Logit", lambda x, eps=None: torch.logit(x, eps), {}, dict(eps=0.0625), special=[0.5, 0.25, 0.75, 1.0, 0.0], lo=0.1, hi=0.9)
op("Tensor.PRelu", F.prelu, FLOATS, S(X(2, 3), X(1)), S(X(2, 3), X(3)), S(X(2, 3, 4), X(3)), S(X(5), X(1)), S(X(0, 3), X(3)))

# ---- linear maps, convolution, pooling ----------------------------------

ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
               "relu6": F.relu6, "hard_sigmoid": lambda x: F.relu6(x + 3) / 6, "hard_swish": F.hardswish, "mish": F.mish}


def linear(x, w, b=None, activation="none"):
    return ACTIVATIONS[activation](F.linear(x, w, b))


op("Linear", linear, FLOATS, S(X(2, 3), X(4, 3), X(4)), S(X(2, 3), X(4, 3)), S(X(3), X(4, 3), X(4)), S(X(2, 5, 3), X(1, 3), X(1)), S(X(0, 3), X(4, 3), X(4)), S(X(2, 0), X(3, 0), X(3)),
   S(X(2, 2, 2, 3), X(4, 3), X(4)), S(X(2, 2, 2, 3), X(4, 3)), S(X(2, 0, 3), X(4, 3), X(4)))
SMALL = dict(lo=-1.0, hi=1.0)
for a in list(ACTIVATIONS)[1:]:
    op("Linear", linear, FLOATS, S(X(2, 3, **SMALL), X(4, 3), X(4), activation=a), S(X(5, 3, **SMALL), X(2, 3), activation=a), S(X(3, **SMALL), X(4, 3), X(4), activation=a),
       S(X(2, 5, 3, **SMALL), X(4, 3), X(4), activation=a), S(X(0, 3), X(4, 3), X(4), activation=a), S(X(2, 0), X(3, 0), X(3), activation=a))
op("Bilinear", F.bilinear, FLOATS, S(X(2, 3), X(2, 4), X(5, 3, 4), X(5)), S(X(3, 2), X(3, 2), X(1, 2, 2)), S(X(2, 2, 3), X(2, 2, 1), X(2, 3, 1), X(2)))


def pairs(f):
    def g(*xs, **a):
        return f(*xs, **{k: tuple(v) if isinstance(v, list) else v for k, v in a.items()})
    return g


def activated(f):
    def g(*xs, activation="none", **a):
        return ACTIVATIONS[activation](f(*xs, **a))
    return g


CONV = ["float32", "float64", "bfloat16"]
op("Conv2D", pairs(F.conv2d), CONV, S(X(2, 3, 5, 4), X(2, 3, 3, 2), X(2)), S(X(1, 2, 5, 5), X(4, 2, 3, 3)), S(X(1, 1, 6, 5), X(2, 1, 3, 3), X(2), stride=2, padding=1),
   S(X(2, 4, 5, 5), X(6, 2, 3, 3), X(6), groups=2, padding=[1, 0]), S(X(1, 2, 7, 6), X(1, 2, 3, 2), dilation=2), S(X(1, 3, 4, 4), X(3, 1, 3, 3), X(3), groups=3, padding=1),
   S(X(2, 4, 5), X(3, 2, 1, 2), X(3)), S(X(1, 1, 5, 6), X(1, 1, 2, 3), padding="same"), S(X(1, 2, 6, 7), X(2, 2, 3, 3), X(2), stride=[2, 3], padding=[2, 1], dilation=[1, 2]),
   S(X(0, 2, 4, 4), X(3, 2, 3, 3), X(3)), S(X(2, 3, 2, 2), X(4, 3, 1, 1), X(4)))
for a in list(ACTIVATIONS)[1:]:
    op("Conv2D", activated(F.conv2d), CONV, S(X(2, 2, 4, 4, **SMALL), X(2, 2, 3, 2, lo=-0.5, hi=0.5), X(2, **SMALL), padding=1, activation=a), S(X(2, 3, 3, 3, **SMALL), X(2, 3, 1, 1), activation=a),
       S(X(2, 4, 4, **SMALL), X(2, 1, 3, 3, lo=-0.5, hi=0.5), X(2, **SMALL), groups=2, activation=a))
    op("Conv1D", activated(F.conv1d), CONV, S(X(2, 2, 6, **SMALL), X(3, 2, 3, lo=-0.5, hi=0.5), X(3, **SMALL), stride=2, activation=a))
op("Conv1D", pairs(F.conv1d), CONV, S(X(2, 3, 6), X(4, 3, 3), X(4)), S(X(1, 2, 7), X(2, 2, 2), stride=2, padding=1), S(X(2, 4, 6), X(4, 1, 3), X(4), groups=4, dilation=2),
   S(X(2, 5), X(3, 2, 2), X(3)), S(X(1, 1, 6), X(1, 1, 4), padding="same"))
op("ConvTranspose2D", pairs(F.conv_transpose2d), CONV, S(X(2, 3, 3, 2), X(3, 2, 3, 2), X(2)), S(X(1, 2, 3, 3), X(2, 3, 3, 3), stride=2, padding=1, output_padding=1),
   S(X(1, 4, 3, 3), X(4, 2, 2, 2), X(4), groups=2), S(X(1, 2, 3, 4), X(2, 1, 2, 3), dilation=2), S(X(2, 3, 2), X(2, 1, 3, 3), X(1), stride=[2, 1]))
op("ConvTranspose1D", pairs(F.conv_transpose1d), CONV, S(X(2, 3, 4), X(3, 2, 3), X(2)), S(X(1, 2, 4), X(2, 2, 3), stride=2, padding=1, output_padding=1), S(X(2, 4), X(2, 3, 2), X(3)))


def pooling(f, avg=False):
    def g(x, window, stride=None, padding=0, dilation=1, ceil=False, exclude=False):
        t = lambda v: tuple(v) if isinstance(v, list) else v
        if avg:
            return f(x, t(window), t(stride), t(padding), ceil, not exclude)
        return f(x, t(window), t(stride), t(padding), t(dilation), ceil)
    return g


D = dict(distinct=True)
op("MaxPool2D", pooling(F.max_pool2d), CONV + ["int64"], S(X(2, 2, 4, 4, **D), window=2), S(X(1, 2, 5, 6, **D), window=3, stride=2, padding=1), S(X(2, 5, 4, **D), window=[2, 3], stride=1),
   S(X(1, 1, 7, 7, **D), window=2, dilation=2, stride=2), S(X(1, 2, 5, 5, **D), window=2, ceil=True), S(L([[[[1.0, 1.0], [1.0, 1.0]]]]), window=2, smooth=False))
op("MaxPool1D", pooling(F.max_pool1d), CONV, S(X(2, 3, 6, **D), window=2), S(X(2, 7, **D), window=3, stride=2, padding=1), S(X(1, 2, 5, **D), window=2, ceil=True))
op("AvgPool2D", pooling(F.avg_pool2d, True), CONV, S(X(2, 2, 4, 4), window=2), S(X(1, 2, 5, 6), window=3, stride=2, padding=1), S(X(1, 2, 5, 6), window=3, stride=2, padding=1, exclude=True),
   S(X(2, 5, 4), window=[2, 3], stride=1), S(X(1, 2, 5, 5), window=2, ceil=True), S(X(1, 2, 5, 5), window=3, stride=2, padding=1, ceil=True), S(X(1, 1, 6, 6), window=[3, 2], stride=[3, 1], ceil=True, exclude=True))
op("AvgPool1D", pooling(F.avg_pool1d, True), CONV, S(X(2, 3, 6), window=2), S(X(2, 7), window=3, stride=2, padding=1), S(X(1, 2, 5), window=2, ceil=True))
op("AdaptiveAvgPool2D", lambda x, size: F.adaptive_avg_pool2d(x, size), CONV, S(X(2, 2, 4, 4), size=2), S(X(1, 2, 5, 7), size=[3, 2]), S(X(2, 5, 4), size=1), S(X(1, 1, 3, 3), size=[5, 4]))
op("AdaptiveAvgPool1D", lambda x, size: F.adaptive_avg_pool1d(x, size), CONV, S(X(2, 2, 6), size=3), S(X(1, 2, 7), size=3), S(X(2, 5), size=1))
op("AdaptiveMaxPool2D", lambda x, size: F.adaptive_max_pool2d(x, size), CONV, S(X(2, 2, 4, 4, **D), size=2), S(X(1, 2, 5, 7, **D), size=[3, 2]), S(X(2, 5, 4, **D), size=1))
op("AdaptiveMaxPool1D", lambda x, size: F.adaptive_max_pool1d(x, size), CONV, S(X(2, 2, 6, **D), size=3), S(X(1, 2, 7, **D), size=3), S(X(2, 5, **D), size=1))
op("GlobalAvgPool", lambda x: x.mean(tuple(range(2, x.dim()))), FLOATS, S(X(2, 3, 4)), S(X(2, 3, 2, 4)), S(X(0, 2, 3)))
op("GlobalMaxPool", lambda x: x.amax(tuple(range(2, x.dim()))), FLOATS, S(X(2, 3, 4, **D)), S(X(2, 3, 2, 4, **D)), S(X(0, 2, 3)))

# ---- normalization, dropout, embedding ----------------------------------

EPS = dict(eps=1e-5)
op("LayerNorm", lambda x, w=None, b=None, shape=None, eps=0: F.layer_norm(x, shape, w, b, eps), FLOATS, S(X(2, 3), X(3), X(3), shape=[3], **EPS), S(X(2, 3, 4), shape=[3, 4], **EPS),
   S(X(2, 3, 4), X(4), X(4), shape=[4], **EPS), S(X(5), X(5), shape=[5], **EPS), S(X(0, 3), X(3), X(3), shape=[3], **EPS), S(X(2, 70), X(70), X(70), shape=[70], **EPS))
op("RMSNorm", lambda x, w=None, shape=None, eps=0: F.rms_norm(x, shape, w, eps), FLOATS, S(X(2, 3), X(3), shape=[3], **EPS), S(X(2, 3, 4), shape=[3, 4], **EPS), S(X(5), X(5), shape=[5], **EPS),
   S(X(0, 3), X(3), shape=[3], **EPS))
op("GroupNorm", lambda x, w=None, b=None, groups=0, eps=0: F.group_norm(x, groups, w, b, eps), FLOATS, S(X(2, 4, 3), X(4), X(4), groups=2, **EPS), S(X(2, 6, 2, 2), groups=3, **EPS),
   S(X(2, 4, 3), X(4), X(4), groups=1, **EPS), S(X(2, 3, 4), X(3), X(3), groups=3, **EPS))
op("InstanceNorm", lambda x, w=None, b=None, eps=0: F.instance_norm(x, None, None, w, b, True, 0.1, eps), FLOATS, S(X(2, 3, 4), X(3), X(3), **EPS), S(X(2, 2, 3, 3), **EPS), S(X(1, 2, 5), X(2), X(2), **EPS))


def batch_norm(x, w=None, b=None, eps=0):
    axes = (0,) + tuple(range(2, x.dim()))
    return F.batch_norm(x, None, None, w, b, True, 0.1, eps), x.detach().mean(axes), x.detach().var(axes)


op("BatchNorm", batch_norm, FLOATS, S(X(4, 3), X(3), X(3), **EPS), S(X(3, 2, 4), **EPS), S(X(2, 3, 2, 3), X(3), X(3), **EPS), S(X(5, 1), X(1), X(1), **EPS))
op("BatchNormWith", lambda x, m, v, w=None, b=None, eps=0: F.batch_norm(x, m, v, w, b, False, 0.1, eps), FLOATS,
   S(X(4, 3), X(3, grad=False), X(3, lo=0.5, grad=False), X(3), X(3), **EPS), S(X(2, 3, 4), X(3, grad=False), X(3, lo=0.5, grad=False), **EPS),
   S(X(0, 2, 3), X(2, grad=False), X(2, lo=0.5, grad=False), X(2), X(2), **EPS))


def batch_norm_with(x, m, v, w=None, b=None, eps=0):
    """PyTorch's own has no gradient for the mean and the variance."""
    at = (1, -1) + (1,) * (x.dim() - 2)
    y = (x - m.reshape(at)) / torch.sqrt(v.reshape(at) + eps)
    y = y if w is None else y * w.reshape(at)
    return y if b is None else y + b.reshape(at)


op("BatchNormWith", batch_norm_with, ["float32", "float64"], S(X(4, 3), X(3), X(3, lo=0.5), X(3), X(3), **EPS), S(X(2, 3, 4), X(3), X(3, lo=0.5), **EPS))
NORMS = [S(X(2, 3, away=0.1), p=2.0, axis=1, eps=1e-12), S(X(3, 4, away=0.1), p=1.0, axis=0, eps=1e-12), S(X(2, 3, 2, away=0.1), p=3.0, axis=-2, eps=1e-12),
         S(L([[0.0, 0.0], [3.0, 4.0]]), p=2.0, axis=1, eps=0.0625, smooth=False)]
op("Normalize", lambda x, p, axis, eps: F.normalize(x, p, axis, eps), FLOATS, *[S(*s.inputs, smooth=s.smooth, **{**s.attrs, "eps": 0.0625}) for s in NORMS], S(X(0, 3), p=2.0, axis=1, eps=0.0625))
op("LocalResponseNorm", lambda x, size, alpha, beta, k: F.local_response_norm(x, size, alpha, beta, k), ["float32", "float64", "bfloat16"], S(X(2, 5, 3), size=3, alpha=0.5, beta=0.75, k=1.0),
   S(X(1, 4, 2, 2), size=2, alpha=1.0, beta=0.5, k=2.0), S(X(2, 3, 4), size=5, alpha=0.25, beta=1.0, k=1.0))
op("CosineSimilarity", lambda a, b, axis, eps: F.cosine_similarity(a, b, axis, eps), FLOATS, S(X(2, 3), X(2, 3), axis=1, eps=2.0**-13), S(X(3, 4), X(4), axis=-1, eps=2.0**-13), S(X(2, 3, 4), X(2, 3, 4), axis=0, eps=2.0**-13),
   S(X(0, 3), X(0, 3), axis=1, eps=2.0**-13))
op("PairwiseDistance", lambda a, b, p, eps: F.pairwise_distance(a, b, p, eps), FLOATS, S(X(2, 3), X(2, 3, choice=[-2.5, -0.5, 0.25, 1.5]), p=2.0, eps=2.0**-10), S(X(3), X(3, choice=[-2.5, -0.5, 0.25, 1.5]), p=1.0, eps=2.0**-10),
   S(X(2, 4), X(4, choice=[-2.5, -0.5, 0.25, 1.5]), p=3.0, eps=2.0**-10))
for n, f in ("Dropout", F.dropout), ("DropoutChannels", F.dropout1d), ("AlphaDropout", F.alpha_dropout):
    op(n, lambda x, p, f=f: f(x, p, training=True), FLOATS, S(X(2, 3, 4), p=0.0), S(X(2, 3, 4), p=1.0, smooth=n != "AlphaDropout"), S(X(0, 2, 3), p=0.0))
op("Embedding", lambda w, i, padding=None: F.embedding(i.long(), w, padding[0] if padding else None), FLOATS, S(X(5, 3), index(4, below=5)), S(X(5, 3), index(2, 3, below=5, dtype="int32")),
   S(X(4, 2), index(below=4)), S(X(3, 2), given("int64", [0, 1, 2, 1]), padding=[1], smooth=False), S(X(3, 2), index(0, below=3)))

# ---- losses -------------------------------------------------------------

REDUCE = ["mean", "sum", "none"]


def loss(name, ref, *samples, dtypes=FLOATS):
    """Each sample with each reduction in turn."""
    op(name, ref, dtypes, *[S(*s.inputs, smooth=s.smooth, grad=s.grad, only=s.only, reduction=r, **s.attrs) for i, s in enumerate(samples) for r in ([REDUCE[(i + j) % 3] for j in range(2)])])


T = dict(choice=[-2.5, -1.0, -0.5, 0.25, 1.5, 2.0])  # targets that no prediction meets
P = dict(lo=0.05, hi=0.95)
SIGN = dict(choice=[-1.0, 1.0], grad=False)
loss("MSELoss", lambda x, t, reduction: F.mse_loss(x, t, reduction=reduction), S(X(2, 3), X(2, 3)), S(X(5), X(5)), S(X(), X()))
loss("L1Loss", lambda x, t, reduction: F.l1_loss(x, t, reduction=reduction), S(X(2, 3), X(2, 3, **T)), S(X(5), X(5, **T)), S(X(), X(**T)))
loss("HuberLoss", lambda x, t, delta, reduction: F.huber_loss(x, t, reduction=reduction, delta=delta), S(X(2, 3), X(2, 3, **T), delta=1.0), S(X(5), X(5, **T), delta=0.5), S(X(2, 2), X(2, 2, **T), delta=2.0))
loss("SmoothL1Loss", lambda x, t, beta, reduction: F.smooth_l1_loss(x, t, reduction=reduction, beta=beta), S(X(2, 3), X(2, 3, **T), beta=1.0), S(X(5), X(5, **T), beta=0.5), S(X(5), X(5, **T), beta=0.0))


def bce(x, t, w=None, reduction=None, weight=False):
    return F.binary_cross_entropy(x, t, None if w is None else w.expand(x.shape), reduction=reduction)


FIXED = dict(lo=0.5, grad=False)
loss("BCELoss", bce, S(X(2, 3, **P), X(2, 3, **P)), S(X(5, **P), X(5, **P)), S(X(2, 3, **P), X(2, 3, grad=False, **P), X(3, **FIXED), weight=True),
     S(L([0.0, 1.0, 1.0, 0.0]), L([1.0, 0.0, 1.0, 0.0]), grad=False, only=["float32", "float64"]))


def bce_logits(x, t, *ws, reduction, weight=False, pos=False):
    return F.binary_cross_entropy_with_logits(x, t, ws[0] if weight else None, reduction=reduction, pos_weight=ws[-1] if pos else None)


loss("BCEWithLogits", bce_logits, S(X(2, 3), X(2, 3, **P)), S(X(5), X(5, **P)), S(X(2, 3), X(2, 3, **P), X(2, 3, **FIXED), weight=True), S(X(2, 3), X(2, 3, **P), X(3, **FIXED), pos=True),
     S(L([80.0, -80.0, 1000.0, -1000.0]), L([0.0, 1.0, 1.0, 0.0]), smooth=False, only=["float32", "float64"]))
loss("KLDiv", lambda x, t, reduction: F.kl_div(x, t, reduction=reduction), S(X(2, 3), X(2, 3, **P)), S(X(5), X(5, **P)), S(L([[-1.0, -2.0]]), L([[0.0, 1.0]]), grad=False))
op("KLDiv", lambda x, t, reduction: F.kl_div(x, t, reduction=reduction), ["float32", "float64"], S(X(4, 3), X(4, 3, **P), reduction="batchmean"))
loss("KLDivLog", lambda x, t, reduction: F.kl_div(x, t, reduction=reduction, log_target=True), S(X(2, 3), X(2, 3)), S(X(5), X(5)))
loss("HingeEmbedding", lambda x, t, margin, reduction: F.hinge_embedding_loss(x, t, margin, reduction=reduction), S(X(2, 3), X(2, 3, **SIGN), margin=1.0), S(X(5), X(5, **SIGN), margin=2.0))
loss("MarginRanking", lambda a, b, t, margin, reduction: F.margin_ranking_loss(a, b, t, margin, reduction=reduction), S(X(5), X(5), X(5, **SIGN), margin=0.0625), S(X(2, 3), X(2, 3), X(2, 3, **SIGN), margin=0.5))
loss("SoftMargin", lambda x, t, reduction: F.soft_margin_loss(x, t, reduction=reduction), S(X(2, 3), X(2, 3, **SIGN)), S(X(5), X(5, **SIGN)))
loss("CosineEmbedding", lambda a, b, t, margin, reduction: F.cosine_embedding_loss(a, b, t, margin, reduction=reduction), S(X(4, 3), X(4, 3), X(4, **SIGN), margin=0.0), S(X(3, 2), X(3, 2), X(3, **SIGN), margin=0.25))
loss("TripletMargin", lambda a, p_, n, margin, p, reduction: F.triplet_margin_loss(a, p_, n, margin, p, reduction=reduction), S(X(4, 3), X(4, 3, **T), X(4, 3, **T), margin=1.0, p=2.0), S(X(2, 5), X(2, 5, **T), X(2, 5, **T), margin=4.0, p=2.0),
     dtypes=["float32", "float64", "bfloat16"])
loss("PoissonNLL", lambda x, t, reduction: F.poisson_nll_loss(x, t, reduction=reduction), S(X(2, 3), X(2, 3, lo=0.1)), S(X(5), X(5, lo=0.1)))
loss("GaussianNLL", lambda x, t, v, eps, reduction: F.gaussian_nll_loss(x, t, v, eps=eps, reduction=reduction), S(X(2, 3), X(2, 3), X(2, 3, lo=0.5), eps=2.0**-10), S(X(5), X(5), X(5, lo=0.5), eps=2.0**-10))


def cross_entropy(x, t, w=None, reduction="mean", ignore=-100, smoothing=0.0):
    return F.cross_entropy(x, t if t.is_floating_point() else t.long(), w, ignore_index=ignore, reduction=reduction, label_smoothing=smoothing)


loss("CrossEntropy", cross_entropy, S(X(4, 3), index(4, below=3)), S(X(3), index(below=3)), S(X(2, 4, 3), index(2, 3, below=4, dtype="int32")), S(X(4, 3), X(4, 3, **P)), S(X(4, 3), X(4, 3, **P), smoothing=0.25),
     S(X(4, 3), index(4, below=3), smoothing=0.25), S(X(5, 3), given("int64", [0, -100, 2, 1, -100]), ignore=-100), S(X(5, 3), given("int64", [0, 1, 2, 1, 1]), ignore=1, smoothing=0.125),
     S(X(4, 3), index(4, below=3), X(3, **FIXED)), S(X(4, 3), given("int64", [0, 1, 2, 1]), X(3, **FIXED), ignore=1, smoothing=0.25), S(X(4, 3), X(4, 3, **P), X(3, **FIXED)))
loss("NLLLoss", lambda x, t, w=None, reduction="mean", ignore=-100: F.nll_loss(x, t.long(), w, ignore_index=ignore, reduction=reduction), S(X(4, 3), index(4, below=3)), S(X(3), index(below=3)),
     S(X(2, 4, 3), index(2, 3, below=4)), S(X(4, 3), given("int64", [0, 1, 2, 1]), ignore=1), S(X(4, 3), index(4, below=3), X(3, **FIXED)), dtypes=["float32", "float64", "bfloat16"])

# ---- arranging and matrices ---------------------------------------------

view("Tensor.Roll", lambda x, by, axis: torch.roll(x, by, axis), S(X(5), by=2, axis=0), S(X(2, 4), by=-1, axis=1), S(X(3, 2, 2), by=7, axis=-3), S(X(0, 2), by=1, axis=0), S(X(4), by=0, axis=0))


def pad_with(x, mode, amounts):
    for axis in range(len(amounts) // 2):
        lo, hi, n = amounts[2 * axis], amounts[2 * axis + 1], x.shape[axis]
        at = torch.arange(-lo, n + hi)
        if mode == "reflect":
            at = (n - 1) - ((at.abs()) - (n - 1)).abs() if n > 1 else at.abs() * 0
        at = at.clamp(0, n - 1) if mode == "replicate" else at % n if mode == "circular" else at
        x = x.index_select(axis, at)
    return x


view("Tensor.PadWith", pad_with, S(X(4), mode="reflect", amounts=[2, 3]), S(X(3, 4), mode="replicate", amounts=[1, 2, 0, 3]), S(X(3, 4), mode="circular", amounts=[0, 0, 2, 4]), S(X(2, 3, 2), mode="reflect", amounts=[1, 0, 2, 2]))
view("Meshgrid", lambda *xs: torch.meshgrid(*xs, indexing="ij"), S(X(2), X(3)), S(X(4)), S(X(2), X(1), X(3)), S(X(0), X(2)))
op("SegmentSum", lambda x, i, n: torch.zeros((n,) + x.shape[1:], dtype=x.dtype).index_add(0, i.long(), x), ["float32", "float64", "int64", "bfloat16"], S(X(5, 2), given("int64", [0, 2, 0, 3, 2]), n=4),
   S(X(4), given("int32", [1, 1, 1, 0]), n=2), S(X(0, 2), given("int64", np.zeros(0, np.int64)), n=3), S(X(3, 2, 2), given("int64", [2, 1, 0]), n=3))


def segment_mean(x, i, n):
    count = torch.bincount(i.long(), minlength=n).clamp(min=1).to(x.dtype).reshape((-1,) + (1,) * (x.dim() - 1))
    return torch.zeros((n,) + x.shape[1:], dtype=x.dtype).index_add(0, i.long(), x) / count


op("SegmentMean", segment_mean, ["float32", "float64", "bfloat16"], S(X(5, 2), given("int64", [0, 2, 0, 3, 2]), n=4), S(X(4), given("int32", [1, 1, 1, 0]), n=2), S(X(3, 2, 2), given("int64", [2, 1, 0]), n=3))
for n, f in ("Tril", torch.tril), ("Triu", torch.triu):
    view("Tensor." + n, lambda x, offset, f=f: f(x, offset), S(X(3, 4), offset=0), S(X(3, 4), offset=1), S(X(2, 3, 3), offset=-1), S(X(4, 2), offset=5), S(X(0, 3), offset=0))
op("Tensor.Trace", lambda x: torch.diagonal(x, 0, -2, -1).sum(-1), ["float32", "float64", "int64"], S(X(3, 3)), S(X(2, 3, 4)), S(X(0, 3)))
op("Tensor.Diag", lambda x, offset: torch.diag(x, offset), ["float32", "float64", "int64", "bfloat16"], S(X(3), offset=0), S(X(3), offset=1), S(X(3, 4), offset=0), S(X(3, 4), offset=-1), S(X(0), offset=0))
op("Tensor.DiagEmbed", lambda x, offset: torch.diag_embed(x, offset), ["float32", "float64", "int64", "bfloat16"], S(X(3), offset=0), S(X(2, 3), offset=-1), S(X(2, 1, 2), offset=2), S(X(2, 0), offset=1))
op("Tensor.Outer", torch.outer, ["float32", "float64", "int64", "bfloat16"], S(X(3), X(4)), S(X(1), X(2)), S(X(0), X(2)))
op("Tensor.Kron", torch.kron, ["float32", "float64", "int64", "bfloat16"], S(X(2, 3), X(3, 2)), S(X(2), X(2, 2)), S(X(2, 1, 2), X(3)), S(X(), X(2)))
op("Tensor.Cross", lambda a, b, axis: torch.linalg.cross(*torch.broadcast_tensors(a, b), dim=axis), ["float32", "float64", "int64", "bfloat16"], S(X(3), X(3), axis=0), S(X(2, 3), X(2, 3), axis=1), S(X(3, 2), X(3, 1), axis=0), S(X(4, 1, 3), X(2, 3), axis=-1))


def lerp(a, b, w=None, weight=None):
    return torch.lerp(a, b, weight if w is None else w)


op("Tensor.Lerp", lerp, FLOATS, S(X(2, 3), X(2, 3), weight=0.25), S(X(2, 3), X(3), X(2, 1)), S(X(4), X(), weight=2.0), S(X(0, 2), X(2), weight=0.5))
op("Tensor.CumProd", lambda x, axis: torch.cumprod(x, axis).to(x.dtype), NUMBERS, S(X(5, lo=-2, hi=2), axis=0), S(X(2, 3), axis=1), S(X(3, 2, 2), axis=-3), S(X(0, 3), axis=0), S(L([[1.0, 0.0, 2.0, 3.0], [2.0, 0.0, 0.0, 2.0]]), axis=1))
EINSUM = ["ij,jk->ik", "bhld,bhsd->bhls", "ii->i", "ii", "i,j->ij", "ij->ji", "...i,...i->...", "ij,kj,jl->ikl", "bij,bjk", "i,i", "ij->", "ij,j->i", "aij,ajk->aik"]
SHAPES = [[(2, 3), (3, 4)], [(2, 2, 3, 2), (2, 2, 4, 2)], [(3, 3)], [(3, 3)], [(2,), (3,)], [(2, 3)], [(2, 3, 4), (3, 4)], [(2, 3), (4, 3), (3, 2)], [(2, 2, 3), (2, 3, 2)], [(4,), (4,)], [(2, 3)], [(2, 3), (3,)], [(1, 2, 3), (4, 3, 2)]]
op("Einsum", lambda *xs, formula: torch.einsum(formula, *xs), ["float32", "float64", "bfloat16"], *[S(*[X(*s) for s in shapes], formula=f) for f, shapes in zip(EINSUM, SHAPES)])
op("PixelShuffle", lambda x, r: F.pixel_shuffle(x, r), ["float32", "float64", "int64"], S(X(1, 4, 2, 3), r=2), S(X(9, 2, 2), r=3), S(X(2, 2, 8, 1, 2), r=2), S(X(0, 4, 2, 2), r=2, grad=False))
op("PixelUnshuffle", lambda x, r: F.pixel_unshuffle(x, r), ["float32", "float64", "int64"], S(X(1, 2, 4, 6), r=2), S(X(1, 3, 3), r=3), S(X(2, 1, 2, 4), r=1))
pairwise = pairs(lambda x, window, **a: F.unfold(x, window, **a))
op("Unfold", pairwise, ["float32", "float64", "bfloat16"], S(X(2, 2, 4, 3), window=2), S(X(1, 2, 5, 6), window=[3, 2], stride=2, padding=1), S(X(1, 1, 6, 6), window=2, dilation=[2, 3]))
op("Fold", pairs(lambda x, size, window, **a: F.fold(x, size, window, **a)), ["float32", "float64", "bfloat16"], S(X(2, 8, 6), size=[4, 3], window=2), S(X(1, 12, 12), size=[5, 6], window=[3, 2], stride=2, padding=1),
   S(X(1, 4, 15), size=[7, 6], window=2, dilation=[2, 3]))
op("Interpolate", lambda x, size, mode: F.interpolate(x, size, mode="bilinear" if mode == "corners" else mode, align_corners={"nearest": None, "bilinear": False, "corners": True}[mode]), ["float32", "float64"],
   *[S(X(1, 2, 3, 4), size=[5, 2], mode=m) for m in ("nearest", "bilinear", "corners")], *[S(X(2, 1, 2, 2), size=4, mode=m) for m in ("nearest", "bilinear", "corners")], S(X(1, 1, 4, 4), size=[4, 4], mode="bilinear"))
op("ClipByValue", lambda x, limit: x.clamp(-limit, limit), FLOATS + ["int64", "int32"], S(X(2, 3), limit=1), S(X(5), limit=2), S(X(0, 2), limit=1), S(X(), limit=0, smooth=False))


def clip_norm(*xs, limit):
    wide = [x.float() if x.dtype in (torch.float16, torch.bfloat16) else x for x in xs]
    norm = torch.sqrt(sum((x * x).sum() for x in wide))
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    return [x * factor.to(x.dtype) for x in xs]


op("ClipByNorm", lambda x, limit: clip_norm(x, limit=limit)[0], FLOATS, S(X(2, 3), limit=1.0), S(X(5), limit=100.0), S(X(), limit=0.25))
op("ClipGlobalNorm", clip_norm, FLOATS, S(X(2, 3), X(4), limit=1.0), S(X(5), X(2, 2), X(1), limit=100.0), S(X(3), limit=0.5))
op("GlobalNorm", lambda *xs: torch.sqrt(sum((x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).square().sum() for x in xs)).to(xs[0].dtype), FLOATS, S(X(2, 3), X(4)), S(X(5), X(2, 2), X(1)), S(X(3)))
creation("Device.TriangularMask", lambda t, rows, columns, offset: torch.tril(torch.ones(rows, columns), offset).bool(), ["bool"], S(rows=3, columns=3, offset=0), S(rows=2, columns=4, offset=1), S(rows=4, columns=2, offset=-1),
         S(rows=0, columns=2, offset=0))

# ---- attention and recurrent cells --------------------------------------


def attention(q, k, v, m=None, causal=False, scale=None, grouped=False):
    return F.scaled_dot_product_attention(q, k, v, m, is_causal=causal, scale=scale, enable_gqa=grouped)


ATT = ["float32", "float64", "bfloat16"]


def visible(*shape):
    """A mask in which every row sees something."""
    def make(rng):
        m = rng.integers(0, 2, size=shape) != 0
        m[..., 0] = True
        return m
    return Fixed("bool", make)


op("Attention", attention, ATT, S(X(2, 3, 4), X(2, 5, 4), X(2, 5, 3)), S(X(1, 2, 3, 4), X(1, 2, 3, 4), X(1, 2, 3, 4), causal=True), S(X(3, 2), X(4, 2), X(4, 2), scale=0.5), S(X(2, 3, 4), X(2, 5, 4), X(2, 5, 3), visible(3, 5)),
   S(X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 3), visible(2, 1, 3, 5)), S(X(2, 3, 4), X(2, 5, 4), X(2, 5, 3), X(3, 5)), S(X(1, 4, 3, 2), X(1, 2, 5, 2), X(1, 2, 5, 3), grouped=True),
   S(X(1, 2, 9, 8), X(1, 2, 9, 8), X(1, 2, 9, 8), causal=True))


def cell(module, gates, two=False):
    def f(x, h, *rest, relu=False):
        rest = list(rest)
        c = rest.pop(0) if two else None
        w, u = rest[0], rest[1]
        b1, b2 = (rest[2], rest[3]) if len(rest) > 2 else (None, None)
        if module is torch.rnn_tanh_cell and relu:
            return torch.rnn_relu_cell(x, h, w, u, b1, b2)
        return module(x, (h, c) if two else h, w, u, b1, b2)
    n, i, s = 2, 3, 4
    W = dict(lo=-1, hi=1)
    state = [X(n, s), X(n, s)] if two else [X(n, s)]
    samples = [S(X(n, i), *state, X(gates * s, i, **W), X(gates * s, s, **W), X(gates * s, **W), X(gates * s, **W)), S(X(n, i), *state, X(gates * s, i, **W), X(gates * s, s, **W)),
               S(X(1, 1), *[X(1, 2) for _ in state], X(gates * 2, 1, **W), X(gates * 2, 2, **W), X(gates * 2, **W), X(gates * 2, **W))]
    return f, samples


f, samples = cell(torch.rnn_tanh_cell, 1)
op("RNNCell", f, ["float32", "float64"], *samples, S(*samples[0].inputs, relu=True))
f, samples = cell(torch.lstm_cell, 4, True)
op("LSTMCell", f, ["float32", "float64"], *samples)
f, samples = cell(torch.gru_cell, 3)
op("GRUCell", f, ["float32", "float64"], *samples)



def sequence(network, gates, two=False):
    def f(x, h, *rest, relu=False, reverse=False):
        rest = list(rest)
        state = h[None]
        if two:
            state = (state, rest.pop(0)[None])
        if reverse:
            x = x.flip(0)
        run = torch.rnn_relu if relu else network
        y, *end = run(x, state, rest, len(rest) > 2, 1, 0.0, False, False, False)
        if reverse:
            y = y.flip(0)
        return (y, end[1][0]) if two else y
    W = dict(lo=-1, hi=1)

    def sample(l, n, i, s, bias, **attrs):
        return S(X(l, n, i), *[X(n, s, **W) for _ in range(1 + two)], X(gates * s, i, **W), X(gates * s, s, **W), *[X(gates * s, **W) for _ in range(2 * bias)], **attrs)
    return f, [sample(3, 2, 3, 4, True), sample(4, 2, 3, 2, False, reverse=True), sample(1, 1, 1, 2, True), sample(5, 3, 2, 3, True, reverse=True), sample(2, 9, 7, 11, True)]


f, samples = sequence(torch.rnn_tanh, 1)
op("RNNSequence", f, ["float32", "float64"], *samples, S(*samples[0].inputs, relu=True), S(*samples[3].inputs, relu=True, reverse=True))
f, samples = sequence(torch.lstm, 4, True)
op("LSTMSequence", f, ["float32", "float64"], *samples)
f, samples = sequence(torch.gru, 3)
op("GRUSequence", f, ["float32", "float64"], *samples)

# ---- updates of parameters ----------------------------------------------

AB = dict(a=0.75, b=-1.5)
op("Tensor.Blend", lambda x, y, a, b: a * x + b * y, FLOATS, S(X(2, 3), X(2, 3), **AB), S(X(5), X(5), a=1.0, b=0.25), S(X(), X(), **AB), S(X(0, 2), X(0, 2), **AB), S(X(3, 40), X(3, 40), **AB))
op("Tensor.BlendSquare", lambda x, y, a, b: a * x + b * y * y, FLOATS, S(X(2, 3), X(2, 3), **AB), S(X(5), X(5), a=1.0, b=0.25), S(X(), X(), **AB), S(X(0, 2), X(0, 2), **AB), S(X(3, 40), X(3, 40), **AB))
op("Tensor.AdamStep", lambda x, m, v, keep, rate, root, eps: keep * x - rate * m / (torch.sqrt(v) * root + eps), FLOATS,
   *[S(X(*s), X(*s), X(*s, lo=0.5), keep=0.875, rate=0.5, root=1.25, eps=0.0625) for s in ((2, 3), (5,), (), (0, 2), (3, 40))])
