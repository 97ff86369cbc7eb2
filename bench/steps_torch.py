"""Whole training steps in PyTorch on one GPU: the peer of bench/steps, for bench/steps.py. Rows
are name<TAB>value<TAB>unit; losses go to stderr. Every workload runs in a process of its own: one
that fails or hangs prints name<TAB>failed<TAB>why, and the next one runs.

    python3 bench/steps_torch.py                 all workloads
    python3 bench/steps_torch.py -list           their names
    python3 bench/steps_torch.py REGEXP          those whose names it matches
    python3 bench/steps_torch.py -small [REGEXP] tiny sizes; also where there is no GPU

BUDGET=200 (seconds): workloads that have not begun by then say so and are left out.
ROW=60, COMPILE=150: the most seconds of a workload, and of one that compiles.

torch.autocast keeps embeddings, residual sums, layer norms and the loss in float32.
max_memory_allocated counts cuBLAS's and cuDNN's workspaces.
"""
import ctypes, math, os, re, signal, sys, time
T0 = time.time()
import torch, torch.nn as nn, torch.nn.functional as F

args = sys.argv[1:]
SMALL = '-small' in args
dev = 'cpu' if SMALL and not os.path.exists('/dev/nvidia0') else 'cuda'  # asking CUDA here would keep children from using it
BUDGET, ROW, COMPILE = (float(os.environ.get(k, d)) for k, d in (('BUDGET', '1e9'), ('ROW', '60'), ('COMPILE', '150')))
pick = lambda n, tiny: tiny if SMALL else n

sdpa = F.scaled_dot_product_attention


class Attention(nn.Module):
    def __init__(s, d, heads, causal):
        super().__init__(); s.heads, s.causal = heads, causal
        s.in_proj = nn.Linear(d, 3 * d); s.out_proj = nn.Linear(d, d)
    def forward(s, x):
        n, l, d = x.shape
        q, k, v = (t.view(n, l, s.heads, d // s.heads).transpose(1, 2) for t in s.in_proj(x).split(d, 2))
        return s.out_proj(sdpa(q, k, v, is_causal=s.causal).transpose(1, 2).reshape(n, l, d))


class Block(nn.Module):
    def __init__(s, d, heads, causal, approximate):
        super().__init__(); s.approximate = approximate
        s.self_attn = Attention(d, heads, causal); s.linear1 = nn.Linear(d, 4 * d); s.linear2 = nn.Linear(4 * d, d)
        s.norm1 = nn.LayerNorm(d); s.norm2 = nn.LayerNorm(d)
    def forward(s, x):
        x = x + s.self_attn(s.norm1(x))
        return x + s.linear2(F.gelu(s.linear1(s.norm2(x)), approximate=s.approximate))


class Body(nn.Module):
    def __init__(s, layers, d, heads, causal, approximate):
        super().__init__(); s.layers = nn.ModuleList(Block(d, heads, causal, approximate) for _ in range(layers)); s.norm = nn.LayerNorm(d)
    def forward(s, x):
        for l in s.layers: x = l(x)
        return s.norm(x)


class GPT2(nn.Module):
    def __init__(s, vocab, context, d, heads, layers):
        super().__init__()
        s.embed = nn.Embedding(vocab, d); s.positions = nn.Embedding(context, d); s.body = Body(layers, d, heads, True, 'tanh')
        for m in s.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)): nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear): nn.init.zeros_(m.bias)
    def forward(s, x):
        h = s.embed(x) + s.positions.weight[:x.shape[1]]
        return F.linear(s.body(h), s.embed.weight)  # tied


