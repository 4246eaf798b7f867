"""``make demo``: private releases from real purchases as a user would make them, next to the truth.

Customers are protected, with all that they buy in a quarter; next to that stands what it costs: the
same figures with the weaker guarantee that protects single purchases.

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

from examples.shop import data
from examples.shop import truth as demo_truth
from weir.dpcore.errors import WeirError
from weir.pipelines.report import words
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.terminal import console

CONFIG = Path("examples/shop/customers.yaml")
BESIDE = Path("examples/shop/shop.yaml")
PICTURE = "compared.png"
CACHE = Path(".cache")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo in the folder of the project. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--beside", type=Path, default=BESIDE)
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args(arguments)
    out = console()
    try:
        return demo(options.config, options.beside, options.cache, out)
    except WeirError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def demo(config: Path, beside: Path, cache: Path, out: Console) -> int:
    """Fetches, plans, runs, draws, and compares with the truth and with a weaker guarantee.

    Args:
      config: protects customers. next to: the same figures with purchases protected.
      cache: where the events are fetched to.
      out: the terminal.

    Raises:
      WeirError: something is missing that the demo cannot make.
    """
    began = time.monotonic()
    for file in (config, beside):
        if not file.exists():
            raise WeirError(f"{file} is missing; run the demo in the folder of the project.")
    folder = config.parent
    out.print(Text("1. Events: real purchases at a CD shop, 1997-01-01 to 1998-06-30", "bold"))
    content = data.fetch(cache)
    count = data.write_csv(content, folder / "purchases.csv")
    events = data.purchases(content)
    people = len(set(events.customer.tolist()))
    out.print(f"   {count:,} purchases by {people:,} customers in {folder / 'purchases.csv'}")
    results, others = folder / "out-customers", folder / "out"
    for found, name in ((results, "customers"), (others, "shop")):
        if forget(found, name):
            out.print(f"   The releases of the last demo in {found} are removed.")
    steps = (
        ("2. The guarantee to customers, before any data are read", ["plan", str(config)]),
        ("3. The releases", ["run", str(config)]),
        ("4. The report", ["report", str(results)]),
    )
    for title, command in steps:
        out.print()
        out.print(Text(title, "bold"), Text(f"   $ weir {' '.join(command)}", "dim"), sep="\n")
        code = weir(command)
        if code:
            return code
    out.print()
    out.print(Text("5. The same figures with purchases protected, not customers", "bold"))
    command = ["run", str(beside)]
    out.print(Text(f"   $ weir {' '.join(command)} > /dev/null", "dim"))
    code = weir(command, silent=True)
    if code:
        return code
    customers, purchases = ResultFolder.open(results), ResultFolder.open(others)
    out.print()
    out.print(Text("6. How close the releases are, and what it costs to protect customers", "bold"))
    picture = compare(purchases, customers, events, out)
    out.print()
    out.print(Text("What it cost", "bold"), *cost(purchases), sep="\n")
    theirs = "customer's purchases of a quarter"
    out.print(*cost(customers, theirs, "the quarter's end"), sep="\n")
    out.print()
    out.print(Text("Look at", "bold"))
    for path in (picture, results / "report.png", results / "report.html"):
        out.print(f"   {path}", soft_wrap=True)
    out.print(f"   ({time.monotonic() - began:.0f} s in all)")
    return 0


def compare(
    purchases: ResultFolder, customers: ResultFolder, events: data.Purchases, out: Console
) -> Path:
    """Prints the table of both guarantees next to the truth, and draws the picture."""
    from examples.shop import plot  # needs libraries that take a second to import

    truth, capped = demo_truth.Truth(events), demo_truth.Truth(events, capped=True)
    out.print(
        "   True values are shown in this demo only, because these purchases are public.\n"
        "   all: since the start; last 28: the last 28 days; values with their 95 % margin."
    )
    out.print(demo_truth.table(purchases, customers, truth, capped))
    for run, true, bounds in (
        (purchases, truth, "the clip"),
        (customers, capped, "clip and contribution bounds"),
    ):
        inside, bands = demo_truth.coverage(run, true)
        out.print(
            f"   {run.name}: over all {run.last_tick + 1} days {inside / max(bands, 1):.1%} of "
            f"{bands:,} margins hold the true value within {bounds}."
        )
    out.print(
        "   95 % is what margins are made for. No margin of error covers what is left out: the "
        "clip at "
        f"{demo_truth.CLIP:.0f} dollars moved\n   {truth.clipped_share:.1%} of all dollars out "
        f"of the sum, the contribution bounds {capped.capped_share:.1%} of all purchases."
    )
    return plot.draw(purchases, customers, truth, customers.directory.parent / PICTURE)


def weir(command: Sequence[str], silent: bool = False) -> int:
    """One command of ours in a process of its own, on this terminal; silent: only its errors."""
    sys.stdout.flush()
    words = [sys.executable, "-m", "weir", *command]
    stdout = subprocess.DEVNULL if silent else None
    return subprocess.run(words, check=False, stdout=stdout).returncode


def forget(results: Path, name: str = "shop") -> bool:
    """Removes what an earlier demo released; nothing else."""
    plan = results / "_plan.json"
    if not results.exists():
        return False
    if not plan.exists() or json.loads(plan.read_text()).get("name") != name:
        raise WeirError(f"{results} holds something that is not the demo's; move it away.")
    shutil.rmtree(results)
    return True


def cost(run: ResultFolder, event: str = "purchase", since: str = "it") -> list[str]:
    """What one event has spent, in sentences.

    Args:
      run: what was released. event: what is protected. since: from when on the window counts.
    """
    epsilon, delta, window = run.promise
    against = (
        "everything ever released"
        if window is None
        else f"everything released within {words.duration(run, window)} of {since}"
    )
    lines = [
        f"   epsilon = {words.short(epsilon)}, delta = {words.short(delta)} for any "
        f"one {event}, against\n   {against}."
    ]
    for within, more, _ in words.expiration(run)[1:]:
        lines.append(f"   epsilon = {more} against everything released within {within}.")
    always = words.every_period(run)
    if always is not None:
        lines.append(f"   {always[0]} has epsilon = {always[1]}.")
    return lines


if __name__ == "__main__":
    sys.exit(main())
