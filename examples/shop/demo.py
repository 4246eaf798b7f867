"""``make demo``: private releases from real purchases as a user would make them, beside the truth.

The truth is shown here only, because these purchases are public. No other command can show it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dpcore.errors import WeirError
from examples.shop import data
from examples.shop import truth as demo_truth
from pipelines.report import words
from pipelines.results.run import Run
from pipelines.terminal import console

CONFIG = Path("examples/shop/shop.yaml")
CACHE = Path(".cache")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo in the folder of the project. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args(arguments)
    out = console()
    try:
        return demo(options.config, options.cache, out)
    except WeirError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def demo(config: Path, cache: Path, out: Console) -> int:
    """Fetches, plans, runs, draws, and compares with the truth.

    Raises:
      WeirError: something is missing that the demo cannot make.
    """
    began = time.monotonic()
    if not config.exists():
        raise WeirError(f"{config} is missing; run the demo in the folder of the project.")
    folder = config.parent
    out.print(Text("1. Events: real purchases at a CD shop, 1997-01-01 to 1998-06-30", "bold"))
    content = data.fetch(cache)
    count = data.write_csv(content, folder / "purchases.csv")
    out.print(f"   {count:,} purchases in {folder / 'purchases.csv'}")
    results = folder / "out"
    if forget(results):
        out.print(f"   The releases of the last demo in {results} are removed.")
    steps = (
        ("2. The promise, before any data are read", ["plan", str(config)]),
        ("3. The releases", ["run", str(config)]),
        ("4. The report", ["report", str(results)]),
    )
    for title, command in steps:
        out.print()
        out.print(Text(title, "bold"), Text(f"   $ weir {' '.join(command)}", "dim"), sep="\n")
        code = weir(command)
        if code:
            return code
    run = Run.open(results)
    truth = demo_truth.Truth(data.purchases(content))
    out.print()
    out.print(Text("5. How close the releases are", "bold"))
    out.print(
        "   True values are shown in this demo only, because these purchases are public.\n"
        "   all: since the start; last 7: the last 7 days; values with their 95 % band."
    )
    out.print(demo_truth.table(run, truth))
    inside, bands = demo_truth.coverage(run, truth)
    out.print(
        f"   Over all {run.last_tick + 1} days {inside / max(bands, 1):.1%} of {bands:,} bands "
        "hold\n   the true value within the clip; 95 % is what they are made for."
    )
    out.print(
        f"   The clip at {demo_truth.CLIP:.0f} dollars moved {truth.clipped_share:.1%} of all "
        "dollars out of the sum; no band covers that."
    )
    out.print()
    out.print(Text("What it cost", "bold"), *cost(run), sep="\n")
    out.print()
    out.print(Text("Look at", "bold"))
    for name in ("report.png", "report.html"):
        out.print(f"   {results / name}", soft_wrap=True)
    out.print(f"   ({time.monotonic() - began:.0f} s in all)")
    return 0


def weir(command: Sequence[str]) -> int:
    """One command of ours in a process of its own, on this terminal."""
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", "weir", *command], check=False).returncode


def forget(results: Path, name: str = "shop") -> bool:
    """Removes what an earlier demo released; nothing else."""
    plan = results / "_plan.json"
    if not results.exists():
        return False
    if not plan.exists() or json.loads(plan.read_text()).get("name") != name:
        raise WeirError(f"{results} holds something that is not the demo's; move it away.")
    shutil.rmtree(results)
    return True


def cost(run: Run, event: str = "purchase") -> list[str]:
    """What one event has spent, in sentences."""
    epsilon, delta, window = run.promise
    against = (
        "everything ever released"
        if window is None
        else f"everything released within {words.duration(run, window)} of it"
    )
    lines = [
        f"   epsilon = {words.short(epsilon)}, delta = {words.short(delta)} for any "
        f"one {event}, against\n   {against}."
    ]
    for within, more, _ in words.expiration(run)[1:]:
        lines.append(f"   epsilon = {more} against everything released within {within}.")
    return lines


if __name__ == "__main__":
    sys.exit(main())