class ViT(nn.Module):
    def __init__(s, size, patch, d, heads, layers, classes):
        super().__init__()
        s.patch = nn.Conv2d(3, d, patch, patch); s.cls = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        s.positions = nn.Parameter(torch.randn((size // patch) ** 2 + 1, d) * 0.02)
        s.body = Body(layers, d, heads, False, 'none'); s.head = nn.Linear(d, classes)
    def forward(s, x):
        p = s.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([s.cls.expand(p.shape[0], -1, -1), p.to(s.cls.dtype)], 1) + s.positions
        return s.head(s.body(h)[:, 0])


class GRULM(nn.Module):
    def __init__(s, words, embed, hidden):
        super().__init__(); s.embed = nn.Embedding(words, embed); s.rnn = nn.GRU(embed, hidden, 2, batch_first=True); s.out = nn.Linear(hidden, words)
    def forward(s, x): return s.out(s.rnn(s.embed(x))[0])


class Residual(nn.Module):
    def __init__(s, body): super().__init__(); s.body = body
    def forward(s, x): return x + s.body(x)


def conv_norm(i, o, k, stride=1, groups=1): return [nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]


def mobilenetv2(classes):
    relu6 = lambda: nn.ReLU6(inplace=True)  # as torchvision's
    net, i = conv_norm(3, 32, 3, 2) + [relu6()], 32
    for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(n):
            stride, h = s if k == 0 else 1, i * t
            body = conv_norm(i, h, 1) + [relu6()] if t != 1 else []
            body = nn.Sequential(*body, *conv_norm(h, h, 3, stride, h), relu6(), *conv_norm(h, c, 1))
            net.append(Residual(body) if stride == 1 and i == c else body); i = c
    return nn.Sequential(*net, *conv_norm(i, 1280, 1), relu6(), Pool(), nn.Linear(1280, classes))


class Pool(nn.Module):
    def forward(s, x): return x.mean((2, 3))


def twice(i, o): return nn.Sequential(*conv_norm(i, o, 3), nn.ReLU(inplace=True), *conv_norm(o, o, 3), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(s, i, base, levels):
        super().__init__(); c = [base * 2 ** k for k in range(levels + 1)]
        s.down = nn.ModuleList(twice(a, b) for a, b in zip([i] + c, c[:-1])); s.bottom = twice(c[-2], c[-1])
        s.up = nn.ModuleList(nn.ConvTranspose2d(2 * o, o, 2, 2) for o in c[-2::-1]); s.merge = nn.ModuleList(twice(2 * o, o) for o in c[-2::-1])
        s.out = nn.Conv2d(base, 1, 1)
    def forward(s, x):
        skips = []
        for d in s.down: x = d(x); skips.append(x); x = F.max_pool2d(x, 2)
        x = s.bottom(x)
        for up, merge in zip(s.up, s.merge): x = merge(torch.cat([skips.pop(), up(x)], 1))
        return s.out(x)


class Basic(nn.Module):
    def __init__(s, i, o, st):
        super().__init__()
        s.body = nn.Sequential(*conv_norm(i, o, 3, st), nn.ReLU(inplace=True), *conv_norm(o, o, 3))
        s.shortcut = nn.Sequential(*conv_norm(i, o, 1, st)) if i != o or st != 1 else nn.Identity()
    def forward(s, x): return F.relu(s.body(x) + s.shortcut(x))


def resnet18():
    l, i = conv_norm(3, 64, 7, 2) + [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for o in (64, 128, 256, 512): l += [Basic(i, o, 1 if o == i else 2), Basic(o, o, 1)]; i = o
    return nn.Sequential(*l, Pool(), nn.Linear(512, 10))


def mlp(): return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2, 2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2, 2),
                         nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))


def transformer(layers, d):
    return nn.Sequential(*[nn.TransformerEncoderLayer(d, 8, 4 * d, 0.0, batch_first=True, norm_first=True, activation='gelu') for _ in range(layers)], nn.Linear(d, 1000))


def classes(o, y): return F.cross_entropy(o.reshape(-1, o.shape[-1]), y)


def adamw(lr=3e-4): return lambda p, graph: torch.optim.AdamW(p, lr=lr, **fused(graph))
def adam(p, graph): return torch.optim.Adam(p, lr=1e-3, **fused(graph))
def sgd(lr): return lambda p, graph: torch.optim.SGD(p, lr=lr)
def fused(graph): return dict(fused=True, capturable=graph) if dev == 'cuda' else {}


class Job:
    """A network with its batch, loss and optimizer, and how often to call a step."""
    def __init__(s, net, x, y, loss, opt, it, warm, items, unit): s.net, s.x, s.y, s.loss, s.opt, s.it, s.warm, s.items, s.unit = net, x, y, loss, opt, it, warm, items, unit


def randn(*sh): return lambda: torch.randn(sh, device=dev)
def randint(below, *sh): return lambda: torch.randint(0, below, sh, device=dev)


n, l, vocab, kinds, images, size = pick(8, 2), pick(1024, 32), pick(50304, 128), pick(1000, 10), pick(64, 4), pick(224, 32)
rn, rl, words, mn, ms, un, us = pick(128, 4), pick(64, 8), pick(10000, 50), pick(128, 8), pick(96, 64), pick(16, 2), pick(128, 32)
tn, tl, td, bn, bs = pick(8, 2), pick(256, 16), pick(512, 64), pick(128, 4), pick(96, 32)
JOBS = {
    'mlp': Job(mlp, randn(256, 784), randint(10, 256), classes, sgd(0.1), 100, 10, 256, 'images/s'),
    'lenet': Job(lenet, randn(128, 1, 28, 28), randint(10, 128), classes, sgd(0.1), 50, 10, 128, 'images/s'),
    'resnet18': Job(resnet18, randn(bn, 3, bs, bs), randint(10, bn), classes, sgd(0.1), 20, 10, bn, 'images/s'),
    'transformer6': Job(lambda: transformer(pick(6, 2), td), randn(tn, tl, td), randint(1000, tn * tl), classes, adamw(1e-4), 10, 5, tn * tl, 'tokens/s'),
    'gpt2': Job(lambda: GPT2(vocab, l, pick(768, 64), pick(12, 4), pick(12, 2)), randint(vocab, n, l), randint(vocab, n * l), classes, adamw(), 10, 5, n * l, 'tokens/s'),
    'vit-s': Job(lambda: ViT(size, pick(16, 8), pick(384, 48), pick(6, 3), pick(12, 2), kinds), randn(images, 3, size, size), randint(kinds, images), classes, adamw(), 20, 5, images, 'images/s'),
    'gru': Job(lambda: GRULM(words, pick(256, 16), pick(512, 32)), randint(words, rn, rl), randint(words, rn * rl), classes, sgd(1), 20, 5, rn * rl, 'tokens/s'),
    'mobilenetv2': Job(lambda: mobilenetv2(kinds), randn(mn, 3, ms, ms), randint(kinds, mn), classes, sgd(pick(0.05, 0.001)), 20, 10, mn, 'images/s'),
    'unet': Job(lambda: UNet(3, pick(64, 8), 3), randn(un, 3, us, us), lambda: (torch.rand(un, 1, us, us, device=dev) > 0.5).float(), F.binary_cross_entropy_with_logits, adam, 10, 5, un, 'images/s'),
}


def stepper(j, net, x, y, half=False, graph=False, mode=False):
    """A step, which gives its loss."""
    opt = j.opt(net.parameters(), graph)
    run = net if mode is False else torch.compile(net, mode=mode)
    def f():
        opt.zero_grad(set_to_none=True)
        with torch.autocast(dev, torch.bfloat16, enabled=half): loss = j.loss(run(x), y)
        loss.backward(); opt.step(); return loss
    if not graph: return f
    st = torch.cuda.Stream(); st.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(st):
        for _ in range(3): f()
    torch.cuda.current_stream().wait_stream(st); torch.cuda.synchronize()
    opt.zero_grad(set_to_none=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g): loss = f()
    def replay(keep=(f, opt)): g.replay(); return loss
    return replay


def sync():
    if dev == 'cuda': torch.cuda.synchronize()


def measure(name, base, way, half=False, bench=False, channels_last=False, graph=False, mode=False):
    j = JOBS[base.split()[0]]
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not base.endswith(' f32')
    torch.backends.cudnn.benchmark = bench
    net = j.net().to(dev).train(); x, y = j.x(), j.y()
    if channels_last: net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    t = time.perf_counter()
    f = stepper(j, net, x, y, half, graph, mode)
    first = f().item(); sync(); t = time.perf_counter() - t
    it, warm, reps = (5, 2, 2) if SMALL else (j.it, j.warm, 5)
    for _ in range(warm - 1): f()
    sync()
    if dev == 'cuda': torch.cuda.reset_peak_memory_stats()
    b = []
    for _ in range(reps):
        s = time.perf_counter()
        for _ in range(it): f()
        sync(); b.append((time.perf_counter() - s) / it)
    b.sort(); s = b[len(b) // 2]
    put = lambda what, v, unit: print(f"{base}{' (small)' if SMALL else ''} {what}{way}\t{v:.6g}\t{unit}", flush=True)
    put('step', s * 1e3, 'ms'); put('throughput', j.items / s, j.unit)
    if dev == 'cuda':  # the allocator does not see what graphs do
        if not graph and not mode: put('peak memory', torch.cuda.max_memory_allocated() / 2**20, 'MiB')
        free, total = torch.cuda.mem_get_info(); put('footprint', (total - free) / 2**20, 'MiB')
    if mode is not False: put('time to compile', t, 's')
    last = f().item()
    print(f'# {name}: loss {first:.5f}, then {last:.5f}; {sum(p.numel() for p in net.parameters())} parameters', file=sys.stderr, flush=True)
    if not last < first or math.isinf(last): print(f'# WARNING: {name} does not learn', file=sys.stderr, flush=True)


# Names, the ways' options. Those that compile come last, the most telling first.
ROWS = []
def row(base, way='', **k): ROWS.append((base + way, base, way, k))
for base in ('mlp f32', 'mlp tf32', 'lenet f32', 'lenet tf32'): row(base); row(base, ' [graph]', graph=True)
for base in ('resnet18 f32', 'resnet18 tf32', 'resnet18 bf16', 'mobilenetv2 tf32', 'unet tf32'):
    half = base.endswith('bf16')
    row(base, half=half); row(base, ' [benchmark]', half=half, bench=True); row(base, ' [channels_last]', half=half, bench=True, channels_last=True)
    row(base, ' [graph]', half=half, bench=True, graph=True); row(base, ' [graph+channels_last]', half=half, bench=True, graph=True, channels_last=True)
for base in ('transformer6 f32', 'transformer6 tf32', 'transformer6 bf16', 'gpt2 tf32', 'gpt2 bf16', 'vit-s tf32', 'vit-s bf16', 'gru tf32'):
    half = base.endswith('bf16')
    row(base, half=half); row(base, ' [graph]', half=half, graph=True)
for base in ('gpt2 bf16', 'resnet18 tf32', 'mobilenetv2 tf32', 'transformer6 bf16', 'unet tf32', 'vit-s bf16', 'lenet f32', 'transformer6 tf32', 'resnet18 bf16', 'gpt2 tf32', 'vit-s tf32', 'mlp f32'):
    row(base, ' [compiled]', half=base.endswith('bf16'), bench=True, mode='reduce-overhead' if base.split()[0] in ('mobilenetv2', 'unet', 'resnet18', 'lenet', 'mlp') else None)


def isolated(name, base, way, k):
    """Runs one workload in a child, ends it if it takes too long, and says what went wrong."""
    failed = lambda why: print(f"{base}{' (small)' if SMALL else ''} step{way}\tfailed\t{why}", flush=True)
    limit = min(COMPILE if k.get('mode', False) is not False else ROW, BUDGET - (time.time() - T0))
    if limit < 5: return failed(f'left out: {BUDGET:.0f} s are over')
    sys.stdout.flush(); sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0); code = 0
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # to end with its parent
        try: measure(name, base, way, **k)
        except BaseException as e: failed(f'{type(e).__name__}: {" ".join(str(e).split())[:300]}'); code = 1
        sys.stdout.flush(); sys.stderr.flush(); os._exit(code)
    end, status = time.time() + limit, None
    while time.time() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done: break
        time.sleep(0.05)
    else:
        failed(f'ended after {limit:.0f} s'); status = 0
    try: os.killpg(pid, signal.SIGKILL)  # it, or workers that it has left behind
    except (ProcessLookupError, PermissionError): pass
    if not done: os.waitpid(pid, 0)
    elif os.WIFSIGNALED(status): failed(f'ended by signal {os.WTERMSIG(status)}')


want = [a for a in args if not a.startswith('-')]
for name, base, way, k in ROWS:
    if want and not re.search(want[0], name): continue
    if '-list' in args: print(name); continue
    isolated(name, base, way, k)
if '-list' not in args: print(f'# torch {torch.__version__}, {time.time() - T0:.0f} s in all', file=sys.stderr)
