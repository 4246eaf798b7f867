"""What all benchmarks share: options, rounds next to a peer, tables, and the guard of their ratios.

    python -m benchmarks.NAME [--short]              # one benchmark; --help lists its options
    python -m benchmarks [--run] [--short]           # the table of all ratios; measures first
    python -m benchmarks --guard                     # short forms, compared with what is stored

Absolute times are not portable, neither to another machine nor to another hour. A speed is a ratio
to a peer or a bound in the same run: each round times the peer, then ours, and the ratio is the
median over rounds of peer / ours, where more is better and 1 is the peer itself.

A benchmark writes figures to ``results/NAME.csv`` and ratios to ``NAME.ratios.csv``; its short form
writes ``NAME.short.ratios.csv`` alone, the least of three runs. The guard fails where a ratio is
below two thirds of that in three runs of three; of keyed noise where there are AES instructions.
What registers of the processor decide is stored for wide ones and for others (``short.narrow``).
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from weir.dpcore.native import ciphers

HERE, RESULTS = Path(__file__).parent, Path(__file__).parent / "results"
GUARDED = (
    "pipeline_speed", "ndjson_speed", "decode_speed", "many_keys", "noise_speed", "online_speed",
    "regression_speed", "start", "lasso_wide",
)  # fmt: skip
"""Benchmarks with ratios, in the order of the table."""
OTHERS = (
    "group_by", "kafka_speed", "stages", "learners", "scale_model", "stream_throughput",
    "stream_delay", "stream_soak", "stream_resume", "plain_count", "estimates",
)  # fmt: skip
"""Benchmarks that need what CI has not, or whose figures are absolute, or errors."""
BY_AES = ("noise_speed",)
BY_WIDTH = ("noise_speed", "online_speed")
"""Benchmarks whose kernels gain more from registers of eight doubles (AVX-512) than their peers:
short ratios are stored for processors with and without them."""
CPUS = Path("/proc/cpuinfo")
WIDE = CPUS.exists() and " avx512f " in CPUS.read_text()
FALL, TRIES = 2 / 3, 3
T = TypeVar("T")


class Took(NamedTuple):
    """Seconds on the clock, and processor seconds of all threads."""

    wall: float
    cpu: float


class Ratio(NamedTuple):
    """A row of the table.

    Attributes:
      what: what was timed. bound: what it is compared with. ratio: speed over the bound's.
      goal: what it should reach; 0: none was set.
      spread: half of the interquartile range over rounds, as a share of the ratio.
    """

    what: str
    bound: str
    ratio: float
    goal: float
    spread: float = 0.0


class Compared(NamedTuple):
    """Medians of ours and of the peer."""

    ours: Took
    peer: Took


def timed(work: Callable[[], Any]) -> Took:
    """Runs it once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(
    works: Mapping[str, Callable[[], Any]], rounds: int, label: str = "rounds"
) -> dict[str, list[Took]]:
    """Runs each in turn, round by round, after a round that warms up: name -> a time a round."""
    turns = progress(range(rounds + 1), label)
    found = [{name: timed(work) for name, work in works.items()} for _ in turns][1:]
    return {name: [one[name] for one in found] for name in works}


def median(found: Sequence[Took]) -> Took:
    """Of each kind of seconds."""
    return Took(*np.median(found, axis=0).tolist())


def rate(
    work: Callable[[], Any], amount: float, seconds: float = 0.5, rounds: int = 3, cpu: bool = False
) -> float:
    """How much is done a second: the best of some rounds of at least ``seconds`` each.

    Args:
      work: does ``amount`` a call. cpu: by processor seconds, in place of the clock.
    """
    clock = time.process_time if cpu else time.perf_counter
    work()
    best = 0.0
    for _ in range(rounds):
        calls, began = 0, clock()
        while (passed := clock() - began) < seconds:
            work()
            calls += 1
        best = max(best, calls * amount / passed)
    return best


def ratio_of(ours: Sequence[float], peer: Sequence[float]) -> tuple[float, float]:
    """The median over rounds of peer / ours, and its spread."""
    low, middle, high = np.quantile(np.divide(peer, ours), (0.25, 0.5, 0.75)).tolist()
    return middle, (high - low) / 2 / middle


def noise_of_machine(rounds: int = 10) -> str:
    """What a ratio of the same work to itself spreads, in a sentence."""
    values = np.random.default_rng(0).random(1 << 18)
    works = {name: lambda: np.sort(values) for name in ("one", "other")}
    found = interleaved(works, rounds, "noise of the machine")
    _, spread = ratio_of(*([took.wall for took in found[name]] for name in works))
    return f"noise of the machine: a ratio of the same work to itself spreads by {spread:.0%}"


def progress(items: Iterable[T], label: str) -> Iterator[T]:
    """The items, with a progress bar on a terminal."""
    console = Console(stderr=True)
    yield from track(items, label, console=console, disable=not console.is_terminal, transient=True)


