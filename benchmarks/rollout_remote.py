"""Remote rollouts: how much of a server's ideal throughput the engine keeps, and in how much memory.

The server is simulated, in a process of its own: a fixed number of slots, each writing at a fixed rate;
requests beyond the slots wait in a queue. It answers chat completions with thoughts of 40 to 80 tokens,
an action that the environment carries out, and in an episode's last step with its finish. The engine
plays six-exemplar ReAct on the atlas against it, through the same client as against any server.
Ideal is slots × rate; the tokens are those that the server really wrote.

    python benchmarks/rollout_remote.py --json rollout_remote.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pipeline.environments.registry import load_environment
from pipeline.methods.registry import load_method
from pipeline.models.openai import OpenAIModel
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, ModelRecipe
from pipeline.rollout.engine import Plan, Summary, run_episodes
from pipeline.trajectories.schema import Trajectory
from pipeline.trajectories.store import TrajectoryStore

TASKS = 500
"""Tasks of the panel at most; more episodes are more samples of them."""
TOKENS = (40, 80)
"""The shortest and the longest step."""
LIMIT = 500.0
"""MiB that the engine may hold."""


@dataclass
class SimulatedServer:
    """Slots that write at a fixed rate."""

    slots: int
    rate: float
    steps: int
    free: asyncio.Semaphore = field(init=False)

    async def serve(self, parent: Connection) -> None:
        """Answer until the parent closes its end of the pipe."""
        self.free = asyncio.Semaphore(self.slots)
        server = await asyncio.start_server(self.connection, "127.0.0.1", 0, backlog=4096)
        parent.send(server.sockets[0].getsockname()[1])
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(parent.fileno(), over.set)
        await over.wait()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
                body = await self.answer(json.loads(await reader.readexactly(length)))
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, asked: dict[str, Any]) -> bytes:
        tokens = random.Random(asked["seed"]).randint(*TOKENS)
        async with self.free:
            await asyncio.sleep(tokens / self.rate)
        message = {"role": "assistant", "content": self.turn(asked["messages"], tokens)}
        usage = {"prompt_tokens": 1400, "completion_tokens": tokens, "total_tokens": 1400 + tokens}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()

    def turn(self, messages: list[dict[str, str]], tokens: int) -> str:
        """One turn of about so many tokens; the last step finishes."""
        roles = [message["content"].startswith("Question:") for message in messages]
        asked = len(roles) - 1 - roles[::-1].index(True)
        number = 1 + sum(message["role"] == "assistant" for message in messages[asked:])
        action = "Finish[Ankara]" if number >= self.steps else "Search[Ankara]"
        return f"Thought: {'so ' * (tokens - 8)}on.\nAction: {action}"


def simulate(slots: int, rate: float, steps: int, parent: Connection) -> None:
    """The server's process."""
    asyncio.run(SimulatedServer(slots, rate, steps).serve(parent))


@dataclass
class Watch:
    """Counts tokens and notes the resident memory at some numbers of episodes."""

    marks: Sequence[int]
    memory: dict[int, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    done: int = 0
    tokens: int = 0
    start: float = 0.0

    def begin(self, owed: int) -> None:
        """As ``Progress.begin``."""
        self.start = time.perf_counter()

    def advance(self, trajectory: Trajectory) -> None:
        """As ``Progress.advance``."""
        self.done += 1
        self.tokens += trajectory.usage.completion_tokens
        if self.done in self.marks:
            self.memory[self.done] = resident()
            self.rates[self.done] = self.tokens / (time.perf_counter() - self.start)

    def end(self) -> None:
        """As ``Progress.end``."""


def resident() -> float:
    """MiB of this process that are in memory now (where that cannot be read: the most there ever were)."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 2**10)


def play(port: int, options: argparse.Namespace, folder: Path) -> tuple[Watch, Summary]:
    environment = load_environment(EnvironmentRecipe(name="atlas", family="questions"))
    samples = -(-options.episodes // TASKS)
    tasks = list(islice(environment.tasks("train"), options.episodes // samples))
    recipe = MethodRecipe(name="react", renderer="chat", max_steps=7, temperature=0.7)
    model = OpenAIModel(
        ModelRecipe(address=f"openai:simulated@http://127.0.0.1:{port}/v1", stream=options.stream)
    )
    watch = Watch([options.episodes // 10, options.episodes // 2, options.episodes])

    async def run(store: TrajectoryStore) -> Summary:
        plan = Plan(environment, load_method(recipe), recipe, model)
        try:
            return await run_episodes(
                plan,
                tasks,
                store,
                samples=samples,
                concurrency=options.concurrency,
                progress=watch,
            )
        finally:
            await model.close()

    with TrajectoryStore(folder / "trajectories.jsonl") as store:
        return watch, asyncio.run(run(store))


def figures(watch: Watch, summary: Summary, options: argparse.Namespace, processor: float) -> dict[str, Any]:
    ideal = options.slots * options.rate
    sizes = list(watch.memory.values())
    calls = summary.usage.calls
    return {
        "slots": options.slots,
        "tokens_per_second_a_slot": options.rate,
        "concurrency": options.concurrency,
        "episodes": summary.done,
        "finished": summary.outcomes["finished"],
        "calls": calls,
        "tokens": watch.tokens,
        "seconds": summary.seconds,
        "processor_ms_a_call": 1000 * processor / calls,
        "tokens_per_second": watch.tokens / summary.seconds,
        "ideal_tokens_per_second": ideal,
        "ratio": watch.tokens / summary.seconds / ideal,
        "resident_mib": {str(count): size for count, size in watch.memory.items()},
        "growth_mib": sizes[-1] - sizes[0],
        "within_limit": max(sizes) < LIMIT,
    }


def table(found: dict[str, Any], watch: Watch) -> str:
    ideal = found["ideal_tokens_per_second"]
    lines = ["| episodes | tokens/s | of ideal | resident MiB |", "| --: | --: | --: | --: |"]
    for count, size in watch.memory.items():
        rate = watch.rates[count]
        lines.append(f"| {count} | {rate:.0f} | {rate / ideal:.1%} | {size:.0f} |")
    rate = f"{found['slots']} slots × {found['tokens_per_second_a_slot']:g} tokens/s = {ideal:.0f} tokens/s"
    done = f"{found['finished']} of {found['episodes']} episodes finished"
    work = f"{found['calls']} calls, {found['tokens']} tokens in {found['seconds']:.0f} s"
    cost = f"{found['processor_ms_a_call']:.1f} ms of processor a call"
    return "\n".join([*lines, "", f"{rate}; concurrency {found['concurrency']}; {done}; {work}; {cost}."])


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=3, help="steps an episode")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rate", type=float, default=40.0, help="tokens a second and slot")
    parser.add_argument("--concurrency", type=int, default=64, help="episodes at a time")
    parser.add_argument("--stream", action="store_true", help="ask for streams (the server answers whole)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(arguments)


def main() -> None:
    options = options_of()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(
        target=simulate, args=(options.slots, options.rate, options.steps, theirs), daemon=True
    )
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            processor = time.process_time()
            watch, summary = play(ours.recv(), options, Path(folder))
            processor = time.process_time() - processor
    finally:
        server.terminate()
        server.join()
    found = figures(watch, summary, options, processor)
    print(table(found, watch))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
