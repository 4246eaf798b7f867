"""How well, how fast and how far off are counts of a million keys that nobody declared?

    python -m benchmarks.dp_sqlp [--scale 0.01] [--ticks 100 1000] [--reading clipped whole]
                                 [--way "once a key" ...] [--seed 42] [--seeds 10]
                                 [--untimed] [--folder DIR] [--results DIR]

The public benchmark of DP-SQLP (published.py): 10 million people, a million keys that have to be
found in private, at most 32 events of a user, epsilon = 6 and delta = 1e-9 for all that a user
does, 100 or 1,000 ticks. Errors are those of the last tick over all keys, released or not. Weir
runs as ``weir run`` in a process of its own; next to it in the same run the published mechanism,
made again (peer.py), and two bounds on the time (bound.py): numpy draws the noise and Arrow writes
the releases, nothing else; and events are read and sorted before. Times are by the clock and of
processors: a machine that others use too stretches the first.

Writes benchmarks/results/dp_sqlp.csv, with a line a seed, and .md: of several seeds the
mean of each error, and the median of times and memory. --untimed writes none of these, on a machine
that does something else as well. Lines of earlier runs stay until they are run again. Short: one
draw of 1 % of the users, 100 ticks, one way of counting; nothing is written.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.dp_sqlp import bound, data, ours, results
from benchmarks.dp_sqlp.peer import dp_sqlp
from benchmarks.dp_sqlp.published import CAP, TICKS
from benchmarks.harness import Bench, main, progress

WAYS = tuple(ours.WAYS)


def measure(bench: Bench) -> None:
    """Runs all that is asked for, and writes after each run what is known by then."""
    args = bench.args
    if bench.short:
        args.scale, args.ticks, args.reading, args.way = 0.01, TICKS[:1], ("clipped",), WAYS[2:]
        args.runs, args.seeds = 1, 1
    for seed in range(args.seed, args.seed + args.seeds):
        for reading in args.reading:
            with tempfile.TemporaryDirectory(prefix="weir-dp-sqlp-", dir=args.folder) as folder:
                _run(data.Setting(reading, args.scale, seed), args, Path(folder))


def _run(setting: data.Setting, args: argparse.Namespace, folder: Path) -> None:
    """All that is asked for on one draw of events."""
    reading, seed = setting.reading, setting.seed

    def note(ticks: int, who: str, *found: float) -> None:
        row = results.Row(
            args.scale, reading, ticks, who, seed, *found[: 4 if args.untimed else None]
        )
        if not args.short:
            results.write(results.merged(results.read(args.results), row), args.results)
        print("  ".join(results.shown([row])), flush=True)

    drawn = data.events(setting)
    truth = data.counted(setting, drawn)
    print(f"{reading}, seed {seed}: {len(drawn.user):,} events, l_inf {truth.max():,}, "
          f"l2 {np.sqrt((truth.astype(float) ** 2).sum()):,.0f}", flush=True)  # fmt: skip
    if not args.no_peer:
        inside = data.kept(drawn)
        bounded = data.Events(*(column[inside] for column in drawn))
        pairs = data.firsts(setting, bounded)
        for ticks in args.ticks:
            began = time.perf_counter()
            some = bounded.key, bounded.minute
            runs = progress(range(args.runs), "DP-SQLP")
            found = [dp_sqlp(setting, ticks, truth, pairs, some, seed + run) for run in runs]
            took = (time.perf_counter() - began) / args.runs
            note(ticks, "DP-SQLP, made again", *np.mean(found, axis=0).tolist(), took)
        del inside, bounded, pairs
    if not args.way:
        return
    file = folder / "events.parquet"
    data.write(drawn, file, seed)
    del drawn
    for ticks in args.ticks:
        for name in args.way:
            weir = ours.run(ours.WAYS[name], file, folder, ticks, truth)
            shutil.rmtree(folder / "out")
            touched = int((truth > 0).sum())
            least = bound.noise(folder / "bound.parquet", touched, ticks, weir.rows)
            read = bound.events(file, CAP)
            note(ticks, f"Weir, {name}", *weir.errors, weir.seconds.wall, weir.gigabytes,
                 least.wall, weir.seconds.cpu, least.cpu,
                 least.cpu + read.cpu)  # fmt: skip


if __name__ == "__main__":
    main(
        measure,
        scale=1.0,
        ticks={"type": int, "nargs": "+", "choices": TICKS, "default": TICKS},
        reading={"nargs": "+", "choices": data.READINGS, "default": data.READINGS},
        way={"nargs": "*", "choices": WAYS, "default": WAYS},
        no_peer={"action": "store_true"},
        runs={"type": int, "default": 5, "help": "of the peer, which are averaged"},
        seed=42,
        seeds={"type": int, "default": 1, "help": "so many draws of events, from --seed on"},
        untimed={"action": "store_true", "help": "errors alone are written"},
        folder={"type": Path, "help": "for events and releases; needs 15 GB"},
    )
