#!/usr/bin/env bash
# All-reduce of 100 MB by all engines that this machine has, beside the same call from C.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
CGO_ENABLED=0 go build -o "$out/allreduce" ./bench/allreduce
CGO_ENABLED=0 go build -o "$out/locus" ./cmd/locus
for ranks in ${RANKS:-2}; do
  "$out/locus" launch -n "$ranks" "$out/allreduce"
  for make in openmpi mpich; do
    command -v mpirun.$make >/dev/null || { echo "not run: mpirun.$make is missing"; continue; }
    flags=; [ $make = mpich ] || flags="--allow-run-as-root --oversubscribe"
    for turn in 1 2; do
      echo "$make:"
      mpirun.$make $flags -np "$ranks" "$out/allreduce"
      if command -v mpicc.$make >/dev/null; then
        mpicc.$make -O2 -o "$out/c-$make" bench/allreduce.c
        mpirun.$make $flags -np "$ranks" "$out/c-$make"
        mpirun.$make $flags -np "$ranks" "$out/c-$make" 25000000 4194304
      fi
    done
  done
done
