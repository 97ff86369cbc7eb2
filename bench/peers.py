"""Locus, the other Go frameworks and PyTorch on this machine's CPU in one run.

    python bench/peers.py [--threads 1,2] [--rounds 3]

GoMLX (with its backend in Go, built with GOEXPERIMENT=simd, without which its
products are several times slower), Gorgonia and gonum come from bench/peers, a
module of its own. They take turns, and the smallest median of each counts.
"""
import argparse, json, os, subprocess

import torch

import cpu

CASES = ["matmul_1024", "matmul_norm_100", "add_16m", "mlp_step"]


class Peer:
    def __init__(self, name, **env):
        self.name = name
        self.env = {**os.environ, **env}
        self.binary = cpu.go_build("./" + name, "bench/peers", **env)
        about = json.loads(subprocess.run([self.binary], check=True, capture_output=True, text=True, env=self.env).stdout)
        self.cases, self.versions = about["cases"], about["versions"]

    def time(self, case, threads, seconds):
        if case not in self.cases:
            return None
        out = subprocess.run([self.binary, "-case", case, "-seconds", str(seconds)], check=True, capture_output=True, text=True,
                             env={**self.env, "GOMAXPROCS": str(threads)})
        return json.loads(out.stdout)["seconds"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", default="1,2")
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1)
    a = p.parse_args()
    go = subprocess.run(["go", "env", "GOVERSION"], check=True, capture_output=True, text=True).stdout.strip()
    peers = [Peer("gomlx", GOEXPERIMENT="simd"),
             # Gorgonia ends at the start with a newer Go than it knows, unless told that it may go on.
             Peer("gorgonia", ASSUME_NO_MOVING_GC_UNSAFE_RISK_IT_WITH=".".join(go.split(".")[:2])),
             Peer("gonum")]
    locus = cpu.go_build("./bench/cpu")
    versions = ", ".join(v for peer in peers for v in peer.versions)
    print(f"{cpu.machine()}, {go}, {versions}, PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| case | threads | Locus | GoMLX | Gorgonia | gonum | PyTorch | fastest Go peer's time / Locus' time |")
    print("|---|---|---|---|---|---|---|---|")
    for case in a.cases.split(","):
        for threads in map(int, a.threads.split(",")):
            rows = []
            for _ in range(a.rounds):
                ours = cpu.Locus(locus, case, threads)
                rows.append([ours.turn(a.seconds), *(peer.time(case, threads, a.seconds) for peer in peers),
                             cpu.Torch(case, threads).turn(a.seconds)])
                ours.close()
            best = [None if column[0] is None else min(column) for column in zip(*rows)]
            cells = [f"{t*1e3:.2f} ms" if t else "–" for t in best]
            fastest = min(t for t in best[1:-1] if t)
            print(f"| {case} | {threads} | {' | '.join(cells)} | {fastest/best[0]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
