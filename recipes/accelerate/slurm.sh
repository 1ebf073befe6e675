#!/usr/bin/env bash
# sbatch recipes/accelerate/slurm.sh RECIPE [key=value …]
#
# Trains on several machines of a Slurm cluster: one launcher a machine, one process a GPU (multi_node.yaml). Submit it
# from the folder that holds recipes/, trajectories/ and checkpoints/, on a file system that all machines see, with
# `staract` on the path. Set train.save_every: the same command, or a requeue, goes on from the newest checkpoint.
# Other machines: sbatch --nodes=4 …; other GPUs a machine: --gpus-per-node=4, and train.processes=<all of them>.
#SBATCH --job-name=staract
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --time=24:00:00
set -euo pipefail

read -r MASTER_ADDR < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# Two jobs on one machine may not meet on one port.
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
NNODES=$SLURM_JOB_NUM_NODES
export MASTER_ADDR MASTER_PORT NNODES

# Ranks are known on the machines alone: the inner shell reads them there.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=$SLURM_NODEID exec staract train "$@" accelerate=multi_node' staract "$@"