def process_memory(process: int) -> int:
    """Bytes that a process and its descendants hold; 0 where it is gone, or /proc is not there."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(process_memory(int(c)) for c in children)


def process_seconds(process: int) -> float:
    """Processor seconds of a process, its descendants, and those that ended under them."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = [
            child
            for thread in Path(f"/proc/{process}/task").iterdir()  # whichever started it
            for child in (thread / "children").read_text().split()
        ]
    except OSError:
        return 0.0
    own = sum(int(ticks) for ticks in stat[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(process_seconds(int(child)) for child in children)


class Bench:
    """One run of a benchmark: its options, its figures and its ratios.

    Attributes:
      name: of its file. args: all options. short: whether it is the short form.
      keys: columns that say what a stored row is of; rows of other values stay. Empty: none stays.
    """

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name, self.args, self.short = name, args, bool(args.short)
        self.keys: tuple[str, ...] = ()
        self._ratios: list[Ratio] = []
        self._tables: dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]] = {}

    @property
    def rounds(self) -> int:
        """Of each comparison: 5, or 3 in the short form, where none was given."""
        return int(self.args.rounds or (3 if self.short else 5))

    def rng(self, stream: int = 0) -> np.random.Generator:
        """A generator of the run's seed; streams of other numbers are independent."""
        return np.random.default_rng([self.args.seed, stream])

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A temporary folder."""
        with tempfile.TemporaryDirectory(prefix=f"weir-{self.name}-") as name:
            yield Path(name)

    def compare(
        self,
        what: str,
        bound: str,
        ours: Callable[[], Any],
        peer: Callable[[], Any],
        goal: float = 0.0,
    ) -> Compared:
        """Times both in turn and notes the ratio by the clock."""
        found = interleaved({"peer": peer, "ours": ours}, self.rounds, what)
        ours_, peer_ = ([one.wall for one in found[who]] for who in ("ours", "peer"))
        self.note(what, bound, ours_, peer_, goal)
        return Compared(median(found["ours"]), median(found["peer"]))

    def note(
        self, what: str, bound: str, ours: Sequence[float], peer: Sequence[float], goal: float = 0.0
    ) -> None:
        """Notes a ratio of seconds of rounds."""
        middle, spread = ratio_of(ours, peer)
        self._ratios.append(Ratio(what, bound, middle, goal, spread))
        print(f"{middle:7.2f} (spread {spread:.0%}) of {bound}, goal {goal:g}: {what}", flush=True)

    def row(self, table: str = "", **cells: Any) -> None:
        """Prints a line of figures; but for short forms, writes it to ``NAME.csv`` at once.

        Args:
          table: more of the file's name, where a benchmark has several.
        """
        row = {name: figure(value) for name, value in cells.items()}
        print("  ".join(f"{name}: {value}" for name, value in row.items()), flush=True)
        if self.short:
            return
        path = self.args.results / f"{self.name}{table}.csv"
        old, new = self._tables.setdefault(table, (list(rows_of(path)) if self.keys else [], []))
        old[:] = [one for one in old if any(one.get(key) != row[key] for key in self.keys)]
        new.append(row)
        write_rows(path, [*old, *new])

    def finish(self) -> None:
        """Writes the ratios, and prints how noisy the machine is."""
        if self._ratios:
            path = path_of(self.name, self.short, self.args.results)
            write_rows(path, [row._asdict() for row in self._ratios])
            print(noise_of_machine())


def figure(value: Any) -> str:
    """A number with four digits at least; None is empty."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file; none where it is missing."""
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as CSV; columns are all that a row has, in the order in which they first come."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: figure(value) for name, value in row.items()} for row in rows)


def path_of(benchmark: str, short: bool, results: Path) -> Path:
    """File of a benchmark's ratios: short ones of this kind of processor."""
    form = "" if not short else ".short.narrow" if benchmark in BY_WIDTH and not WIDE else ".short"
    return results / f"{benchmark}{form}.ratios.csv"


def read_ratios(benchmark: str, short: bool, results: Path) -> list[Ratio]:
    """Stored ratios of a benchmark; none where it did not run."""
    return [
        Ratio(row["what"], row["bound"], *(float(row.get(k) or 0) for k in Ratio._fields[2:]))
        for row in rows_of(path_of(benchmark, short, results))
    ]


def main(measure: Callable[[Bench], None], /, **options: Any) -> None:
    """Runs one benchmark from the command line.

    Args:
      measure: the question; its module's docstring is the help.
      options: name -> default, or a dictionary for ``ArgumentParser.add_argument``; ``seed`` is
        the default of the option that all have.
    """
    module = sys.modules[measure.__module__]
    name = str(module.__spec__.name if module.__spec__ else module.__name__)
    name = name.removeprefix("benchmarks.").removesuffix(".__main__")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=options.pop("seed", 1), help="of the data")
    for option, default in options.items():
        given = (
            default if isinstance(default, dict) else {"default": default, "type": type(default)}
        )
        parser.add_argument(f"--{option.replace('_', '-')}", **given)
    parser.add_argument("--short", action="store_true", help="the shortest form; ratios alone")
    parser.add_argument("--rounds", type=int, help="of each comparison")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of what is written")
    bench = Bench(name, parser.parse_args())
    measure(bench)
    bench.finish()


