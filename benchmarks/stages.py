"""Where does the time of the main job go, stage by stage, and what does an empty run cost?

    python -m benchmarks.stages [--events 10000000] [--page benchmarks/results/stages.md]

The job of benchmarks/pipeline_speed.py (Parquet, 64 keys, 1,000 ticks, a count and a sum), shuffled
without ids and with string ids of which 10 % come twice, and the same with one event: what is left
is what any run costs. Every thread is profiled by calls, in processor seconds. The time of a
function belongs to the stage of its file; what libraries spend (numpy, Arrow, AES) belongs to the
stage that called them: what a caller had of it by itself, and where a library called a library, in
the proportions in which that one was called. What runs in threads that Python does not know
(Arrow's readers) is the rest up to the processor time of the process. A profile makes Python
slower, so the shares are of a profiled run and the seconds those of a run without it, in turn. With
--page the table goes into the page, between its marks.
"""

from __future__ import annotations

import cProfile
import functools
import itertools
import pstats
import re
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Bench, main, progress, timed
from benchmarks.pipeline_speed import make_files, weir
from weir.transforms.runtime import prefetch as ahead

ROOT = Path(__file__).resolve().parents[1]
Key = tuple[str, int, str]
SHELL = "engine"

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("read and decode", ("transforms/sources", "pipelines/sources", "transforms/decode")),
    ("dedupe", ("transforms/operators/seen_ids", "transforms/operators/deduplicate",
                "transforms/operators/state_cache", "transforms/operators/hash_partition",
                "transforms/operators/timed_cells", "dpcore/leaves/hash")),
    ("filter", ("transforms/operators/filter", "transforms/columns", "dpcore/leaves/clock",
                "dpcore/leaves/keys")),
    ("noise", ("dpcore/noise", "dpcore/native")),
    ("tick", ("transforms/operators/tick", "transforms/operators/pending",
              "transforms/operators/discovered", "transforms/operators/block_cells",
              "dpcore/continual", "dpcore/program", "dpcore/discovery")),
    ("solve", ("transforms/release", "transforms/operators/solve")),
    ("write", ("transforms/sinks", "transforms/operators/write", "pipelines/sinks")),
    ("bound and sum", ("transforms/operators", "dpcore/leaves", "dpcore/aggregates")),
    (SHELL, ("transforms/runtime", "transforms/local")),
    ("plan", ("pipelines", "dpcore", "benchmarks")),
)  # fmt: skip
"""Stages by the beginnings of their files' paths: the first that fits."""
REST = "Arrow's own threads"


def stage_of(path: str) -> str | None:
    """The stage of a file; None: a library, whose callers know."""
    if "site-packages" in path:
        inside = path.rpartition("site-packages/")[2]
    else:
        inside = path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/") else ""
    inside = inside.removeprefix("weir/")  # as it is imported
    for stage, beginnings in STAGES:
        if inside.startswith(beginnings):
            return stage
    return None


def profiled(work: Callable[[], Any]) -> tuple[pstats.Stats, float]:
    """Profiles every thread that Python starts; with the processor seconds of the process."""
    profiles: list[cProfile.Profile] = []
    lock = threading.Lock()

    def begin(*_: Any) -> None:
        # The clock of this thread, whichever reads it: what a thread that waits is in the middle of
        # is closed by another one below, whose own clock would make hours of the wait.
        clock = time.pthread_getcpuclockid(threading.get_ident())
        profile = cProfile.Profile(functools.partial(time.clock_gettime, clock))
        with lock:
            profiles.append(profile)
        profile.enable()

    ahead._idle.clear()  # a thread that is there already would not be seen
    threading.setprofile(begin)
    started = time.process_time()
    begin()
    try:
        work()
    finally:
        profiles[0].disable()
        threading.setprofile(None)
    took = time.process_time() - started
    stats = pstats.Stats(profiles[0])
    for profile in profiles[1:]:
        profile.create_stats()
        if profile.getstats():
            stats.add(profile)
    return stats, took


