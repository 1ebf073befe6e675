from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import RecipeError
from pipeline.recipe.models import TrainRecipe
from pipeline.training import causal, launch
from tests.training.making import save_dataset, save_recipe

TWO_RANKS = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
use_cpu: true
num_machines: 1
num_processes: 2
machine_rank: 0
mixed_precision: 'no'
main_process_port: 0
"""


def trial(root: Path, base: Path, train: str, styles: tuple[str, ...] = ("react",)) -> Path:
    save_dataset(root / "runs" / "trial", count=16, styles=styles)
    return save_recipe(root, base, train, f"[{', '.join(styles)}]")


def roots(root: Path) -> dict[str, Path]:
    return {"run_root": root / "runs", "checkpoint_root": root / "checkpoints"}


def log_of(root: Path, style: str) -> dict[str, Any]:
    return json.loads((root / "checkpoints" / "trial" / style / "train.json").read_text())


def test_two_ranks_train_like_one(
    tmp_path: Path, base: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The type MULTI_CPU, or --cpu, would silently run one process: the world size is what counts.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    train = "warmup: 0\nmax_steps: 2\nlearning_rate: 1e-2\npacking: false\n"
    # The same recipe: eight rows a step, in two passes of one process or one of two.
    train += "rows_a_step: 8\nbatch_size: 4"
    one = trial(tmp_path / "one", base, train)
    place = roots(tmp_path / "one")
    options = ["--run-root", str(place["run_root"]), "--checkpoint-root", str(place["checkpoint_root"])]
    assert causal.main([str(one), *options]) == 0
    capfd.readouterr()
    two = trial(tmp_path / "two", base, train)
    (tmp_path / "two.yaml").write_text(TWO_RANKS)
    done = launch.train(two, accelerate=str(tmp_path / "two.yaml"), **roots(tmp_path / "two"))
    output = capfd.readouterr()
    assert done == 0, output.err
    assert output.out.count("step 2/2") == 1, "one rank speaks"
    alone, together = log_of(tmp_path / "one", "react"), log_of(tmp_path / "two", "react")
    assert (alone["processes"], alone["distributed"]) == (1, "NO")
    assert (together["processes"], together["distributed"]) == (2, "MULTI_CPU")
    for first, second in zip(alone["steps"], together["steps"], strict=True):
        assert second["loss"] == pytest.approx(first["loss"], rel=1e-5)
        assert second["grad_norm"] == pytest.approx(first["grad_norm"], rel=1e-4)
        assert second["labelled_tokens"] == first["labelled_tokens"]
    stamps = [root / "checkpoints" / "trial" / "react" / "staract.json" for root in (one.parent, two.parent)]
    assert len({json.loads(path.read_text())["digest"] for path in stamps}) == 1


def test_one_process_uses_every_core_and_its_status_comes_through_the_launcher(
    tmp_path: Path, base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = trial(tmp_path, base, "max_steps: 1", ("act", "react"))
    (tmp_path / "runs" / "trial" / "dataset" / "react" / "train.jsonl").write_text("{torn")
    assert launch.train(recipe, **roots(tmp_path)) == 2
    output = capfd.readouterr()
    assert "step 1/1" in output.out
    assert "line 1 is not JSON" in output.err
    assert "Traceback" not in output.err
    assert "were not passed to `accelerate launch`" not in output.err
    assert log_of(tmp_path, "act")["threads"] == launch.threads()


def test_the_command_spells_out_every_default() -> None:
    command = launch.launcher(None, Path("recipe.yaml"))
    assert command[:3] == [sys.executable, "-m", "accelerate.commands.launch"]
    for option in ("num_processes", "num_machines", "mixed_precision", "dynamo_backend"):
        assert f"--{option}" in command


def test_what_cannot_be_split_is_refused_before_anything_starts(tmp_path: Path) -> None:
    section = TrainRecipe(rows_a_step=6, batch_size=4)
    with pytest.raises(RecipeError, match=r"6 rows .* on 1 device; set train\.batch_size=3$"):
        launch.launcher(None, Path("recipe.yaml"), section)
    two = tmp_path / "two.yaml"
    two.write_text(TWO_RANKS)
    with pytest.raises(RecipeError, match=r"6 rows .* on 2 devices; set train\.batch_size=3$"):
        launch.launcher(str(two), Path("recipe.yaml"), section)
    command = launch.launcher(str(two), Path("recipe.yaml"), TrainRecipe(rows_a_step=6, batch_size=3))
    assert command[4:] == ["--config_file", str(two), "--num_processes", "2"]


def test_several_processes_need_a_config() -> None:
    with pytest.raises(RecipeError, match=r"2 processes need train\.accelerate"):
        launch.launcher(None, Path("recipe.yaml"), TrainRecipe(processes=2))


def test_the_programs_themselves_refuse_what_cannot_be_split(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = trial(tmp_path, base, "rows_a_step: 6\nbatch_size: 4")
    place = roots(tmp_path)
    options = ["--run-root", str(place["run_root"]), "--checkpoint-root", str(place["checkpoint_root"])]
    assert causal.main([str(recipe), *options]) == 2
    assert "train.rows_a_step: 6 rows" in capsys.readouterr().err
    assert not place["checkpoint_root"].exists()


def test_a_config_is_a_path_or_a_name_beside_the_recipes(tmp_path: Path) -> None:
    (tmp_path / "recipes" / "accelerate").mkdir(parents=True)
    named = tmp_path / "recipes" / "accelerate" / "two.yaml"
    named.write_text(TWO_RANKS)
    recipe = tmp_path / "recipes" / "atlas" / "quickstart.yaml"
    assert launch.config_file("two", recipe) == named
    assert launch.config_file(str(named), recipe) == named
    with pytest.raises(RecipeError, match=r"train\.accelerate: 'eight' is neither"):
        launch.config_file("eight", recipe)


def test_threads_are_the_cores_we_may_use_or_what_a_person_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert 1 <= launch.threads() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert launch.threads() == 3


def test_a_persons_environment_wins() -> None:
    variables = launch.environment({"GLIBC_TUNABLES": "mine", "HOME": "/home/x"}, Path("status"))
    assert variables["GLIBC_TUNABLES"] == "mine"
    assert variables["HOME"] == "/home/x"
    assert variables[launch.STATUS] == "status"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_once_and_the_child_ends_in_its_own_time(tmp_path: Path, number: int) -> None:
    # A launcher that ignores interrupts, as accelerate does when it inherits that, with a program beneath.
    (tmp_path / "program.py").write_text(
        "import signal, sys, time\n"
        "hits = []\n"
        "signal.signal(signal.SIGINT, lambda *_: hits.append(1))\n"
        "open('ready', 'w').close()\n"
        "while not hits: time.sleep(0.02)\n"
        "time.sleep(0.1)\n"
        "open('hits', 'w').write(str(len(hits)))\n"
        "sys.exit(130)\n"
    )
    (tmp_path / "launcher.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'program.py']))\n"
    )
    (tmp_path / "parent.py").write_text(
        "import os, sys\n"
        "from pipeline.training.launch import _run\n"
        "sys.exit(_run([sys.executable, 'launcher.py'], os.environ))\n"
    )
    child = subprocess.Popen([sys.executable, "parent.py"], cwd=tmp_path)
    deadline = time.monotonic() + 20
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(number)
    assert child.wait(timeout=20) == 130
    assert (tmp_path / "hits").read_text() == "1"


def test_outside_the_main_thread_signals_are_the_callers_affair() -> None:
    codes: list[int] = []
    worker = threading.Thread(
        target=lambda: codes.append(launch._run([sys.executable, "-c", "exit(3)"], os.environ))
    )
    worker.start()
    worker.join(20)
    assert codes == [3]


def test_importing_the_launcher_does_not_import_torch() -> None:
    code = "import sys, pipeline.training.launch; sys.exit('torch' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", code]) == 0
