"""How samples are made, run in PyTorch and written: see record.py.

Inputs come from fixed seeds. Ordinary values are odd multiples of 1/32 with few
digits: exact in every element type, so that all types see the same inputs,
and never on a kink such as 0 or a half. Gradients are those of a weighted sum of
the outputs, whose weights follow from their positions (see weight below and
Weight in internal/optest).

A file is gzip of: 4 bytes length of the JSON header, the header, raw elements.
"""

import gzip
import json
import math
import os
import struct
import warnings
import zlib

import numpy as np
import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

DTYPES = {n: getattr(torch, n) for n in ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")}
NAMES = {v: k for k, v in DTYPES.items()}

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTS = ["int64", "int32", "uint8"]
NUMBERS = FLOATS + INTS
ANY = NUMBERS + ["bool"]


# ---- inputs -------------------------------------------------------------

class X:
    """A tensor of the case's element type."""

    main = True

    def __init__(self, *shape, lo=-3.0, hi=3.0, away=None, distinct=False, choice=None, grad=True):
        self.shape, self.lo, self.hi, self.away, self.distinct, self.choice = shape, lo, hi, away, distinct, choice
        self.grad = grad  # False: PyTorch has no gradient for this operand

    def floats(self, rng):
        n = int(np.prod(self.shape))
        lo, hi = math.ceil(self.lo * 32), math.floor(self.hi * 32)
        choice = [k * 32 for k in self.choice] if self.choice else [k for k in range(lo, hi + 1) if k % 2 != 0 and (self.away is None or abs(k / 32) >= self.away)]
        v = rng.choice(choice, size=n, replace=not self.distinct) / 32.0
        return v.reshape(self.shape)

    def values(self, rng, dtype):
        v = self.floats(rng)
        if dtype == "bool":
            return v > (self.lo + self.hi) / 2
        if dtype in INTS:
            v = np.trunc(v * 2)
            if self.away is not None or self.lo > 0:
                v = np.where(v == 0, 1, v)
            return np.abs(v) if dtype == "uint8" else v
        return v


class L(X):
    """Given values of the case's element type."""

    def __init__(self, values, shape=None, grad=True):
        self.v = np.array(values, dtype=np.float64).reshape(shape if shape is not None else np.shape(values))
        self.shape, self.lo, self.hi, self.away = self.v.shape, -1, 1, None
        self.grad = grad

    def floats(self, rng):
        return self.v

    def values(self, rng, dtype):
        if dtype in INTS:
            return np.abs(self.v) if dtype == "uint8" else self.v
        return self.v != 0 if dtype == "bool" else self.v


class Fixed:
    """A tensor of one element type in all cases: indices, masks."""

    main = grad = False

    def __init__(self, dtype, make):
        self.dtype, self.make = dtype, make

    def values(self, rng, _):
        return self.make(rng)


def index(*shape, below, dtype="int64", distinct=False):
    if distinct:
        return Fixed(dtype, lambda rng: rng.permutation(below)[: int(np.prod(shape))].reshape(shape))
    return Fixed(dtype, lambda rng: rng.integers(0, below, size=shape))


def mask(*shape):
    return Fixed("bool", lambda rng: rng.integers(0, 2, size=shape) != 0)


def given(dtype, values):
    return Fixed(dtype, lambda rng: np.array(values))


INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 10.0, -10.0, 2.0**-14, INF, -INF, NAN]
FINITE = [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 2.5, -2.5, 1.5, -1.5, 10.0, -10.0]


class S:
    """A sample: inputs and attributes. smooth=False keeps it from finite
    differences, grad=False records no gradient, only restricts element types."""

    def __init__(self, *inputs, smooth=True, grad=True, only=None, **attrs):
        self.inputs, self.attrs = inputs, attrs
        self.smooth, self.grad, self.only = smooth and grad, grad, only


class Op:
    def __init__(self, name, ref, dtypes, samples, grad, first):
        self.name, self.ref, self.dtypes, self.samples, self.grad, self.first = name, ref, dtypes, samples, grad, first


OPS = []


def op(name, ref, dtypes, *samples, grad=True):
    """Adds samples of an op; a second call with the same name adds more."""
    first = sum(len(o.samples) for o in OPS if o.name == name)
    OPS.append(Op(name, ref, dtypes, samples, grad, first))


# ---- the file -----------------------------------------------------------

class Blob:
    def __init__(self):
        self.parts, self.at, self.seen = [], 0, {}

    def put(self, t):
        t = t.detach().contiguous()
        name = NAMES[t.dtype]
        raw = (t.view(torch.int16) if name in ("float16", "bfloat16") else t).numpy().tobytes()
        if raw not in self.seen:
            self.seen[raw] = self.at
            self.parts.append(raw)
            self.at += len(raw)
        return {"t": name, "s": list(t.shape), "o": self.seen[raw]}


