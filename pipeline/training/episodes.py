"""A checkpoint plays while its student trains: the one module of training that sees episodes.

The checkpoint is loaded as it will be served and plays through the engine that evaluates students.
Episodes are kept, so that a run that is taken up again plays none twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from pipeline.environments.base import Environment
from pipeline.environments.registry import load_environment
from pipeline.methods.registry import load_method
from pipeline.models.registry import load_model
from pipeline.recipe.models import Recipe, ValidateRecipe
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.rollout.panels import recipe_panel
from pipeline.training.checkpoint import weight_files
from pipeline.training.identity import sha256
from pipeline.training.sharding import unsharded
from pipeline.trajectories.panels import check_disjoint
from pipeline.trajectories.schema import Task, digest
from pipeline.trajectories.store import TrajectoryStore


class Episodes:
    """Plays the panel of ``train.validate_on``. The environment is started when first needed."""

    def __init__(self, recipe: Recipe, validate: ValidateRecipe, folder: Path) -> None:
        self._recipe = recipe
        self._validate = validate
        self._folder = folder

    @classmethod
    @contextmanager
    def of(cls, recipe: Recipe, folder: Path) -> Generator[Self | None]:
        """What the recipe asks for, or None; whatever the environment holds is freed at the end."""
        if recipe.train is None or recipe.train.validate_on is None:
            yield None
            return
        episodes = cls(recipe, recipe.train.validate_on, folder)
        try:
            yield episodes
        finally:
            episodes.close()

    def score(self, checkpoint: Path, step: int) -> float:
        """The mean reward that a checkpoint earns; an episode that fails counts with what it had.

        Raises:
            StaractError: the panel overlaps the evaluation's; or it, the method, the environment or the
                checkpoint is unusable.
        """
        with _same_chance(), unsharded():
            return asyncio.run(self._played(checkpoint, step))

    def close(self) -> None:
        """End the environment, if it was started."""
        end: Any = getattr(self.__dict__.get("_environment"), "close", None)
        if end is not None:
            end()

    @cached_property
    def _environment(self) -> Environment:
        return load_environment(self._recipe.environment)

    @cached_property
    def _tasks(self) -> list[Task]:
        panel = recipe_panel(self._environment, self._validate.panel)
        if self._recipe.evaluate is not None:
            # A student that is chosen by its score there could not be evaluated there.
            check_disjoint(panel, recipe_panel(self._environment, self._recipe.evaluate.panel))
        return panel.tasks

    async def _played(self, checkpoint: Path, step: int) -> float:
        recipe = self._recipe.models[self._recipe.train.model] if self._recipe.train else None
        assert recipe is not None  # noqa: S101 - there is a train section, or there were no episodes
        model = load_model(recipe.model_copy(update={"address": str(checkpoint)}))
        try:
            # The same step of another attempt may have other weights.
            weights = digest([sha256(path) for path in weight_files(checkpoint)])
            method = self._validate.method
            plan = Plan(
                self._environment, load_method(method), method, model, self._recipe.seed, {"weights": weights}
            )
            with TrajectoryStore(self._folder / f"episodes-{step}.jsonl") as store:
                await run_episodes(plan, self._tasks, store, concurrency=self._validate.concurrency)
                played = list(store.read(plan.identities(self._tasks)))
        finally:
            await model.close()
        return sum(trajectory.grade.reward for trajectory in played) / len(self._tasks)


@contextmanager
def _same_chance() -> Generator[None]:
    """Leave the random states as they were: the checkpoint on disk holds those from before."""
    devices = list(range(torch.cuda.device_count()))
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if devices:
            torch.cuda.empty_cache()
