"""Locus and PyTorch on this machine's first GPU, side by side in one run.

    python bench/gpu.py --binary ./gpu      # built with CGO_ENABLED=0 go build ./bench/gpu

Cases run in groups, alternately in both; medians of several repetitions, the
smaller of two rounds. A ratio above 1 means that Locus is faster.
"""
import argparse, json, os, statistics, subprocess, sys, time

import torch
import torch.nn.functional as F
from torch import nn

D = "cuda"


def each(times, f, *shape):
    def make():
        x = torch.rand(*shape, device=D)
        return lambda: f(x)
    return times, make


def matmul(n, times, dtype, tf32):
    def make():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(n, n, device=D).to(dtype) for _ in range(2))
        return lambda: a @ b
    return times, make


def linear(n, times, dtype):
    def make():
        x, w, b = (torch.randn(*s, device=D).to(dtype) for s in ((n, n), (n, n), (n,)))
        return lambda: F.gelu(F.linear(x, w, b))
    return times, make


# Batch, channels and size of the image, channels of the result, size of the kernel,
# padding, stride: the convolutions of ResNet-18, and three for images of 96².
CONVS = {
    "conv_a": (128, 64, 24, 64, 3, 1, 1), "conv_b": (128, 128, 12, 128, 3, 1, 1), "conv_c": (128, 3, 96, 64, 7, 3, 2),
    "resnet_stem": (32, 3, 224, 64, 7, 3, 2), "resnet_1": (32, 64, 56, 64, 3, 1, 1),
    "resnet_2_down": (32, 64, 56, 128, 3, 1, 2), "resnet_2_1x1": (32, 64, 56, 128, 1, 0, 2), "resnet_2": (32, 128, 28, 128, 3, 1, 1),
    "resnet_3_down": (32, 128, 28, 256, 3, 1, 2), "resnet_3_1x1": (32, 128, 28, 256, 1, 0, 2), "resnet_3": (32, 256, 14, 256, 3, 1, 1),
    "resnet_4_down": (32, 256, 14, 512, 3, 1, 2), "resnet_4_1x1": (32, 256, 14, 512, 1, 0, 2), "resnet_4": (32, 512, 7, 512, 3, 1, 1),
}


def conv(of, batch, cin, size, cout, kernel, pad, stride):
    """Forward, or the gradient of the image or of the weight alone."""
    def make():
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        x, w = torch.randn(batch, cin, size, size, device=D), torch.randn(cout, cin, kernel, kernel, device=D)
        if of == "":
            return lambda: F.conv2d(x, w, padding=pad, stride=stride)
        arg = (x if of == "_input_grad" else w).requires_grad_()
        y = F.conv2d(x, w, padding=pad, stride=stride)
        g = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, arg, g, retain_graph=True)
    return 20, make


def products(read):
    def make():
        a, b = torch.randn(100, 100, device=D), torch.randn(100, 100, device=D)

        def run():
            norms = []
            for _ in range(1000):
                n = (a @ b).norm()
                norms.append(n.item() if read else n)
            if not read:
                torch.stack(norms).cpu()
        return run
    return 1, make


def step(batch, shape, build):
    def make():
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        net = build().to(D)
        opt = torch.optim.SGD(net.parameters(), lr=0.01)
        x, y = torch.rand(batch, *shape, device=D), torch.randint(0, 10, (batch,), device=D)

        def run():
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        return run
    return 50, make


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))


def add(n):
    def make():
        x, y = torch.rand(*n, device=D), torch.rand(*n, device=D)
        return lambda: x + y
    return make


def attention(dtype, causal, grad, *shape):
    def make():
        torch.backends.cuda.matmul.allow_tf32 = False
        q, k, v = (torch.randn(*shape, device=D).to(dtype).requires_grad_(grad) for _ in range(3))
        g = torch.randn(*shape, device=D).to(dtype)
        if not grad:
            return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v), g)
    return 10, make


def cross_entropy():
    x, y = torch.randn(16384, 1024, device=D), torch.randint(0, 1024, (16384,), device=D)
    return lambda: F.cross_entropy(x, y)


def embedding():
    w, i = torch.rand(50000, 512, device=D), torch.randint(0, 50000, (32768,), device=D)
    return lambda: F.embedding(i, w)


def copy(out, pinned):
    def make():
        host = torch.zeros(64 << 20, pin_memory=pinned)
        dev = torch.rand(64 << 20, device=D)
        return (lambda: host.copy_(dev, non_blocking=pinned)) if out else (lambda: host.to(D, non_blocking=pinned))
    return 3, make


def fed_step():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 24 * 24, 10)).to(D)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.rand(256, 3, 96, 96).pin_memory(), torch.randint(0, 10, (256,), device=D)

    def run():
        opt.zero_grad()
        F.cross_entropy(net(x.to(D, non_blocking=True)), y).backward()
        opt.step()
    return run


