"""How a speed is told: as a ratio to a peer or a bound in the same run, turn about.

Seconds do not travel from one machine to another, nor from one hour to the next; what two programs
take one after the other does. Each round times the bound, then ours; the ratio is the median of the
rounds' ratios, by the clock, where more is better: 1 is the bound itself.
"""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("what", "bound", "ratio", "goal")


class Took(NamedTuple):
    """Seconds on the clock, and seconds of all cores."""

    wall: float
    cpu: float


class Ratio(NamedTuple):
    """A row of the table.

    Attributes:
      what: what was timed. bound: what it stands beside. ratio: speed over the bound's. goal: what
        it should reach; 0: none was set.
    """

    what: str
    bound: str
    ratio: float
    goal: float


def timed(work: Callable[[], Any]) -> Took:
    """Runs it once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def beside(
    ours: Callable[[], Any], bound: Callable[[], Any], rounds: int = 5
) -> tuple[float, Took, Took]:
    """Both, turn about, after a round that warms up.

    Returns:
      The median ratio bound / ours of seconds on the clock, and the median rounds of ours and of
      the bound.
    """
    pairs = [(timed(bound), timed(ours)) for _ in range(rounds + 1)][1:]
    ratio = statistics.median(theirs.wall / own.wall for theirs, own in pairs)
    bounds, owns = sorted(b for b, _ in pairs), sorted(o for _, o in pairs)
    return ratio, owns[rounds // 2], bounds[rounds // 2]


def path_of(benchmark: str, short: bool) -> Path:
    """Where a benchmark's ratios lie."""
    return RESULTS / f"{benchmark}{'.short' if short else ''}.ratios.csv"


def write(benchmark: str, rows: Sequence[Ratio], short: bool) -> None:
    """Prints the ratios and keeps them. benchmark: the name of its file, without ``.py``."""
    RESULTS.mkdir(exist_ok=True)
    with open(path_of(benchmark, short), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((one.what, one.bound, f"{one.ratio:.3f}", one.goal) for one in rows)
    for one in rows:
        print(f"{one.ratio:7.2f} of {one.bound}, goal {one.goal:g}: {one.what}", flush=True)


def read(benchmark: str, short: bool) -> list[Ratio]:
    """What ``write`` kept; none where it did not run."""
    path = path_of(benchmark, short)
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [
            Ratio(row["what"], row["bound"], float(row["ratio"]), float(row["goal"]))
            for row in csv.DictReader(file)
        ]
