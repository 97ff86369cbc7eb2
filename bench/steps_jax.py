"""Whole training steps in JAX (jit, donated state) on one GPU: the peer of bench/steps, for
bench/steps.py. Rows are name<TAB>value<TAB>unit; losses go to stderr. A row that fails prints
name<TAB>failed<TAB>why, and the next one runs.

    python3 bench/steps_jax.py [REGEXP]

BUDGET=200 (seconds): rows that have not begun by then say so and are left out.
"""
import functools, os, re, sys, time
T0 = time.time()
os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] = 'false'
import jax, jax.numpy as jnp
from jax import lax

BUDGET = float(os.environ.get('BUDGET', '1e9'))
key = functools.partial(jax.random.fold_in, jax.random.PRNGKey(0))
tmap = jax.tree_util.tree_map


def ce(o, y): return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(o), y[:, None], 1))


def timeit(f, times, warm=5, rounds=5):
    for _ in range(warm): r = f()
    jax.block_until_ready(r); b = []
    for _ in range(rounds):
        t = time.perf_counter()
        for _ in range(times): r = f()
        jax.block_until_ready(r); b.append((time.perf_counter() - t) / times)
    return sorted(b)[len(b) // 2]


def mlp(p, x): return jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]
def mlp_init(): return [jax.random.normal(key(1), (784, 256)) * .03, jnp.zeros(256), jax.random.normal(key(2), (256, 10)) * .05, jnp.zeros(10)]


def conv(x, w, b, pad): return lax.conv_general_dilated(x, w, (1, 1), pad, dimension_numbers=('NCHW', 'OIHW', 'NCHW')) + b[None, :, None, None]
def pool(x): return lax.reduce_window(x, 0., lax.add, (1, 1, 2, 2), (1, 1, 2, 2), 'VALID') / 4


def lenet(p, x):
    s = jax.nn.sigmoid
    x = pool(s(conv(x, p[0], p[1], [(2, 2), (2, 2)]))); x = pool(s(conv(x, p[2], p[3], 'VALID'))); x = x.reshape(x.shape[0], -1)
    return s(s(x @ p[4] + p[5]) @ p[6] + p[7]) @ p[8] + p[9]


