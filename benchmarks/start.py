"""What does a command cost before it has done anything? Beside importing Beam, in the same run.

    python -m benchmarks.start [--short]

``weir plan`` and ``weir run`` of the demo's config (its events, 69,659 purchases at a CD shop, are
those that ``make demo`` fetches), each in a process of its own, turn about with one that imports
Beam and ends. Processor seconds of the processes: clocks of busy machines tell nothing of starts.
The plan's bound is 0.8 s on a machine that imports Beam in one; so 0.8 of the import. The run's is
the import and one second. Writes benchmarks/results/start.ratios.csv.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.beside import Ratio, write
from examples.shop import data

ROOT = Path(__file__).resolve().parents[1]
SHOP = ROOT / "examples" / "shop" / "shop.yaml"
IMPORT = ["-c", "import apache_beam"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Compiling what an installation has compiled is no part of a start."""


def seconds(words: Sequence[str], folder: Path) -> float:
    """Processor seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        check=True,
        cwd=folder,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> None:
    """Prints and writes ratios: bound over ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="three rounds in place of seven")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="weir-start-"))
    taken: dict[str, list[float]] = {"import": [], "plan": [], "run": []}
    try:
        shutil.copy(SHOP, folder)
        data.write_csv(data.fetch(ROOT / ".cache"), folder / "purchases.csv")
        for turn in range((3 if args.short else 7) + 1):
            shutil.rmtree(folder / "out", ignore_errors=True)
            found = {
                "import": seconds(IMPORT, folder),
                "plan": seconds(["-m", "weir", "plan", SHOP.name], folder),
                "run": seconds(["-m", "weir", "run", SHOP.name], folder),
            }
            for what, took in found.items():
                if turn:  # the first fills caches
                    taken[what].append(took)
    finally:
        shutil.rmtree(folder)
    for what, rounds in taken.items():
        print(f"{what:8} {statistics.median(rounds):.2f} s of processors")
    pairs = list(zip(taken["import"], taken["plan"], taken["run"], strict=True))
    plan = statistics.median(imported / own for imported, own, _ in pairs)
    run = statistics.median((imported + 1) / own for imported, _, own in pairs)
    rows = [
        Ratio("`weir plan` of the demo", "`import apache_beam`", plan, 1.25),
        Ratio("`weir run` of the demo", "`import apache_beam` and one second", run, 1.0),
    ]
    write("start", rows, args.short)


if __name__ == "__main__":
    main()