def by_stage(stats: pstats.Stats) -> dict[str, float]:
    """Seconds of each stage; what libraries spend is handed to their callers."""
    table: dict[Key, Any] = stats.stats  # type: ignore[attr-defined]
    found: dict[str, float] = defaultdict(float)
    shares: dict[Key, dict[str, float]] = {}

    def shares_of(key: Key, above: frozenset[Key]) -> dict[str, float]:
        """In which proportions a library's function works for the stages."""
        if key in shares:
            return shares[key]
        own = stage_of(key[0])
        if own is not None:
            shares[key] = {own: 1.0}
            return shares[key]
        callers = {c: v for c, v in table[key][4].items() if c not in above and c in table}
        whole = sum(v[3] for v in callers.values())
        out: dict[str, float] = defaultdict(float)
        for caller, value in callers.items():
            weight = value[3] / whole if whole else 1 / len(callers)
            for stage, share in shares_of(caller, above | {key}).items():
                out[stage] += weight * share
        if not out:
            out[SHELL] = 1.0  # its threads begin in the standard library
        if not above:
            shares[key] = dict(out)
        return out

    for key, value in table.items():
        own, callers = stage_of(key[0]), value[4]
        left = value[2]
        if own is None:
            for caller, (_, _, alone, _) in callers.items():
                if caller in table:
                    left -= alone
                    for stage, share in shares_of(caller, frozenset()).items():
                        found[stage] += alone * share
        for stage, share in shares_of(key, frozenset()).items():
            found[stage] += left * share
    return dict(found)


def by_rounds(work: Callable[[], Any], rounds: int, label: str) -> dict[str, tuple[float, float]]:
    """Share of the processor time and seconds of each stage; "all": 1 and the run's."""
    plain, parts = [], []
    work()
    for _ in progress(range(rounds), label):
        plain.append(timed(work).cpu)
        stats, took = profiled(work)
        seconds = by_stage(stats)
        seconds[REST] = max(0.0, took - sum(seconds.values()))
        parts.append({stage: one / took for stage, one in seconds.items()})
    whole = statistics.median(plain)
    names = [*(name for name, _ in STAGES), REST]
    middle = {n: statistics.median(part.get(n, 0.0) for part in parts) for n in names}
    total = sum(middle.values())
    found = {name: (share / total, share / total * whole) for name, share in middle.items()}
    return {**found, "all": (1.0, whole)}


def table_of(runs: dict[str, dict[str, tuple[float, float]]]) -> str:
    """The page's table."""
    lines = ["| stage | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for stage in [*(name for name, _ in STAGES), REST, "all"]:
        cells = []
        for run in runs.values():
            share, seconds = run[stage]
            cells.append(f"{seconds:.2f} s" + ("" if stage == "all" else f", {share:.0%}"))
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measure(bench: Bench) -> None:
    """Prints, keeps and shows the stages; short: of 200,000 events, in one round."""
    runs: dict[str, dict[str, tuple[float, float]]] = {}
    rounds, count = (1, 200_000) if bench.short else (bench.args.rounds or 3, bench.args.events)
    with bench.folder() as folder:
        files, outs = make_files(folder, count, bench.rng()), itertools.count()
        first = next(pq.ParquetFile(files["sorted"]).iter_batches(1))
        files["one"] = folder / "one.parquet"
        pq.write_table(pa.Table.from_batches([first]), files["one"])
        names = {"shuffled": "no ids", "ids": "string ids", "one": "one event"}
        for name, title in names.items():

            def work() -> None:
                weir(files[name], folder / f"out-{next(outs)}", name == "ids")

            runs[title] = by_rounds(work, rounds, title)
            for stage, (share, seconds) in runs[title].items():
                bench.row(run=title, stage=stage, share=share, cpu_seconds=seconds)
    text = table_of(runs)
    print(text)
    if bench.args.page:
        page = bench.args.page.read_text(encoding="utf-8")
        held = re.compile(r"(<!-- stages -->\n).*?(<!-- end -->)", re.DOTALL)
        if not held.search(page):
            place = "<!-- stages --> and <!-- end -->"
            raise SystemExit(f"--page = {bench.args.page}: has no place between {place}. Add both.")
        new = held.sub(lambda m: f"{m[1]}{text}\n{m[2]}", page)
        bench.args.page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(measure, events=10_000_000, page={"type": Path})
