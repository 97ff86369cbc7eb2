"""Three small networks, trained for 20 steps by plain gradient descent: their
weights, data and losses. And the memory that PyTorch takes for a step of an MLP.

The networks are written a second time in internal/optest/training_test.go.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from recorder import Blob, write

STEPS = 20


def normal(rng, *shape, scale=1.0):
    return torch.from_numpy((rng.standard_normal(shape) * scale).astype(np.float32))


def linear(rng, out, features):
    return [normal(rng, out, features, scale=1 / math.sqrt(features)), normal(rng, out, scale=0.1)]


def mlp(rng):
    x, y = normal(rng, 48, 12), torch.from_numpy(rng.integers(0, 5, 48))
    params = linear(rng, 24, 12) + linear(rng, 16, 24) + linear(rng, 5, 16)

    def loss(p):
        h = torch.tanh(F.linear(x, p[0], p[1]))
        h = torch.relu(F.linear(h, p[2], p[3]))
        return F.cross_entropy(F.linear(h, p[4], p[5]), y)

    return [x, y], params, loss, 0.2


def cnn(rng):
    x, y = normal(rng, 12, 2, 10, 10), torch.from_numpy(rng.integers(0, 4, 12))
    params = [normal(rng, 6, 2, 3, 3, scale=0.25), normal(rng, 6, scale=0.1), normal(rng, 6), normal(rng, 6, scale=0.1),
              normal(rng, 8, 3, 3, 3, scale=0.2), normal(rng, 8, scale=0.1)] + linear(rng, 4, 32)

    def loss(p):
        h = F.conv2d(x, p[0], p[1], padding=1)
        h = torch.relu(F.batch_norm(h, None, None, p[2], p[3], True, 0.1, 1e-5))
        h = F.max_pool2d(h, 2)
        h = torch.relu(F.conv2d(h, p[4], p[5], stride=2, padding=1, groups=2))
        h = F.avg_pool2d(h, 2, stride=1)
        return F.cross_entropy(F.linear(h.flatten(1), p[6], p[7]), y)

    return [x, y], params, loss, 0.1


def transformer(rng):
    batch, length, width, heads, vocab = 4, 9, 16, 2, 11
    tokens = torch.from_numpy(rng.integers(0, vocab, (batch, length + 1)))
    params = [normal(rng, vocab, width, scale=0.5), normal(rng, length, width, scale=0.1)]
    params += [torch.ones(width), torch.zeros(width)] + linear(rng, 3 * width, width) + linear(rng, width, width)
    params += [torch.ones(width), torch.zeros(width)] + linear(rng, 4 * width, width) + linear(rng, width, 4 * width)
    params += [torch.ones(width), torch.zeros(width)] + linear(rng, vocab, width)

    def loss(p):
        x = F.embedding(tokens[:, :-1], p[0]) + p[1]
        h = F.layer_norm(x, [width], p[2], p[3], 1e-5)
        q, k, v = F.linear(h, p[4], p[5]).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(a.transpose(1, 2).reshape(batch, length, width), p[6], p[7])
        h = F.layer_norm(x, [width], p[8], p[9], 1e-5)
        x = x + F.linear(F.gelu(F.linear(h, p[10], p[11])), p[12], p[13])
        h = F.layer_norm(x, [width], p[14], p[15], 1e-5)
        logits = F.linear(h, p[16], p[17])
        return F.cross_entropy(logits.reshape(-1, vocab), tokens[:, 1:].reshape(-1))

    return [tokens], params, loss, 0.1


def train(make, seed):
    data, params, loss, rate = make(np.random.default_rng(seed))
    start = [p.clone() for p in params]
    params = [p.requires_grad_() for p in params]
    losses = []
    for _ in range(STEPS):
        y = loss(params)
        grads = torch.autograd.grad(y, params)
        losses.append(y.item())
        with torch.no_grad():
            for p, g in zip(params, grads):
                p -= rate * g
    return data, start, losses, rate


def peak_memory(batch=256, sizes=(784, 256, 10), steps=3):
    """The most bytes that PyTorch holds at once on the CPU in steps of an MLP:
    the running sum of all allocations and frees that the profiler sees, from
    before the weights and the data are made."""
    def run():
        x, y = torch.randn(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))
        net = torch.nn.Sequential(torch.nn.Linear(sizes[0], sizes[1]), torch.nn.ReLU(), torch.nn.Linear(sizes[1], sizes[2]))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(steps):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()

    run()  # what is made once for the process does not count
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        run()
    now = peak = 0
    events = [e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
    for e in sorted(events, key=lambda e: e.start_ns()):
        now += e.nbytes()
        peak = max(peak, now)
    return {"batch": batch, "sizes": list(sizes), "peak": peak, "rest": now}


def record(path):
    blob = Blob()
    header = {"torch": torch.__version__, "runs": {}, "memory": peak_memory()}
    for name, make, seed in ("mlp", mlp, 1), ("cnn", cnn, 2), ("transformer", transformer, 3):
        data, params, losses, rate = train(make, seed)
        header["runs"][name] = {"data": [blob.put(t) for t in data], "params": [blob.put(t) for t in params], "losses": losses, "rate": rate}
        print(name, losses[0], losses[-1])
    print(header["memory"])
    write(path, header, blob)
