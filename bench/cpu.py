"""Locus, PyTorch and OpenBLAS on this machine's CPU, side by side in one run.

    python bench/cpu.py [--threads 1,2] [--cases matmul_1024,...] [--turns 9]

Each case runs in all of them by turns of a few hundredths of a second, because
a machine's speed changes within seconds. The times are the medians of the
turns' medians; the ratio is the median over the turns of the times of two
neighbors, for the faster of the others. Above 1 means that Locus is faster.
OpenBLAS, for products only, is the one that NumPy brings along. A case named
_compiled is compiled in Locus and eager in PyTorch.
"""
import argparse, ctypes, glob, os, platform, statistics, subprocess, sys, tempfile, time

# OpenBLAS takes old code for processors that it does not know, so it is told.
FLAGS = next((set(l.split(":")[1].split()) for l in open("/proc/cpuinfo") if l.startswith("flags")), set())
if "avx2" in FLAGS:
    os.environ.setdefault("OPENBLAS_CORETYPE", "SKYLAKEX" if "avx512f" in FLAGS else "HASWELL")

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

N = 16 << 20


def unary(f):
    def make():
        x = torch.rand(N)
        return lambda: f(x)
    return make


def matmul(n, times):
    def make():
        a, b = torch.randn(n, n), torch.randn(n, n)
        return lambda: [a @ b for _ in range(times)]
    return make


def product(dtype, layout, m, n, k, times=1, batch=None):
    """A product of m×k and k×n; a t in layout means that the operand lies transposed."""
    def operand(t, rows, cols):
        lead = [batch] if batch else []
        x = torch.randn(*lead, *((cols, rows) if t == "t" else (rows, cols))).to(dtype)
        return x.mT if t == "t" else x

    def make():
        a, b = operand(layout[0], m, k), operand(layout[1], k, n)
        return lambda: [a @ b for _ in range(times)]
    return make


def conv(batch, cin, size, cout, kernel, pad, stride, dtype=torch.float32):
    def make():
        x, w = torch.randn(batch, cin, size, size).to(dtype), torch.randn(cout, cin, kernel, kernel).to(dtype)
        return lambda: F.conv2d(x, w, padding=pad, stride=stride)
    return make


def conv_grad(batch, cin, size, cout, kernel, pad, stride, which, dtype=torch.float32):
    def make():
        x = torch.randn(batch, cin, size, size).to(dtype)
        w = torch.randn(cout, cin, kernel, kernel).to(dtype)
        g = torch.randn_like(F.conv2d(x, w, padding=pad, stride=stride))
        mask = [which == "x", which == "w", False]
        return lambda: torch.ops.aten.convolution_backward(g, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask)
    return make


def depthwise(batch, channels, size, kernel, pad, stride):
    def make():
        x, w = torch.randn(batch, channels, size, size), torch.randn(channels, 1, kernel, kernel)
        return lambda: F.conv2d(x, w, padding=pad, stride=stride, groups=channels)
    return make


def conv_bias(batch, cin, size, cout, kernel, pad, stride):
    def make():
        x, w, b = torch.randn(batch, cin, size, size), torch.randn(cout, cin, kernel, kernel), torch.randn(cout)
        return lambda: F.conv2d(x, w, b, padding=pad, stride=stride)
    return make


def pool(f, grad, shape=(128, 6, 28, 28), window=2, stride=2, pad=0):
    def make():
        x = torch.randn(*shape, requires_grad=grad)
        if not grad:
            return lambda: f(x, window, stride, pad)
        y = f(x, window, stride, pad)
        g = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, x, g, retain_graph=True)
    return make


RESNET_POOL = dict(shape=(16, 64, 112, 112), window=3, stride=2, pad=1)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def expression():
    z, y = torch.rand(N), torch.rand(N)
    return lambda: (z + 2).exp() * y


def step(batch, shape, build):
    def make():
        net = build()
        opt = torch.optim.SGD(net.parameters(), lr=0.01)
        x, y = torch.rand(batch, *shape), torch.randint(0, 10, (batch,))

        def run():
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        return run
    return make


def add_small():
    x, y = torch.rand(2, 3), torch.rand(2, 3)

    def run():
        for _ in range(1000):
            x + y
    return run


def add_large():
    x, y = torch.rand(N), torch.rand(N)
    return lambda: x + y


def matmul_norm():
    a, b = torch.randn(100, 100), torch.randn(100, 100)

    def run():
        for _ in range(1000):
            torch.linalg.norm(a @ b).item()
    return run


def matvec():
    a, x = torch.rand(4096, 4096), torch.rand(4096)
    return lambda: a @ x


