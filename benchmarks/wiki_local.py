"""A local Wikipedia at scale: build rate, sizes, memory, and how long searches take.

    python benchmarks/wiki_local.py
    python benchmarks/wiki_local.py --pages 200000 --json out.json

Generated pages (titles of one to four words of a Zipf-like vocabulary, some with brackets or accents;
texts of a few sentences) are written as JSON lines to a scratch folder, about 1.5 kB of disk a page
with the wiki. Building and searching run in a process of their own each, so that a peak is their own.
A tenth of the queries of each sort warms up the files and is not counted.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.build import build_from_sources
from pipeline.environments.wiki.local import LocalWiki
from pipeline.environments.wiki.sources import open_sources

QUERIES = 2_500
LIMITS = {"memory": 500.0, "exact": 1.0, "similar": 5.0}
"""MiB; milliseconds of an exact title; milliseconds of similar titles at the 95th percentile."""

CONSONANTS = tuple("b c d f g h j k l m n p r s t v w z br ch dr gr kl pr sh st th tr".split())  # noqa: SIM905
VOWELS = tuple("a e i o u a e i o ai ea ou ie é ö".split())  # noqa: SIM905
ENDINGS = ("", "", "n", "s", "r", "l", "nd", "rt")
SORTS = ("(film)", "(album)", "(politician)", "(footballer)", "(novel)", "(band)", "(disambiguation)")


class Vocabulary:
    """Words of one to four syllables, the n-th drawn in proportion to 1 / (n + 3)."""

    def __init__(self, size: int, draw: random.Random) -> None:
        self._draw = draw
        self.words = list(dict.fromkeys(self._word() for _ in range(size)))
        self._weights = list(accumulate(1 / (place + 3) for place in range(len(self.words))))

    def _word(self) -> str:
        count = self._draw.choice((1, 2, 2, 2, 3, 3, 4))
        syllables = (self._draw.choice(CONSONANTS) + self._draw.choice(VOWELS) for _ in range(count))
        return "".join(syllables) + self._draw.choice(ENDINGS)

    def word(self) -> str:
        return self.words[bisect(self._weights, self._draw.random() * self._weights[-1])]

    def title(self) -> str:
        count = self._draw.choice((1, 2, 2, 2, 2, 3, 3, 4))
        # Names are rarer than the words of a text: half of a title's words are drawn evenly.
        words = [
            self.word() if self._draw.random() < 0.5 else self._draw.choice(self.words) for _ in range(count)
        ]
        if self._draw.random() < 0.12:
            words.append(self._draw.choice(SORTS))
        return " ".join(word if word.startswith("(") else word.capitalize() for word in words)

    def text(self, title: str) -> str:
        sentences = (
            " ".join(self.word() for _ in range(self._draw.randrange(8, 24))).capitalize()
            for _ in range(self._draw.randrange(2, 6))
        )
        return f"{title} is {'. '.join(sentences)}."


def generate(count: int, folder: Path) -> dict[str, Any]:
    """Write ``pages.jsonl``, and ``queries.json``: what is searched for and the title that is meant."""
    draw = random.Random(0)
    vocabulary = Vocabulary(max(count // 4, 2_000), draw)
    seen: set[int] = set()
    sample: list[str] = []
    with (folder / "pages.jsonl").open("w", encoding="utf-8") as file:
        while len(seen) < count:
            title = vocabulary.title()
            if hash(title) in seen:
                continue
            seen.add(hash(title))
            file.write(
                json.dumps({"title": title, "text": vocabulary.text(title)}, ensure_ascii=False) + "\n"
            )
            if len(sample) < 4 * QUERIES or draw.random() < 4 * QUERIES / len(seen):
                sample[len(sample) % (4 * QUERIES) :] = [title]
    draw.shuffle(sample)
    queries = {sort: list(make(sample, vocabulary, draw)) for sort, make in QUERY_SORTS.items()}
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    return {"bytes": (folder / "pages.jsonl").stat().st_size}


Pairs = Iterator[tuple[str, str]]


def exact(titles: list[str], _: Vocabulary, __: random.Random) -> Pairs:
    return ((title, title) for title in titles)


def folded(titles: list[str], _: Vocabulary, __: random.Random) -> Pairs:
    for title in titles:
        plain = unicodedata.normalize("NFKD", title.upper())
        yield "".join(char for char in plain if not unicodedata.combining(char)), title


def misspelt(titles: list[str], _: Vocabulary, draw: random.Random) -> Pairs:
    for title in titles:
        place = draw.randrange(1, max(len(title) - 2, 2))
        before, here, after = title[:place], title[place], title[place + 1 :]
        yield draw.choice((before + after, before + after[:1] + here + after[1:])), title


def lengthened(titles: list[str], vocabulary: Vocabulary, draw: random.Random) -> Pairs:
    for title in titles:
        yield f"{vocabulary.word()} {draw.choice(('of', 'in'))} {title}", title


def common(titles: list[str], vocabulary: Vocabulary, draw: random.Random) -> Pairs:
    """One to three of the hundred commonest words."""
    for title in titles:
        yield " ".join(draw.sample(vocabulary.words[:100], draw.choice((1, 2, 3)))), title


def nonsense(titles: list[str], _: Vocabulary, draw: random.Random) -> Pairs:
    for title in titles:
        yield "".join(draw.sample(title, len(title))), title


QUERY_SORTS: dict[str, Callable[[list[str], Vocabulary, random.Random], Pairs]] = {
    "exact": exact,
    "folded": folded,
    "misspelt": misspelt,
    "lengthened": lengthened,
    "common": common,
    "nonsense": nonsense,
}


def build(folder: Path) -> dict[str, Any]:
    start = time.perf_counter()
    state = build_from_sources(folder / "wiki", open_sources([str(folder / "pages.jsonl")]))
    seconds = time.perf_counter() - start
    wiki = folder / "wiki"
    return {
        "pages": state.pages,
        "seconds": round(seconds, 1),
        "pages_per_second": round(state.pages / seconds),
        "database_mib": _mib([wiki / "pages.sqlite"]),
        "titles_mib": _mib((wiki / "titles").iterdir()),
        "build_peak_mib": _peak(),
    }


def search(folder: Path) -> dict[str, Any]:
    wiki = LocalWiki.open(folder / "wiki")
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    answers = {sort: _timed(wiki, pairs[: QUERIES + QUERIES // 10]) for sort, pairs in queries.items()}
    times = {"exact": ("exact", "folded"), "similar": ("misspelt", "lengthened", "common", "nonsense")}
    figures: dict[str, Any] = {"search_peak_mib": _peak()}
    for name, sorts in times.items():
        taken = sorted(ms for sort in sorts for ms, page, _ in answers[sort] if page == (name == "exact"))
        figures[name] = _percentiles(taken)
    for sort, found in answers.items():
        misses = [row for row in found if not row[1]]
        figures[sort if sort not in times else f"{sort} title"] = {
            **_percentiles(sorted(ms for ms, _, _ in found)),
            "found": round(sum(wanted for _, _, wanted in found) / len(found), 4),
            "misses": len(misses),
        }
    return figures


def _timed(wiki: LocalWiki, pairs: list[tuple[str, str]]) -> list[tuple[float, bool, bool]]:
    """Milliseconds, whether a page was found, and whether the title meant is what or among what was."""
    rows: list[tuple[float, bool, bool]] = []
    for query, title in pairs:
        start = time.perf_counter()
        found = wiki.find(query)
        taken = (time.perf_counter() - start) * 1000
        page = isinstance(found, Page)
        rows.append((taken, page, title == found.title if isinstance(found, Page) else title in found))
    return rows[len(rows) // 11 :]


def _percentiles(times: list[float]) -> dict[str, Any]:
    ranks = {"median_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    found = {name: round(times[int(len(times) * rank)], 3) for name, rank in ranks.items()} if times else {}
    return {"queries": len(times), **found}


def _mib(paths: Any) -> float:
    return round(sum(path.stat().st_size for path in paths) / 2**20, 1)


def _peak() -> float:
    """Peak resident memory of this process in MiB, files mapped into memory included."""
    # Linux counts ru_maxrss of a process from its parent's; VmHWM is its own.
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().split("\n") if line.startswith("VmHWM"))
        return round(int(line.split()[1]) / 1024, 1)
    scale = 2**20 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale, 1)


def measure(count: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for stage in ("generate", "build", "search"):
            command = [sys.executable, __file__, "--stage", stage, "--folder", scratch, "--pages", str(count)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures[stage] = json.loads(done.stdout)
    return figures


def rows(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The table: what, how much, and the limit where there is one."""
    built, searched = figures["build"], figures["search"]
    memory = f"under {LIMITS['memory']:.0f}"
    found = [
        ("pages", f"{built['pages']:,}", ""),
        ("build, seconds", f"{built['seconds']:,}", ""),
        ("build, pages a second", f"{built['pages_per_second']:,}", ""),
        ("pages.sqlite, MiB", f"{built['database_mib']:,}", ""),
        ("titles, MiB", f"{built['titles_mib']:,}", ""),
        ("build, peak MiB", f"{built['build_peak_mib']}", memory),
        ("search, peak MiB", f"{searched['search_peak_mib']}", memory),
    ]
    for name, limit in (("exact", "median under 1"), ("similar", "p95 under 5")):
        found.append((f"{name}, ms: median / p95 / p99", _times(searched[name]), limit))
    for sort in ("exact title", *(name for name in QUERY_SORTS if name != "exact")):
        share = f"{searched[sort]['found']:.1%} found" if sort not in ("common", "nonsense") else ""
        found.append((f"  {sort} ({searched[sort]['queries']:,})", _times(searched[sort]), share))
    return found


def _times(figures: dict[str, Any]) -> str:
    return " / ".join(f"{figures[name]:.2f}" for name in ("median_ms", "p95_ms", "p99_ms"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=5_000_000, help="how many to build from")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--stage", choices=("generate", "build", "search"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        stages = {
            "build": build,
            "search": search,
            "generate": lambda folder: generate(options.pages, folder),
        }
        print(json.dumps(stages[options.stage](options.folder)))
        return
    figures = measure(options.pages)
    print(f"| {'what':<34} | {'measured':>20} | {'limit or share':<14} |\n| --- | ---: | --- |")
    for what, value, limit in rows(figures):
        print(f"| {what:<34} | {value:>20} | {limit:<14} |")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
