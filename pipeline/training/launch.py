"""``accelerate launch`` as a child process: signals go in, the exit status comes out. No torch here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import RecipeError, TrainingError
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import TrainRecipe
from pipeline.training.layout import accumulation, processes_and_options

CAUSAL = "pipeline.training.causal"
SEQ2SEQ = "pipeline.training.seq2seq"
PREFERENCE = "pipeline.training.preference"
"""The programs, one a kind of model or of rows."""
STATUS = "STARACT_TRAIN_STATUS"
"""Names a file for the exit status, which ``accelerate launch`` would turn into 1."""
MEMORY = {
    # Big tensors come and go at every step. glibc returns each to the kernel and gets it back page by
    # page, zeroed: tenths of a second a step. Keeping them, in huge pages, avoids that.
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# torch's launcher of several ranks would kill them 30 seconds after a signal that they are saving on.
PATIENCE = {"TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGHUP"}


def train(
    recipe: Path,
    overrides: Sequence[str] = (),
    *,
    accelerate: str | None = None,
    run_root: Path = Path("trajectories"),
    checkpoint_root: Path = Path("checkpoints"),
    style: str | None = None,
) -> int:
    """Fine-tune the students of a recipe under ``accelerate launch``; returns the exit status.

    Args:
        recipe: the recipe's file.
        overrides: ``key=value`` strings.
        accelerate: a config file of accelerate (a path, or a name under ``recipes/accelerate``); None
            trains in one process, on the GPU if there is one.
        run_root: the folder of run folders.
        checkpoint_root: the folder of checkpoints.
        style: one of the recipe's styles; None trains all.

    Raises:
        RecipeError: the recipe cannot be read, or the accelerate config cannot be used here.
    """
    module = program_of(recipe, overrides, run_root)
    section = load_recipe(recipe, overrides).train or TrainRecipe()
    command = [*launcher(accelerate, recipe, section), "-m", module, str(recipe), *overrides]
    command += ["--run-root", str(run_root), "--checkpoint-root", str(checkpoint_root)]
    command += ["--style", style] if style else []
    with tempfile.TemporaryDirectory(prefix="staract-") as scratch:
        status = Path(scratch, "status")
        code = _run(command, environment(os.environ, status))
        # The launcher answers 1 for every failure; the program notes what it really ended with.
        return int(status.read_text(encoding="ascii")) if status.is_file() else code


def program_of(recipe: Path, overrides: Sequence[str], run_root: Path) -> str:
    """The module that trains a recipe's dataset; where there is none, the one that says so.

    Raises:
        RecipeError: the recipe cannot be read.
    """
    from pipeline.training.rows import read_export

    loaded = load_recipe(recipe, overrides)
    run = (loaded.train and loaded.train.run) or loaded.name
    try:
        export = read_export(run_root / run / "dataset")
    except TrainingError:
        return CAUSAL
    return module_for(export.format, pairs=export.pairs)


def module_for(format: str, *, pairs: bool = False) -> str:
    """The module that trains rows of a format, or pairs of them."""
    if pairs:
        return PREFERENCE
    return SEQ2SEQ if format == "swift" else CAUSAL


def launcher(accelerate: str | None, recipe: Path, section: TrainRecipe | None = None) -> list[str]:
    """The command up to the module: every default is spelled out, so that accelerate warns of none.

    Args:
        accelerate: as ``train``.
        recipe: the recipe's file.
        section: its ``train`` section, for the number of processes and the size of a step.

    Raises:
        RecipeError: the config file is not there or not for this machine, or the rows of a step cannot
            be split over the processes.
    """
    section = section or TrainRecipe()
    command = [sys.executable, "-m", "accelerate.commands.launch", "--quiet"]
    if accelerate:
        path = config_file(accelerate, recipe)
        processes, options = processes_and_options(path, section.processes, os.environ)
        command += ["--config_file", str(path), *options]
    elif (processes := section.processes or 1) > 1:
        raise RecipeError(
            f"train.processes: {processes} processes need train.accelerate, such as ddp or zero3"
        )
    else:
        command += ["--num_processes", "1", "--num_machines", "1"]
        command += ["--mixed_precision", "no", "--dynamo_backend", "no"]
        command += ["--num_cpu_threads_per_process", str(threads())]
    # Refused here, before any process has loaded a model.
    accumulation(section, processes)
    return command


def config_file(name: str, recipe: Path) -> Path:
    """The accelerate config of a name: a path, or a file in ``accelerate`` beside the recipe's folder.

    Raises:
        RecipeError: there is none.
    """
    folders = [*(parent / "accelerate" for parent in recipe.absolute().parents), Path("recipes/accelerate")]
    places = [Path(name), *(folder / f"{name}.yaml" for folder in folders)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise RecipeError(f"train.accelerate: {name!r} is neither a file nor a name under recipes/accelerate")
    return found


def threads() -> int:
    """The threads to compute with: what ``OMP_NUM_THREADS`` says, else the cores that we may use."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    if chosen.isdigit() and int(chosen) > 0:
        return int(chosen)
    import psutil

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def environment(inherited: Mapping[str, str], status: Path) -> dict[str, str]:
    """The child's environment; what a person has set stays."""
    return {"TOKENIZERS_PARALLELISM": "false", **PATIENCE, **MEMORY, **inherited, STATUS: str(status)}


def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    # A session of its own: Ctrl-C reaches us alone, and we pass it on once. The launcher inherits that
    # SIGINT is ignored; the program beneath sets its own handler, saves, and ends in its own time.
    with _handling(signal.SIGINT, signal.SIG_IGN):
        child = subprocess.Popen(command, env=dict(variables), start_new_session=True)  # noqa: S603
        try:
            with _forwarding(child):
                return child.wait()
        finally:
            _kill(child)


@contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Generator[None]:
    """Pass interrupts on to the child's whole group, as interrupts: it knows how to stop on them."""

    def forward(*_: object) -> None:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)

    with _handling(signal.SIGINT, forward), _handling(signal.SIGTERM, forward):
        yield


@contextmanager
def _handling(number: signal.Signals, handler: Callable[..., None] | signal.Handlers) -> Generator[None]:
    # Only the main thread may set handlers; elsewhere signals are the caller's affair.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind when we ourselves fail."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
