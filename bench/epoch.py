"""An epoch of Fashion-MNIST, data loading included, in Locus and in PyTorch.

    python bench/epoch.py [--threads 1,2] [--nets mlp,lenet] [--rounds 3]

Both train an MLP 784-256-10 and LeNet with batches of 256 in a new order each
epoch, and keep count of loss and accuracy. Locus uses its trainer and its
FashionMNIST, which converts bytes batch by batch. PyTorch runs in three ways:

    images      a Dataset that turns one image at a time into a tensor, and a
                DataLoader: the way of its tutorials (with torchvision an image
                also becomes a PIL image in between, which is left out here);
                with no workers and with two, whichever is faster
    bytes       the whole set as one tensor of bytes, batches taken by index and
                converted: the work that Locus does
    floats      the whole set converted beforehand: as fast as it gets, for four
                times the memory

They take turns; the fastest epoch of each counts, the first of a run left out.
The files are those of Debian's package dataset-fashion-mnist.
"""
import argparse, gzip, json, os, subprocess, time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import cpu

def read(folder, name, header):
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
                return np.frombuffer(f.read(), np.uint8, offset=header)
    raise SystemExit(f"there is no {name} in {folder}: apt install dataset-fashion-mnist")


class Images(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]).float().div(255), int(self.y[i])


def by_images(x, y, workers):
    loader = DataLoader(Images(x, y), 256, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    return lambda: loader


def by_bytes(x, y):
    x, y = torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))

    def batches():
        for at in torch.randperm(len(y)).split(256):
            yield x[at].float().div_(255), y[at]
    return batches


def by_floats(x, y):
    x, y = torch.from_numpy(x).float().div_(255), torch.from_numpy(y.astype(np.int64))

    def batches():
        for at in torch.randperm(len(y)).split(256):
            yield x[at], y[at]
    return batches


NETS = {
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), 0.1),
    "lenet": (cpu.lenet, 0.9),
}


def time_torch(net, batches, threads, epochs):
    """The seconds of the fastest epoch but the first."""
    torch.set_num_threads(threads)
    build, lr = NETS[net]
    model = build()
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        loss_sum, right = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        for x, y in batches():
            opt.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            opt.step()
            with torch.no_grad():
                loss_sum += loss * len(y)
                right += (out.argmax(1) == y).sum()
        loss_sum.item(), right.item()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", default="1,2")
    p.add_argument("--nets", default="mlp,lenet")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=3, help="a round")
    p.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="the folder of the files")
    p.add_argument("--binary", help="a binary built from bench/epoch; built here if not given")
    a = p.parse_args()
    start = time.perf_counter()
    x, y = read(a.data, "train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28), read(a.data, "train-labels-idx1-ubyte", 8)
    reading = time.perf_counter() - start
    x, y = x.copy(), y.copy()
    ways = {"images": by_images(x, y, 0), "images, 2 workers": by_images(x, y, 2), "bytes": by_bytes(x, y), "floats": by_floats(x, y)}
    binary = a.binary or cpu.go_build("./bench/epoch")
    print(f"{cpu.machine()}, PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| network | threads | Locus | PyTorch, images | ratio | PyTorch, bytes | ratio | PyTorch, floats | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    accuracy, ours_read = {}, []
    for net in a.nets.split(","):
        for threads in map(int, a.threads.split(",")):
            ours, theirs = [], {way: [] for way in ways}
            for _ in range(a.rounds):
                out = subprocess.run([binary, "-net", net, "-threads", str(threads), "-epochs", str(a.epochs), "-data", a.data],
                                     check=True, capture_output=True, text=True)
                result = json.loads(out.stdout)
                ours.append(min(result["epochs"][1:]))
                ours_read.append(result["read"])
                accuracy[net] = result["accuracy"]
                for way, batches in ways.items():
                    theirs[way].append(time_torch(net, batches, threads, a.epochs if "images" not in way else 2))
            o = min(ours)
            best = {way: min(t) for way, t in theirs.items()}
            best["images"] = min(best["images"], best.pop("images, 2 workers"))
            cells = " | ".join(f"{t:.2f} s | {t/o:.2f}" for t in best.values())
            print(f"| {net} | {threads} | {o:.2f} s | {cells} |", flush=True)
    print(f"\nReading and unpacking: Locus {min(ours_read):.2f} s (training and test images), Python {reading:.2f} s (training images). "
          + ", ".join(f"{k} after {a.epochs} epochs: {v:.3f} of the test images right" for k, v in accuracy.items()))


if __name__ == "__main__":
    main()