def run(benchmark: str, short: bool, results: Path | None = None) -> list[Ratio]:
    """Measures one in a process of its own. Products of matrices take one core, as ours do."""
    results = RESULTS if results is None else results
    words = [sys.executable, "-m", f"benchmarks.{benchmark}", "--results", str(results)]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([*words, *(["--short"] if short else [])], check=True, env=alone)
    return read_ratios(benchmark, short, results)


def keep(benchmark: str) -> None:
    """Measures a short form three times and stores the least."""
    found = [run(benchmark, True) for _ in range(TRIES)]
    least = [min(rows, key=lambda row: row.ratio) for rows in zip(*found, strict=True)]
    write_rows(path_of(benchmark, True, RESULTS), [row._asdict() for row in least])


def fallen(stored: Sequence[Ratio], found: Sequence[Ratio]) -> Iterator[str]:
    """What is below two thirds of what is stored of it, or was not measured at all."""
    now = {(row.what, row.bound): row.ratio for row in found}
    for row in stored:
        ratio = now.get((row.what, row.bound))
        if ratio is None:
            yield f"{row.what}, compared with {row.bound}: not measured any more"
        elif ratio < FALL * row.ratio:
            yield f"{row.what}, compared with {row.bound}: {ratio:.2f}, stored {row.ratio:.2f}"


def guard(benchmark: str) -> list[str]:
    """Faults of one benchmark's short form; what is stored stays."""
    best: dict[tuple[str, str], Ratio] = {}
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="weir-guard-") as folder:
        for _ in range(TRIES):
            for row in run(benchmark, True, Path(folder)):
                place = row.what, row.bound
                best[place] = max(best.get(place, row), row, key=lambda one: one.ratio)
            faults = list(fallen(read_ratios(benchmark, True, RESULTS), list(best.values())))
            if not faults:
                break
    return faults


def machine() -> str:
    """Processor, cores, versions."""
    found = re.search(r"model name\s*: (.*)", CPUS.read_text()) if CPUS.exists() else None
    model = found[1] if found else platform.machine()
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def page(rows: Sequence[tuple[str, Ratio]]) -> str:
    """benchmarks/RESULTS.md."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE
    ).stdout.strip()
    lines = [
        "# Speed, compared with a bound or a peer in the same run",
        "",
        f"The last run of each benchmark, put together at {commit or 'no commit'} on {machine()};",
        "rows of earlier runs may be of other machines. `make bench` runs all of them. A ratio is",
        "speed over that of the peer, interleaved, the median of rounds; more is better.",
        "`benchmarks/NAME.py` says what the bound leaves out.",
        "",
        "| what | compared with | ratio | goal | |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows:
        goal, met = f"{row.goal:g}" if row.goal else "", "" if row.ratio >= row.goal else "short"
        lines.append(f"| {row.what} (`{name}`) | {row.bound} | {row.ratio:.2f} | {goal} | {met} |")
    return "\n".join(lines) + "\n"


def table() -> None:
    """``python -m benchmarks``: measures where asked, then writes the page, or guards."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--run", action="store_true", help="measure in full first")
    parser.add_argument("--short", action="store_true", help="measure what the guard compares with")
    parser.add_argument(
        "--guard", action="store_true", help="compare short forms with what is stored"
    )
    parser.add_argument("--only", nargs="*", choices=(*GUARDED, *OTHERS), help="these alone")
    args = parser.parse_args()
    chosen = [name for name in GUARDED if not args.only or name in args.only]
    if args.guard:
        stored = [name for name in chosen if path_of(name, True, RESULTS).exists()]
        if ciphers is None:
            stored = [name for name in stored if name not in BY_AES]
            print(f"no instructions for AES, or no kernels: {', '.join(BY_AES)} left out")
        faults = [f"{name}: {fault}" for name in stored for fault in guard(name)]
        if faults:
            words = ["ratios fell by more than a third:", *faults, noise_of_machine()]
            raise SystemExit("\n".join(words))
        print(f"{len(stored)} benchmarks: no ratio fell by more than a third")
        return
    for name in chosen:
        if args.run:
            run(name, False)
        if args.short:
            keep(name)
    for name in OTHERS:
        if args.run and (not args.only or name in args.only):
            run(name, False)
    named = (*GUARDED, *OTHERS)
    rows = [(name, row) for name in named for row in read_ratios(name, False, RESULTS)]
    (HERE / "RESULTS.md").write_text(page(rows), encoding="utf-8")
    print(f"{HERE / 'RESULTS.md'}: {len(rows)} ratios")
