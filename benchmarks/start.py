"""What does a command cost before it has done anything, compared with importing Beam?

``weir plan`` and ``weir run`` of the demo's config (its events, 69,659 purchases at a CD shop, are
those that ``make demo`` fetches), each in a process of its own, in turn with one that imports Beam
and ends. Processor seconds of the processes: the clock of a busy machine says nothing of starts.
The plan's bound is 0.8 s on a machine that imports Beam in one, so 0.8 of the import. The run's is
the import and one second.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Bench, main, progress
from examples.shop import data

ROOT = Path(__file__).resolve().parents[1]
SHOP = ROOT / "examples" / "shop" / "shop.yaml"
WORDS = {
    "import": ["-c", "import apache_beam"],
    "plan": ["-m", "weir", "plan", SHOP.name],
    "run": ["-m", "weir", "run", SHOP.name],
}
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


def measure(bench: Bench) -> None:
    """The three in turn; the first round fills caches."""
    taken: dict[str, list[float]] = {name: [] for name in WORDS}
    with bench.folder() as folder:
        shutil.copy(SHOP, folder)
        data.write_csv(data.fetch(ROOT / ".cache"), folder / "purchases.csv")
        for turn in progress(range(bench.rounds + 1), "starts"):
            shutil.rmtree(folder / "out", ignore_errors=True)
            for name, words in WORDS.items():
                took = seconds(words, folder)
                if turn:
                    taken[name].append(took)
    bound = taken["import"]
    bench.note("`weir plan` of the demo", "`import apache_beam`", taken["plan"], bound, 1.25)
    later = [one + 1 for one in bound]
    bench.note(
        "`weir run` of the demo", "`import apache_beam` and one second", taken["run"], later, 1.0
    )


if __name__ == "__main__":
    main(measure)