def clean(v):
    if isinstance(v, float) and not math.isfinite(v):
        return str(v)
    return v


def write(path, header, blob):
    head = json.dumps(header, separators=(",", ":")).encode()
    data = struct.pack("<I", len(head)) + head + b"".join(blob.parts)
    with open(path, "wb") as f:
        f.write(gzip.compress(data, 9, mtime=0))
    print(f"{path}: {os.path.getsize(path)} bytes")


def weight(shape, k):
    """Element i of the weights of output k: an odd sixteenth between -2 and 2."""
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    h = ((i * 2654435761 + 40503 * (k + 1)) % 2**32 * 2246822519 % 2**32) >> np.uint64(27)
    return torch.from_numpy(((2 * h.astype(np.float64) - 31) / 16).reshape(shape))


def tensors(o, i, s, dtype):
    """The sample's inputs for a case, and how they are stored: floats as
    float32, which holds them exactly."""
    ins, stored = [], []
    for j, spec in enumerate(s.inputs):
        rng = np.random.default_rng(zlib.crc32(f"{o.name}/{i}/{j}".encode()))
        t = dtype if spec.main else spec.dtype
        v = torch.from_numpy(np.ascontiguousarray(spec.values(rng, t))).reshape(spec.values(rng, t).shape)
        keep = v.to(torch.float32) if t.startswith(("float", "bfloat")) else v.to(DTYPES[t])
        exact = keep.to(DTYPES[t])
        assert spec.main is False or torch.equal(exact.to(torch.float64).nan_to_num(7), keep.to(torch.float64).nan_to_num(7)), (o.name, dtype)
        ins.append(exact.clone())
        stored.append((keep, spec))
    return ins, stored


def run(o, s, ins, dtype):
    """PyTorch's result in the case's type; where PyTorch has no kernel for a
    half-precision type, the float32 result rounded."""
    attrs = dict(s.attrs)
    try:
        out = o.ref(*ins, **attrs) if ins else o.ref(DTYPES[dtype], **attrs)
        return out, False
    except (RuntimeError, NotImplementedError) as e:
        if dtype not in ("float16", "bfloat16") or "implemented" not in str(e) and "support" not in str(e):
            raise
    up = [t.float() if t.dtype == DTYPES[dtype] else t for t in ins]
    out = o.ref(*up, **attrs) if ins else o.ref(torch.float32, **attrs)
    many = out if isinstance(out, (tuple, list)) else [out]
    return [t.to(DTYPES[dtype]) if t.dtype == torch.float32 else t for t in many], True


def record_ops(path, ops):
    blob, cases = Blob(), []
    for o in ops:
        for i, s in enumerate(o.samples, o.first):
            for dtype in o.dtypes if s.only is None else s.only:
                ins, stored = tensors(o, i, s, dtype)
                want_grad = o.grad and s.grad and dtype in ("float32", "float64")
                if want_grad:
                    for t, (_, spec) in zip(ins, stored):
                        if spec.main and spec.grad:
                            t.requires_grad_()
                try:
                    out, up = run(o, s, ins, dtype)
                except Exception as e:
                    raise SystemExit(f"{o.name} sample {i} {dtype}: {e}")
                outs = list(out) if isinstance(out, (tuple, list)) else [out]
                c = {"op": o.name, "n": i, "t": dtype}
                if s.attrs:
                    c["a"] = {k: [clean(x) for x in v] if isinstance(v, (list, tuple)) else clean(v) for k, v in s.attrs.items()}
                c["in"] = [dict(blob.put(t), **({"m": 1 if spec.grad else 2} if spec.main else {})) for t, spec in stored]
                c["out"] = [blob.put(t) for t in outs]
                if up:
                    c["up"] = 1
                if want_grad and any(t.is_floating_point() for t in outs):
                    loss = sum((t * weight(t.shape, k).to(t.dtype)).sum() for k, t in enumerate(outs) if t.is_floating_point())
                    leaves = [t for t in ins if t.requires_grad]
                    grads = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else [None] * len(leaves)
                    c["g"] = [blob.put(torch.zeros_like(t) if g is None else g) for t, g in zip(leaves, grads)]
                    if s.smooth:
                        c["smooth"] = 1
                cases.append(c)
    print(f"{len({o.name for o in ops})} ops, {len(cases)} cases")
    write(path, {"torch": torch.__version__, "cases": cases}, blob)
