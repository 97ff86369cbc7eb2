#!/bin/bash
# A job of Slurm's: two nodes with eight ranks each, one GPU for a rank.
#   sbatch deploy/slurm.sh ./train --epochs 10
#SBATCH --job-name=locus
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
set -euo pipefail

# The ranks know each other by this secret; srun passes it on.
LOCUS_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export LOCUS_TOKEN
export LOCUS_THREADS=${SLURM_CPUS_PER_TASK:-1}

# If a rank fails, the others stop by themselves with an error that names it.
srun --kill-on-bad-exit=1 "$@"
