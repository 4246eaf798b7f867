"""All speeds as ratios, in one table; and a guard that none of them falls.

    python -m benchmarks.ratios [--run] [--short]   # from what is kept; measures, short forms too
    python -m benchmarks.ratios --guard             # short forms against what is kept of them

Writes benchmarks/RESULTS.md.

A ratio is speed over that of a peer or a bound in the same run (benchmarks/beside.py), so one table
serves all machines, within what caches and vector units change. Of short forms the least of three
runs is kept. The guard fails where one falls below two thirds of that in three runs of three: noise
of the machine does not last. Noise by AES is guarded where the processor has instructions for it.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.beside import Ratio, path_of, read, write
from weir.dpcore.native import ciphers

HERE = Path(__file__).parent
BENCHMARKS = (
    "pipeline_speed", "ndjson_speed", "decode_speed", "many_keys", "noise_speed", "online_speed",
    "regression_speed", "start", "lasso_wide",
)  # fmt: skip
"""Files that write ratios; each has ``--short``."""
BY_AES = ("noise_speed",)
FALL = 2 / 3
TRIES = 3


def run(benchmark: str, short: bool) -> list[Ratio]:
    """Measures one, in a process of its own. Products of matrices take one core, as ours do."""
    words = ["--short"] if short else []
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", f"benchmarks.{benchmark}", *words], check=True, env=alone)
    return read(benchmark, short)


def keep(benchmark: str) -> None:
    """Measures a short form three times and keeps the least."""
    found = [run(benchmark, True) for _ in range(TRIES)]
    least = [min(rows, key=lambda one: one.ratio) for rows in zip(*found, strict=True)]
    write(benchmark, least, True)


def machine() -> str:
    """Processor, cores, versions."""
    model = platform.machine()
    cpus = Path("/proc/cpuinfo")
    names = {line for line in cpus.read_text().splitlines() if line.startswith("model name")} \
        if cpus.exists() else set()  # fmt: skip
    if names:
        model = min(names).partition(":")[2].strip()
    cores = sum(line.startswith("processor") for line in cpus.read_text().splitlines()) \
        if cpus.exists() else 0  # fmt: skip
    return f"{model}, {cores} cores, Python {platform.python_version()}"


def page(rows: Sequence[tuple[str, Ratio]]) -> str:
    """benchmarks/RESULTS.md."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE
    ).stdout.strip()
    lines = [
        "# Speed, beside a bound or a peer in the same run",
        "",
        f"The last run of each benchmark, put together at {commit or 'no commit'} on {machine()};",
        "`make bench` runs all of them.",
        "A ratio is speed over that of what it stands beside, turn about, the median of rounds;",
        "more is better.",
        "`benchmarks/NAME.py` says how, and what the bound leaves out.",
        "",
        "| what | beside | ratio | goal | |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for benchmark, one in rows:
        goal, met = f"{one.goal:g}" if one.goal else "", "" if one.ratio >= one.goal else "short"
        lines.append(
            f"| {one.what} (`{benchmark}`) | {one.bound} | {one.ratio:.2f} | {goal} | {met} |"
        )
    return "\n".join(lines) + "\n"


def fallen(kept: Sequence[Ratio], found: Sequence[Ratio]) -> Iterator[str]:
    """What is below two thirds of what is kept of it, or was not measured at all."""
    now = {(one.what, one.bound): one.ratio for one in found}
    for one in kept:
        ratio = now.get((one.what, one.bound))
        if ratio is None:
            yield f"{one.what}, beside {one.bound}: not measured any more"
        elif ratio < FALL * one.ratio:
            yield f"{one.what}, beside {one.bound}: {ratio:.2f}, kept {one.ratio:.2f}"


def guard(benchmark: str) -> list[str]:
    """Faults of one benchmark's short form; its file is left as it was."""
    path = path_of(benchmark, True)
    before, kept = path.read_bytes(), read(benchmark, True)
    best: dict[tuple[str, str], Ratio] = {}
    faults: list[str] = []
    try:
        for _ in range(TRIES):
            for one in run(benchmark, True):
                so_far = best.get((one.what, one.bound))
                if so_far is None or one.ratio > so_far.ratio:
                    best[one.what, one.bound] = one
            faults = list(fallen(kept, list(best.values())))
            if not faults:
                break
    finally:
        path.write_bytes(before)
    return faults


def main() -> None:
    """Writes the page, or guards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="measure first")
    parser.add_argument("--short", action="store_true", help="measure what the guard holds")
    parser.add_argument("--guard", action="store_true", help="short forms against what is kept")
    parser.add_argument("--only", nargs="*", choices=BENCHMARKS, default=BENCHMARKS)
    args = parser.parse_args()
    if args.guard:
        kept = [name for name in args.only if path_of(name, True).exists()]
        if ciphers is None:
            kept = [name for name in kept if name not in BY_AES]
            print(f"no instructions for AES, or no kernels: {', '.join(BY_AES)} left out")
        faults = [f"{name}: {fault}" for name in kept for fault in guard(name)]
        if faults:
            raise SystemExit("ratios fell by more than a third:\n" + "\n".join(faults))
        print(f"{len(kept)} benchmarks: no ratio fell by more than a third")
        return
    for name in args.only:
        if args.run:
            run(name, False)
        if args.short:
            keep(name)
    rows = [(name, one) for name in BENCHMARKS for one in read(name, False)]
    (HERE / "RESULTS.md").write_text(page(rows), encoding="utf-8")
    print(f"{HERE / 'RESULTS.md'}: {len(rows)} ratios")


if __name__ == "__main__":
    main()
