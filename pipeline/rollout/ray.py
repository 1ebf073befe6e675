"""Workers of a Ray cluster: on this machine alone, or on many.

Ray is a carrier only. Who plays what, and what happens when a worker is lost, is decided in ``crew.py``;
Ray's own restarts and retries are off, so that there is one rule. No secret is sent: a worker reads the
key of a model from its own environment.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pipeline import __version__
from pipeline.errors import RecipeError, WorkerError
from pipeline.recipe.models import EnvironmentRecipe, ExecutorRecipe
from pipeline.rollout.crew import LostWorkerError
from pipeline.rollout.worker import Fault, Order, Ready, Worker
from pipeline.trajectories.schema import Task, Trajectory

OBJECT_STORE: Final = 80 * 2**20
"""Bytes of shared memory of a Ray of our own: trajectories are small, and gone at once."""
CLOSE_SECONDS: Final = 5.0
"""How long a worker may take to free what it holds."""


class RayHands:
    """Hires workers; Ray is started, or joined, for the first of them.

    Args:
        recipe: how many, where, and what each reserves.
        environment: the world that each builds.
    """

    def __init__(self, recipe: ExecutorRecipe, environment: EnvironmentRecipe) -> None:
        self._recipe = recipe
        self._environment = environment
        self._ours = False

    def hire(self) -> RayHand:
        """A new worker.

        Raises:
            WorkerError: Ray cannot be started, or the cluster cannot be joined.
            RecipeError: this machine has not so many GPUs.
        """
        self._join()
        import ray

        factory: Any = ray.remote(Worker)
        actor = factory.options(
            num_cpus=self._recipe.cpus,
            num_gpus=self._recipe.gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        ).remote(self._environment, str(Path.cwd()))
        return RayHand(actor)

    def close(self) -> None:
        """Leave Ray, and end it if it was started for this."""
        if self._ours:
            import ray

            self._ours = False
            ray.shutdown()

    def _join(self) -> None:
        # Read by Ray when it is imported, or by the processes that it starts.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if self._recipe.address is None:
            # Despite its name: with 0, Ray's servers listen on 127.0.0.1 alone, on Linux as well.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        import ray

        if ray.is_initialized():
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            ray.init(**self._where(), **quiet)
        except Exception as error:
            where = f"the cluster at {self._recipe.address!r}" if self._recipe.address else "a Ray of its own"
            raise WorkerError(f"executor: {where} cannot be reached or started: {_line(error)}") from None
        self._ours = True
        if self._recipe.address is None:
            self._check_gpus(ray.cluster_resources().get("GPU", 0.0))

    def _where(self) -> dict[str, Any]:
        if self._recipe.address is not None:
            return {"address": self._recipe.address}
        # "local" and not None: then RAY_ADDRESS is not followed. Workers may outnumber processors.
        return {
            "address": "local",
            "num_cpus": math.ceil(self._recipe.workers * self._recipe.cpus),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE,
        }

    def _check_gpus(self, found: float) -> None:
        wanted = self._recipe.workers * self._recipe.gpus
        if wanted > found:
            asked = f"{self._recipe.workers} workers × {self._recipe.gpus:g} GPUs"
            raise RecipeError(
                f"executor: {asked} are asked for, and this machine has {found:g}: lower executor.workers or"
                " executor.gpus"
            )


class RayHand:
    """A worker that is a Ray actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self.pid: int | None = None
        """Its process, once it is ready."""

    async def open(self) -> None:
        """Wait until its world is built, and make sure that it runs this version.

        Raises:
            LostWorkerError: it is gone.
            WorkerError: it runs another version of the package.
            StaractError: it cannot build its world.
        """
        ready: Ready = await _reply(self._actor.open.remote())
        self.pid = ready.pid
        if ready.version != __version__:
            raise WorkerError(
                f"a worker runs staract {ready.version}, and this is {__version__}: install the same on all"
                " machines"
            )

    async def play(self, order: Order, task: Task, sample: int, identity: str) -> Trajectory:
        """Have an episode played.

        Raises:
            LostWorkerError: it is gone, or failed in a way that it has no sentence for.
            StaractError: what it said.
        """
        return await _reply(self._actor.play.remote(order, task, sample, identity))

    async def close(self) -> None:
        """Let it free what it holds, if it holds anything yet; then end it, whatever it answers."""
        import ray

        if self.pid is not None:
            with suppress(Exception):
                await asyncio.wait_for(self._actor.close.remote(), CLOSE_SECONDS)
        with suppress(Exception):
            ray.kill(self._actor)


async def _reply(reference: Any) -> Any:
    from ray.exceptions import RayError

    try:
        reply = await reference
    except RayError as error:
        raise LostWorkerError(_line(getattr(error, "cause", None) or error)) from None
    if isinstance(reply, Fault):
        raise reply.error()
    return reply


def _line(error: BaseException) -> str:
    """The first line of an error; its class too, where that is not Ray's own."""
    lines = str(error).strip().split("\n")
    said = lines[0].rstrip(".")
    return said if type(error).__module__.startswith("ray.") else f"{type(error).__name__}: {said}"