bf = torch.bfloat16
CASES = {
    "add_2x3": (1000, add((2, 3))), "add_64m": (20, add((64 << 20,))),
    "softmax": each(20, lambda x: F.softmax(x, 1), 4096, 4096), "layernorm": each(20, lambda x: F.layer_norm(x, (4096,)), 4096, 4096),
    "sum": each(20, torch.sum, 4096, 4096), "row_sum": each(20, lambda x: x.sum(1), 4096, 4096), "col_sum": each(20, lambda x: x.sum(0), 4096, 4096),
    "gelu": each(20, F.gelu, 4096, 4096), "cross_entropy": (20, cross_entropy), "embedding": (20, embedding),
    "matmul_1024_f32": matmul(1024, 100, torch.float32, False), "matmul_4096_f32": matmul(4096, 10, torch.float32, False), "matmul_8192_f32": matmul(8192, 3, torch.float32, False),
    "matmul_1024_tf32": matmul(1024, 100, torch.float32, True), "matmul_4096_tf32": matmul(4096, 20, torch.float32, True), "matmul_8192_tf32": matmul(8192, 5, torch.float32, True),
    "matmul_1024_bf16": matmul(1024, 100, bf, False), "matmul_4096_bf16": matmul(4096, 20, bf, False), "matmul_8192_bf16": matmul(8192, 5, bf, False),
    "linear_bias_gelu": linear(4096, 20, bf),
    "host_to_device": copy(False, False), "device_to_host": copy(True, False),
    "host_to_device_pinned": copy(False, True), "device_to_host_pinned": copy(True, True), "fed_step": (20, fed_step),
    "products_read": products(True), "products_kept": products(False),
    "mlp_step": step(256, (784,), lambda: nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))),
    "lenet_step": step(128, (1, 28, 28), lenet),
}
for name, shape in CONVS.items():
    for of in "", "_input_grad", "_weight_grad":
        CASES[name + of] = conv(of, *shape)
for size, shape in {"long": (4, 16, 2048, 64), "wide": (4, 16, 2048, 128), "short": (8, 8, 256, 64)}.items():
    for dtype in "f32", "bf16":
        for causal in "", "_causal":
            for grad in "", "_grad":
                CASES[f"attention_{size}{causal}_{dtype}{grad}"] = attention(torch.float32 if dtype == "f32" else bf, causal != "", grad != "", *shape)


def time_torch(times, make, grad, rounds=7):
    f = make()
    t = []
    with torch.set_grad_enabled(grad):
        for i in range(rounds + 2):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(times):
                f()
            torch.cuda.synchronize()
            if i >= 2:
                t.append((time.perf_counter() - start) / times)
    del f
    torch.cuda.empty_cache()
    return statistics.median(t)


def time_locus(binary, names, env={}):
    out = subprocess.run([binary, "-cases", ",".join(names)], check=True, capture_output=True, text=True, env={**os.environ, **env})
    return json.loads(out.stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--binary", required=True)
    p.add_argument("--cases", default=",".join(CASES))
    a = p.parse_args()
    names = a.cases.split(",")
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print(f"{time.strftime('%Y-%m-%d')}, {smi}, PyTorch {torch.__version__}\n")

    def start(cmd):
        t = time.perf_counter()
        subprocess.run(cmd, check=True, capture_output=True)
        return time.perf_counter() - t
    ours = min(start([a.binary, "-cases", "start"]) for _ in range(3))
    theirs = min(start([sys.executable, "-c", "import torch; print(torch.ones(2, 3, device='cuda'))"]) for _ in range(2))
    print("| case | Locus | PyTorch | PyTorch's time / Locus' time |\n|---|---|---|---|")
    print(f"| process start to first GPU tensor | {ours:.2f} s | {theirs:.2f} s | {theirs/ours:.1f} |", flush=True)
    first = time_locus(a.binary, names)
    torch_times = {n: time_torch(*CASES[n], n.endswith(("_step", "_grad"))) for n in names}
    second = time_locus(a.binary, names)
    for n in names:
        x = min(first[n], second[n])
        y = min(torch_times[n], time_torch(*CASES[n], n.endswith(("_step", "_grad"))))
        print(f"| {n} | {x*1e6:.1f} µs | {y*1e6:.1f} µs | {y/x:.2f} |", flush=True)
    own = [n for n in names if n in ("matmul_4096_f32", "matmul_4096_tf32", "matmul_4096_bf16")]
    if own:
        print("\n| own kernels without cuBLAS | Locus | cuBLAS from Locus | ratio |\n|---|---|---|---|")
        off = time_locus(a.binary, own, {"LOCUS_CUBLAS": "off", "LOCUS_CUBLASLT": "off"})
        for n in own:
            print(f"| {n} | {off[n]*1e6:.1f} µs | {min(first[n], second[n])*1e6:.1f} µs | {min(first[n], second[n])/off[n]:.2f} |")


if __name__ == "__main__":
    main()
