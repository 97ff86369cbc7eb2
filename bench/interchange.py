#!/usr/bin/env python3
"""Checks that weight files pass between Locus and Python in both directions.

    python bench/interchange.py            # the round trip, in a temporary folder
    python bench/interchange.py fixtures   # rewrites weights/testdata/python*

Needs Go, torch, numpy and safetensors; ml_dtypes is used if it is there. Python
writes files of every element type and many shapes; `go test ./weights` reads
them, compares every element with the formula below, and writes its own files
of the same tensors, which Python then reads and compares.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import safetensors
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {"scalar": (), "vector": (7,), "empty": (0, 3), "cube": (3, 4, 5)}
TYPES = {
    "bool": torch.bool, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64,
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64,
}
METADATA = {"format": "pt", "note": "ünïcode \"quoted\"\n"}


def values(name, shape):
    """Numbers that every element type holds exactly; weights/interchange_test.go has the same."""
    i = torch.arange(int(np.prod(shape)), dtype=torch.int64)
    v = i * 7 % 41
    if name == "bool":
        return (v % 3 == 0).reshape(shape)
    if name == "uint8":
        return v.to(torch.uint8).reshape(shape)
    v = v - 20
    if name.startswith("int"):
        return v.to(TYPES[name]).reshape(shape)
    v = (v.to(torch.float64) / 4)
    if len(v) == 7:  # what is not a plain number must pass too
        v[0], v[1], v[2], v[3] = float("inf"), float("-inf"), float("nan"), -0.0
    return v.to(TYPES[name]).reshape(shape)


def tensors():
    return {f"{t}.{s}": values(t, SHAPES[s]).contiguous() for t in TYPES for s in SHAPES}


def arrays():
    return {n: t.numpy() for n, t in tensors().items() if t.dtype != torch.bfloat16}


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def write(folder):
    folder = pathlib.Path(folder)
    torch.manual_seed(0)
    net, x = mlp(), torch.randn(5, 8)
    with torch.no_grad():
        safetensors.torch.save_file({**net.state_dict(), "x": x, "y": net(x)}, folder / "python-mlp.safetensors")
    safetensors.torch.save_file(tensors(), folder / "python.safetensors", metadata=METADATA)
    np.savez(folder / "python.npz", **arrays())
    np.savez_compressed(folder / "python-compressed.npz", **arrays())
    cube = arrays()["float32.cube"]
    np.save(folder / "python.npy", cube)
    np.save(folder / "python-fortran.npy", np.asfortranarray(cube))
    np.save(folder / "python-bigendian.npy", cube.astype(">f4"))
    with open(folder / "python-version2.npy", "wb") as f:
        np.lib.format.write_array(f, cube, version=(2, 0))
    try:
        import ml_dtypes
    except ImportError:
        print("ml_dtypes is not there: python-bfloat16.npy is not written")
        return
    bits = tensors()["bfloat16.cube"].view(torch.int16).numpy()
    np.save(folder / "python-bfloat16.npy", bits.view(ml_dtypes.bfloat16))


def same(a, b):
    """Bit for bit."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if isinstance(a, torch.Tensor):
        a, b = (t.contiguous().reshape(-1).view(torch.uint8).numpy() for t in (a, b))
    return a.tobytes() == b.tobytes()


def check(folder):
    folder = pathlib.Path(folder)
    want = tensors()
    got = safetensors.torch.load_file(folder / "locus.safetensors")
    assert got.keys() == want.keys(), got.keys() ^ want.keys()
    for name in want:
        assert same(got[name], want[name]), name
    with safetensors.safe_open(folder / "locus.safetensors", "pt") as f:
        assert f.metadata() == METADATA, f.metadata()
    print(f"Locus -> safetensors: {len(got)} tensors and metadata equal")

    state = safetensors.torch.load_file(folder / "locus-mlp.safetensors")
    x, y = state.pop("x"), state.pop("y")
    net = mlp()
    net.load_state_dict(state)
    with torch.no_grad():
        worst = (net(x) - y).abs().max().item()
    assert worst < 1e-5, worst
    print(f"Locus -> a PyTorch network: outputs differ by at most {worst:.1e}")

    want = arrays()
    with np.load(folder / "locus.npz", allow_pickle=False) as z:
        names = [n for n in z.files if not n.startswith("bfloat16")]
        assert set(names) == set(want), set(names) ^ set(want)
        for name in names:
            assert same(z[name], want[name]), name
        bits = z["bfloat16.cube"]
    assert bits.tobytes() == tensors()["bfloat16.cube"].view(torch.int16).numpy().tobytes()
    print(f"Locus -> npz: {len(names)} arrays equal, bfloat16 as two opaque bytes")
    assert same(np.load(folder / "locus.npy", allow_pickle=False), want["float32.cube"])
    print("Locus -> npy: equal")


def main():
    print(f"python {sys.version.split()[0]}, torch {torch.__version__}, numpy {np.__version__}, safetensors {safetensors.__version__}")
    if sys.argv[1:] == ["fixtures"]:
        write(ROOT / "weights" / "testdata")
        return
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        subprocess.run(
            ["go", "test", "-count=1", "-run", "TestInterchange", "./weights"],
            cwd=ROOT, env={**os.environ, "LOCUS_INTERCHANGE": folder}, check=True)
        print("Python -> Locus: every element equal (go test)")
        check(folder)


if __name__ == "__main__":
    main()