def cast_u8():
    x = torch.randint(0, 256, (N,), dtype=torch.uint8)
    return lambda: x.float()


def embedding(grad):
    def make():
        w, ids = torch.randn(32000, 256, requires_grad=grad), torch.randint(0, 32000, (64, 128))

        def run():
            y = F.embedding(ids, w)
            if grad:
                torch.autograd.grad(y.sum(), w)
        return run
    return make


def index_add():
    x, ids, y = torch.randn(32000, 256), torch.randint(0, 32000, (8192,)), torch.randn(8192, 256)
    return lambda: x.index_add(0, ids, y)


def attention(dtype, batch=8, heads=8, length=256, grad=False):
    def make():
        q, k, v = (torch.randn(batch, heads, length, 64).to(dtype).requires_grad_(grad) for _ in range(3))
        y = F.scaled_dot_product_attention(q, k, v)
        if not grad:
            return lambda: F.scaled_dot_product_attention(q, k, v)
        g = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)
    return make


def attention_grad():
    q, k, v = (torch.randn(8, 8, 256, 64, requires_grad=True) for _ in range(3))
    y = F.scaled_dot_product_attention(q, k, v)
    g = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)


def attention_causal():
    q, k, v = (torch.randn(1, 8, 1024, 64) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


sq = lambda x: x.view(4096, 4096)
CASES = {
    "add_2x3": add_small, "add_16m": add_large, "mul_add_16m": unary(lambda x: x * 2 + 1), "exp_16m": unary(torch.exp),
    "tanh_16m": unary(torch.tanh), "sigmoid_16m": unary(torch.sigmoid), "gelu_16m": unary(F.gelu), "log_16m": unary(torch.log),
    "relu_16m": unary(torch.relu), "sum_16m": unary(torch.sum), "max_16m": unary(torch.max),
    "row_sum_16m": unary(lambda x: sq(x).sum(1)), "col_sum_16m": unary(lambda x: sq(x).sum(0)),
    "softmax_16m": unary(lambda x: F.softmax(sq(x), 1)), "layernorm_16m": unary(lambda x: F.layer_norm(sq(x), (4096,))),
    "transpose_16m": unary(lambda x: sq(x).t().contiguous()),
    "matmul_100": matmul(100, 100), "matmul_1024": matmul(1024, 1), "matmul_2048": matmul(2048, 1), "matmul_norm_100": matmul_norm, "matvec_4096": matvec,
    "rand_16m": lambda: lambda: torch.rand(N), "randn_16m": lambda: lambda: torch.randn(N), "cast_u8": cast_u8,
    "embedding": embedding(False), "embedding_grad": embedding(True), "index_add": index_add, "attention": attention(torch.float32), "attention_bf16": attention(torch.bfloat16),
    "attention_grad": attention_grad, "attention_causal": attention_causal,
    "matmul_100_nt": product(torch.float32, "nt", 100, 100, 100, 100), "matmul_100_tn": product(torch.float32, "tn", 100, 100, 100, 100),
    "matmul_100_tt": product(torch.float32, "tt", 100, 100, 100, 100), "matmul_1024_nt": product(torch.float32, "nt", 1024, 1024, 1024),
    "matmul_1024_tn": product(torch.float32, "tn", 1024, 1024, 1024), "matmul_1024_tt": product(torch.float32, "tt", 1024, 1024, 1024),
    "matmul_f64_100": product(torch.float64, "nn", 100, 100, 100, 100), "matmul_f64_1024": product(torch.float64, "nn", 1024, 1024, 1024),
    "matmul_bf16_1024": product(torch.bfloat16, "nn", 1024, 1024, 1024), "matmul_f16_1024": product(torch.float16, "nn", 1024, 1024, 1024),
    "matmul_bf16_100": product(torch.bfloat16, "nn", 100, 100, 100, 10),
    "matmul_8_rows": product(torch.float32, "nn", 8, 1024, 1024, 10), "matmul_8_rows_nt": product(torch.float32, "nt", 8, 1024, 1024, 10),
    "matmul_8_columns": product(torch.float32, "nn", 1024, 8, 1024, 10), "matmul_8_columns_tn": product(torch.float32, "tn", 1024, 8, 1024, 10),
    "matmul_8_deep": product(torch.float32, "nn", 1024, 1024, 8, 10), "matmul_3_rows": product(torch.float32, "nn", 3, 1024, 1024, 10),
    "matmul_3_columns": product(torch.float32, "nn", 1024, 3, 1024, 10),
    "matvec_1024": product(torch.float32, "nn", 1024, 1, 1024, 10), "matvec_1024_t": product(torch.float32, "tn", 1024, 1, 1024, 10),
    "matmul_batch_64": product(torch.float32, "nn", 64, 64, 64, batch=64), "matmul_batch_64_nt": product(torch.float32, "nt", 64, 64, 64, batch=64),
    "matmul_batch_f64_64": product(torch.float64, "nn", 64, 64, 64, batch=64),
    "conv_lenet1": conv(128, 1, 28, 6, 5, 2, 1), "conv_lenet2": conv(128, 6, 14, 16, 5, 0, 1),
    "conv_resnet_a": conv(16, 64, 24, 64, 3, 1, 1), "conv_resnet_a_bf16": conv(16, 64, 24, 64, 3, 1, 1, torch.bfloat16), "conv_resnet_b": conv(16, 128, 12, 128, 3, 1, 1),
    "conv_resnet_c": conv(16, 3, 96, 64, 7, 3, 2), "conv_1x1": conv(16, 64, 24, 128, 1, 0, 1),
    "conv_1x1_stride2": conv(16, 64, 24, 128, 1, 0, 2), "conv_depthwise": depthwise(16, 64, 24, 3, 1, 1),
    "conv_depthwise_stride2": depthwise(16, 64, 24, 3, 1, 2), "conv_lenet1_bias": conv_bias(128, 1, 28, 6, 5, 2, 1),
    "conv_lenet1_weight_grad": conv_grad(128, 1, 28, 6, 5, 2, 1, "w"),
    "conv_lenet2_input_grad": conv_grad(128, 6, 14, 16, 5, 0, 1, "x"), "conv_lenet2_weight_grad": conv_grad(128, 6, 14, 16, 5, 0, 1, "w"),
    "conv_resnet_a_input_grad": conv_grad(16, 64, 24, 64, 3, 1, 1, "x"), "conv_resnet_a_weight_grad": conv_grad(16, 64, 24, 64, 3, 1, 1, "w"),
    "conv_resnet_b_input_grad": conv_grad(16, 128, 12, 128, 3, 1, 1, "x"), "conv_resnet_b_weight_grad": conv_grad(16, 128, 12, 128, 3, 1, 1, "w"),
    "conv_resnet_c_weight_grad": conv_grad(16, 3, 96, 64, 7, 3, 2, "w"),
    "attention_bf16_grad": attention(torch.bfloat16, grad=True), "attention_bf16_2048": attention(torch.bfloat16, 1, 8, 2048),
    "conv_resnet_b_bf16": conv(16, 128, 12, 128, 3, 1, 1, torch.bfloat16), "conv_resnet_c_bf16": conv(16, 3, 96, 64, 7, 3, 2, torch.bfloat16),
    "conv_1x1_bf16": conv(16, 64, 28, 128, 1, 0, 1, torch.bfloat16), "conv_stride2_bf16": conv(16, 64, 28, 128, 3, 1, 2, torch.bfloat16),
    **{f"conv_{name}_bf16_{what}_grad": conv_grad(*shape, what[0].replace("i", "x"), torch.bfloat16)
       for name, shape in {"resnet_a": (16, 64, 24, 64, 3, 1, 1), "resnet_b": (16, 128, 12, 128, 3, 1, 1), "stride2": (16, 64, 28, 128, 3, 1, 2)}.items()
       for what in ("input", "weight")},
    "avg_pool": pool(F.avg_pool2d, False), "avg_pool_grad": pool(F.avg_pool2d, True),
    "max_pool": pool(F.max_pool2d, False), "max_pool_grad": pool(F.max_pool2d, True),
    "avg_pool_3": pool(F.avg_pool2d, False, **RESNET_POOL), "avg_pool_3_grad": pool(F.avg_pool2d, True, **RESNET_POOL),
    "max_pool_3": pool(F.max_pool2d, False, **RESNET_POOL), "max_pool_3_grad": pool(F.max_pool2d, True, **RESNET_POOL),
    "mlp_step": step(256, (784,), mlp), "mlp_step_compiled": step(256, (784,), mlp),
    "lenet_step": step(128, (1, 28, 28), lenet), "lenet_step_compiled": step(128, (1, 28, 28), lenet),
    "expression_16m": expression, "expression_compiled": expression,
}


def turn(f, seconds):
    """The median time of f, repeated for so long."""
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return statistics.median(times)


class Torch:
    """A case in this process."""

    def __init__(self, name, threads):
        self.threads, self.grad = threads, name.endswith(("_step", "_step_compiled", "_grad"))
        torch.set_num_threads(threads)
        with torch.enable_grad():
            self.run = CASES[name]()

    def turn(self, seconds):
        torch.set_num_threads(self.threads)
        with torch.set_grad_enabled(self.grad):
            return turn(self.run, seconds)


class Locus:
    """A case in a process of its own, which waits for its turns."""

    def __init__(self, binary, name, threads):
        self.process = subprocess.Popen([binary, "-case", name, "-threads", str(threads), "-turns"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the Locus binary ended in the middle of a case")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class OpenBLAS:
    """The library behind NumPy's products, for its number of threads and its name."""

    def __init__(self):
        folder = os.path.join(os.path.dirname(np.__file__), "..", "numpy.libs")
        found = glob.glob(os.path.join(folder, "*openblas*")) or glob.glob("/usr/lib/*/libopenblas.so.0")
        self.library = ctypes.CDLL(found[0]) if found else None

    def function(self, name):
        for n in (f"scipy_{name}64_", f"scipy_{name}", f"{name}64_", name):
            if hasattr(self.library, n):
                return getattr(self.library, n)
        raise SystemExit(f"NumPy's OpenBLAS has no function {name}")

    def name(self):
        if not self.library:
            return "no OpenBLAS (NumPy from its wheel brings it: pip install numpy)"
        config, core = self.function("openblas_get_config"), self.function("openblas_get_corename")
        config.restype = core.restype = ctypes.c_char_p
        return f"{' '.join(config().decode().split()[:2])} ({core().decode()} kernels)"

    def case(self, name, threads):
        """The function to time; None for a case that is not a product, and where there is no OpenBLAS."""
        if not self.library or name not in ("matmul_100", "matmul_1024", "matmul_2048"):
            return None
        n = int(name.split("_")[1])
        a, b, c = np.random.rand(n, n).astype("f"), np.random.rand(n, n).astype("f"), np.empty((n, n), "f")
        times = 1 if n > 100 else 100

        def run():
            for _ in range(times):
                np.matmul(a, b, out=c)
        self.function("openblas_set_num_threads")(threads)
        return run


def machine():
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    return f"{time.strftime('%Y-%m-%d')}, {model}, {os.cpu_count()} cores"


def go_build(package, folder="", **env):
    """Builds a Go program of this repository and gives its path."""
    binary = os.path.join(tempfile.mkdtemp(), os.path.basename(package))
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder)
    subprocess.run(["go", "build", "-o", binary, package], check=True, cwd=root, env={**os.environ, **env})
    return binary


# How long threads that have just computed may go on spinning, in case there is more to do.
SPIN = {"Locus": 0.01, "PyTorch": 0.03, "OpenBLAS": 0.15}


def compare(binary, openblas, name, threads, turns, seconds):
    """The median times of Locus and its peers, and that of the ratio to the faster peer."""
    locus = Locus(binary, name, threads)
    runs = {"Locus": locus.turn, "PyTorch": Torch(name, threads).turn}
    product = openblas.case(name, threads)
    if product:
        runs["OpenBLAS"] = lambda seconds: turn(product, seconds)
    times = {who: [] for who in runs}
    for i in range(turns + 1):
        for who, run in runs.items():
            t = run(seconds)
            time.sleep(SPIN[who])
            if i > 0:  # the first turn warms up
                times[who].append(t)
    locus.close()
    ratios = [statistics.median(y / x for x, y in zip(times["Locus"], theirs)) for who, theirs in times.items() if who != "Locus"]
    return {who: statistics.median(t) for who, t in times.items()}, min(ratios)


def rows(a, binary, threads):
    openblas = OpenBLAS()
    for name in a.cases.split(","):
        times, ratio = compare(binary, openblas, name, threads, a.turns, a.seconds)
        cells = [f"{times[who]*1e3:.3f} ms" if who in times else "–" for who in ("Locus", "PyTorch", "OpenBLAS")]
        print(f"| {name} | {threads} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", default="1,2")
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--turns", type=int, default=9)
    p.add_argument("--seconds", type=float, default=0.04, help="of a turn")
    p.add_argument("--binary", help="a binary built from bench/cpu; built here if not given")
    a = p.parse_args()
    binary = a.binary or go_build("./bench/cpu")
    print(f"{machine()}, PyTorch {torch.__version__}, {OpenBLAS().name()}, load {os.getloadavg()[0]:.1f}\n")
    print("| case | threads | Locus | PyTorch | OpenBLAS | faster peer's time / Locus' time |")
    print("|---|---|---|---|---|---|", flush=True)
    for threads in map(int, a.threads.split(",")):
        # PyTorch keeps the threads it once had, which then disturb each other: one process for each number.
        if not (child := os.fork()):
            rows(a, binary, threads)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
