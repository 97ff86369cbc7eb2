"""Whole training steps of Locus beside PyTorch and JAX on this machine's first GPU, in one run.

    python3 bench/steps.py --binary ./steps [--match REGEXP] [--budget SECONDS] [--compiled]

--binary is built with CGO_ENABLED=0 go build ./bench/steps. A table per row: milliseconds per step
(eager forms, then graph or compiled ones), peak memory in MiB, and the ratios of Locus's best eager
and best form to the peers'. Below 1 Locus is faster. PyTorch's eager figure is the best of its
ways without a graph: plain, cudnn.benchmark, channels last.
"""
import argparse, os, re, subprocess, sys, time

here = os.path.dirname(os.path.abspath(__file__))
args = argparse.ArgumentParser()
args.add_argument('--binary', required=True); args.add_argument('--match', default=''); args.add_argument('--ways', default='eager,backward,plain,compiled')
args.add_argument('--budget', type=float, default=480); args.add_argument('--compiled', action='store_true', help="time torch.compile too, which takes minutes")
args.add_argument('--raw', default='', help='write all lines there'); a = args.parse_args()
T0, lines = time.time(), []


def run(cmd, share):
    """Lines of a program, which gets a share of the time that is left."""
    left = max(5.0, (a.budget - (time.time() - T0)) * share)
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True, env={**os.environ, 'BUDGET': str(left)})
    out = {}
    for line in p.stdout:
        lines.append(cmd[-1][:12] + '\t' + line)
        f = line.rstrip('\n').split('\t')
        if len(f) != 3: continue
        if f[1] == 'failed': print('#', line.strip(), flush=True)
        else: out[f[0]] = float(f[1])
    p.wait(); return out


ours = run([a.binary, '-way', a.ways, '-match', a.match], 1)
torch = run([sys.executable, os.path.join(here, 'steps_torch.py'), (f'(?=.*({a.match}))' if a.match else '') + ('' if a.compiled else r'^((?!compiled).)*$')], .7)
jax = run([sys.executable, os.path.join(here, 'steps_jax.py'), a.match], 1)
if a.raw: open(a.raw, 'w').writelines(lines)

rows = []
for k in list(ours) + list(torch):
    m = re.match(r'(\S+ (?:f32|tf32|bf16))\b', k)
    if m and m[1] not in rows: rows.append(m[1])
get = lambda d, *keys: min((d[k] for k in keys if k in d), default=None)
show = lambda v: '' if v is None else f'{v:.3g}' if v < 100 else f'{v:.0f}'
over = lambda x, y: '' if x is None or y is None else f'{x / y:.2f}'
print('| step | Locus eager / backward / plain / compiled | PyTorch eager / graph / compiled | JAX | eager ÷ PyTorch eager | best ÷ best peer | memory: Locus eager / backward / plain / compiled | PyTorch | JAX | blocks eager / compiled | first step / first compiled step: Locus | JAX first step |')
print('|---|---|---|---|---|---|---|---|---|---|---|---|')
for r in rows:
    o = [ours.get(f'{r} [{w}] step') for w in ('eager', 'backward', 'plain', 'compiled')]
    te = get(torch, f'{r} step', f'{r} step [benchmark]', f'{r} step [channels_last]')
    tg = get(torch, f'{r} step [graph]', f'{r} step [graph+channels_last]'); tc = get(torch, f'{r} step [compiled]'); j = get(jax, f'{r} step')
    mem = [ours.get(f'{r} [{w}] peak memory') for w in ('eager', 'backward', 'plain', 'compiled')]
    best, peers = min((v for v in o if v), default=None), min((v for v in (te, tg, tc, j) if v), default=None)
    eager = min((v for v in o[:2] if v), default=None)
    print(f"| {r} | {' / '.join(map(show, o))} | {show(te)} / {show(tg)} / {show(tc)} | {show(j)} | {over(eager, te)} | {over(best, peers)} | {' / '.join(map(show, mem))} | {show(get(torch, f'{r} peak memory'))} | {show(get(jax, f'{r} peak memory'))} | "
          f"{show(ours.get(f'{r} [eager] blocks'))} / {show(ours.get(f'{r} [compiled] blocks'))} | {show(ours.get(f'{r} [compiled] first step'))} / {show(ours.get(f'{r} [compiled] first compiled step'))} | {show(jax.get(f'{r} first step'))} |", flush=True)
print(f'# {time.time() - T0:.0f} s')
