#!/usr/bin/env bash
# sbatch recipes/ray/slurm.sh generate RECIPE executor.workers=8 executor.gpus=1 [key=value …]
# sbatch recipes/ray/slurm.sh evaluate RECIPE executor.workers=8 executor.gpus=1 [key=value …]
#
# Starts Ray on the machines of a Slurm job, then runs the command on the first of them, with Ray as its executor. The
# run folder is written by that machine alone. The others need `staract` on the path, of the same version, and what the
# recipe names by path (an index, a checkpoint) under the same path. An API key is read from the environment of each
# machine: srun passes it on. The same command, or a requeue, goes on.
#SBATCH --job-name=staract-ray
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --time=24:00:00
set -euo pipefail

# Ray takes these from the environment.
export RAY_USAGE_STATS_ENABLED=0 OMP_NUM_THREADS=1
read -r HEAD < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
HEAD_IP=$(srun --nodes=1 --ntasks=1 --nodelist="$HEAD" hostname --ip-address | awk '{print $1}')
# Two jobs on one machine may not meet on one port.
PORT=$((20000 + SLURM_JOB_ID % 10000))
export HEAD_IP PORT

# The first machine is the head, the others join it; all end with the job.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=1 bash -c '
  resources=(--num-cpus="$SLURM_CPUS_PER_TASK" --disable-usage-stats --block)
  if [ "$SLURM_PROCID" = 0 ]; then
    exec ray start --head --node-ip-address="$HEAD_IP" --port="$PORT" --include-dashboard=false "${resources[@]}"
  fi
  sleep 15
  exec ray start --address="$HEAD_IP:$PORT" "${resources[@]}"' &
until srun --overlap --nodes=1 --ntasks=1 --nodelist="$HEAD" ray status --address="$HEAD_IP:$PORT" > /dev/null 2>&1; do
  sleep 5
done
srun --overlap --nodes=1 --ntasks=1 --nodelist="$HEAD" \
  staract "$@" executor.name=ray executor.address="$HEAD_IP:$PORT"