def lenet_init():
    return [jax.random.normal(key(10 + i), s) * .1 for i, s in enumerate([(6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (400, 120), (120,), (120, 84), (84,), (84, 10), (10,)])]


# ResNet-18 in NHWC, which is how JAX programs have it; batch statistics, running ones kept.
STRIDES = [1, 1, 2, 1, 2, 1, 2, 1]


def rconv(x, w, st):
    p = w.shape[0] // 2; return lax.conv_general_dilated(x, w, (st, st), [(p, p), (p, p)], dimension_numbers=('NHWC', 'HWIO', 'NHWC'))


def bn(x, p, s):
    y = x.astype(jnp.float32); m = y.mean((0, 1, 2)); v = jnp.square(y - m).mean((0, 1, 2))
    return ((y - m) * lax.rsqrt(v + 1e-5) * p[0] + p[1]).astype(x.dtype), [.9 * s[0] + .1 * m, .9 * s[1] + .1 * v]


def resnet_init():
    n = [100]
    def w(r, i, o): n[0] += 1; return jax.random.normal(key(n[0]), (r, r, i, o)) * (2 / (r * r * o)) ** .5
    b = lambda o: [jnp.ones(o), jnp.zeros(o)]; z = lambda o: [jnp.zeros(o), jnp.ones(o)]
    p = dict(stem=w(7, 3, 64), sb=b(64), blk=[], fc=jax.random.normal(key(99), (512, 10)) * .04, fb=jnp.zeros(10)); s = dict(sb=z(64), blk=[]); i = 64
    for k, st in enumerate(STRIDES):
        o = 64 * 2 ** (k // 2); q = dict(c1=w(3, i, o), b1=b(o), c2=w(3, o, o), b2=b(o)); t = dict(b1=z(o), b2=z(o))
        if st == 2: q.update(d=w(1, i, o), db=b(o)); t.update(db=z(o))
        p['blk'].append(q); s['blk'].append(t); i = o
    return p, s


def resnet(p, s, x):
    n = dict(blk=[]); x, n['sb'] = bn(rconv(x, p['stem'], 2), p['sb'], s['sb']); x = jax.nn.relu(x)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    for q, t, st in zip(p['blk'], s['blk'], STRIDES):
        u = {}; y, u['b1'] = bn(rconv(x, q['c1'], st), q['b1'], t['b1']); y, u['b2'] = bn(rconv(jax.nn.relu(y), q['c2'], 1), q['b2'], t['b2'])
        if st == 2: x, u['db'] = bn(rconv(x, q['d'], st), q['db'], t['db'])
        x = jax.nn.relu(x + y); n['blk'].append(u)
    return x.mean((1, 2)) @ p['fc'] + p['fb'], n


D, H, FF, V = 512, 8, 2048, 1000


def ln(x, g, b):
    y = x.astype(jnp.float32); m = y.mean(-1, keepdims=True); v = ((y - m)**2).mean(-1, keepdims=True)
    return ((y - m) * lax.rsqrt(v + 1e-5) * g + b).astype(x.dtype)


def block(p, x):
    B, T, _ = x.shape; a = ln(x, p['g1'], p['b1']); q, k, v = jnp.split(a @ p['qkv'] + p['bqkv'], 3, -1)
    r = lambda t: t.reshape(B, T, H, D // H).transpose(0, 2, 1, 3)
    s = jax.nn.softmax(r(q) @ r(k).transpose(0, 1, 3, 2) / (D // H)**.5, -1); o = (s @ r(v)).transpose(0, 2, 1, 3).reshape(B, T, D)
    x = x + o @ p['o'] + p['bo']; a = ln(x, p['g2'], p['b2']); return x + jax.nn.gelu(a @ p['w1'] + p['c1'], approximate=False) @ p['w2'] + p['c2']


def transformer(p, x):
    for b in p['blk']: x = block(b, x)
    return (x @ p['w'] + p['c']).reshape(-1, V)


def transformer_init():
    def mk(i):
        n = lambda j, *s: jax.random.normal(key(100 * i + j), s) * .02
        return dict(g1=jnp.ones(D), b1=jnp.zeros(D), g2=jnp.ones(D), b2=jnp.zeros(D), qkv=n(0, D, 3 * D), bqkv=jnp.zeros(3 * D), o=n(1, D, D), bo=jnp.zeros(D), w1=n(2, D, FF), c1=jnp.zeros(FF), w2=n(3, FF, D), c2=jnp.zeros(D))
    return dict(blk=[mk(i) for i in range(6)], w=jax.random.normal(key(50), (D, V)) * .02, c=jnp.zeros(V))


def half(tree, on): return tmap(lambda a: a.astype(jnp.bfloat16), tree) if on else tree


def sgd(net, init, lr=.1):
    def step(p, x, y, bf):
        l, g = jax.value_and_grad(lambda q: ce(net(half(q, bf), half(x, bf)).astype(jnp.float32), y))(p); return tmap(lambda a, b: a - lr * b, p, g), l
    return init, step


def resnet_step(ps, x, y, bf):
    p, s = ps
    def loss(q): o, n = resnet(half(q, bf), s, half(x, bf)); return ce(o.astype(jnp.float32), y), n
    (l, n), g = jax.value_and_grad(loss, has_aux=True)(p); return (tmap(lambda a, b: a - .1 * b, p, g), n), l


def adamw(net, init, lr=1e-4):
    def state(): p = init(); return p, tmap(jnp.zeros_like, p), tmap(jnp.zeros_like, p), jnp.float32(0)
    def step(s, x, y, bf):
        p, m, v, t = s
        l, g = jax.value_and_grad(lambda q: ce(net(half(q, bf), half(x, bf)).astype(jnp.float32), y))(p); t = t + 1
        m = tmap(lambda a, b: .9 * a + .1 * b, m, g); v = tmap(lambda a, b: .999 * a + .001 * b * b, v, g)
        return (tmap(lambda a, b, c: a * (1 - lr * .01) - lr * (b / (1 - .9**t)) / (jnp.sqrt(c / (1 - .999**t)) + 1e-8), p, m, v), m, v, t), l
    return state, step


NETS = {
    'mlp': (*sgd(mlp, mlp_init), (256, 784), (256, 10), 100),
    'lenet': (*sgd(lenet, lenet_init), (128, 1, 28, 28), (128, 10), 50),
    'resnet18': (resnet_init, resnet_step, (128, 96, 96, 3), (128, 10), 20),
    'transformer6': (*adamw(transformer, transformer_init), (8, 256, D), (2048, V), 10),
}
ROWS = ['mlp f32', 'mlp tf32', 'lenet f32', 'lenet tf32', 'resnet18 f32', 'resnet18 tf32', 'resnet18 bf16', 'transformer6 f32', 'transformer6 tf32', 'transformer6 bf16']
want = [a for a in sys.argv[1:] if not a.startswith('-')]
for row in ROWS:
    if want and not re.search(want[0], row): continue
    try:
        if time.time() - T0 > BUDGET: raise TimeoutError(f'left out: {BUDGET:.0f} s are over')
        name, precision = row.split(); init, step, xs, ys, times = NETS[name]
        x, y = jax.random.normal(key(3), xs), jax.random.randint(key(4), ys[:1], 0, ys[1])
        with jax.default_matmul_precision('highest' if precision == 'f32' else 'default'):
            t = time.time()
            f = jax.jit(functools.partial(step, bf=precision == 'bf16'), donate_argnums=0).lower(init(), x, y).compile()
            m = f.memory_analysis()
            hold = [init()]
            def one(): hold[0], l = f(hold[0], x, y); return l
            first = float(one()); t = time.time() - t
            s = timeit(one, times); last = float(one())
        print(f'{row} step\t{s * 1e3:.6g}\tms', flush=True)
        print(f'{row} peak memory\t{(m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes) / 2**20:.6g}\tMiB', flush=True)
        print(f'{row} first step\t{t:.6g}\ts', flush=True)
        print(f'# {row}: loss {first:.4f}, then {last:.4f}' + ('' if last < first else '  WARNING: does not learn'), file=sys.stderr, flush=True)
    except Exception as e:
        print(f'{row} step\tfailed\t{type(e).__name__}: {" ".join(str(e).split())[:200]}', flush=True)
print(f'# jax {jax.__version__}, {time.time() - T0:.0f} s in all', file=sys.stderr)
