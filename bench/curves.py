"""Loss curves of Locus and PyTorch from the same weights on the same batches, over 1,000 steps, in
float32 and in mixed precision (nn.Lower to bfloat16; torch.autocast).

    python3 bench/curves.py --binary ./curves [--dir DIR] [--device cuda]

--binary is built with go build ./bench/curves. A line per network: the mean loss of the last 100
steps, and how far apart two curves are at most, both averaged over 50 steps, as a share of the loss.
"""
import argparse, copy, os, subprocess, tempfile
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F

args = argparse.ArgumentParser()
args.add_argument('--binary', required=True); args.add_argument('--dir', default=''); args.add_argument('--device', default='cpu'); args.add_argument('--steps', type=int, default=1000)
a = args.parse_args(); folder = a.dir or tempfile.mkdtemp(); BATCH = 64
torch.set_num_threads(1); torch.backends.cuda.matmul.allow_tf32 = False


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(32, 64), nn.Linear(64, 32)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, dropout=0, batch_first=True), 2)

    def forward(self, x): return self.head(self.encoder(self.embed(x)))


NETS = {'mlp': (lambda: nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), lambda p: torch.optim.SGD(p, 0.05)),
        'transformer': (Language, lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.01))}


def train(name, half):
    data = np.load(os.path.join(folder, name + '.npz'))
    net, opt = NETS[name]; net = net().train()
    net.load_state_dict({k[4:]: torch.from_numpy(data[k]) for k in data.files if k.startswith('net.')}); net.to(a.device)
    x, y = (torch.from_numpy(data[k]).to(a.device) for k in 'xy')
    o, losses = opt(net.parameters()), []
    for i in range(a.steps):
        at = i * BATCH % len(x); b, c = x[at:at + BATCH], y[at:at + BATCH]
        with torch.autocast(a.device, torch.bfloat16, enabled=half):
            out = net(b)
        loss = F.cross_entropy(out.float().reshape(-1, out.shape[-1]), c.reshape(-1))
        o.zero_grad(); loss.backward(); o.step(); losses.append(loss.detach())
    return np.array([float(l) for l in losses])


smooth = lambda c: np.convolve(c, np.ones(50) / 50, 'valid')
apart = lambda c, d: f'{np.max(np.abs(smooth(c) - smooth(d)) / smooth(d)):.2%}'
last = lambda c: f'{np.mean(c[-100:]):.4f}'
subprocess.run([a.binary, '-dir', folder, '-steps', str(a.steps)], check=True)
print(f'PyTorch {torch.__version__}, {a.device}, {a.steps} steps')
print('| network | first loss | float32: Locus / PyTorch | apart | bfloat16: Locus / PyTorch | apart | bfloat16 and float32 apart: Locus / PyTorch |\n|---|---|---|---|---|---|---|')
for name in NETS:
    ours = {p: np.loadtxt(os.path.join(folder, f'{name}.{p}.txt')) for p in ('float32', 'bfloat16')}
    full, half = train(name, False), train(name, True)
    print(f"| {name} | {full[0]:.4f} | {last(ours['float32'])} / {last(full)} | {apart(ours['float32'], full)} | {last(ours['bfloat16'])} / {last(half)} | {apart(ours['bfloat16'], half)} | {apart(ours['bfloat16'], ours['float32'])} / {apart(half, full)} |", flush=True)
