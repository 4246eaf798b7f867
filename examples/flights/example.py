"""``make flights``: private models that forecast the delay of flights, next to models without
noise.

The truth and what is not private are shown here only, because these flights are public.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.flights import data
from examples.flights.data import CARRIERS, Flights
from examples.shop.demo import CACHE, cost, forget, weir
from weir.dpcore.errors import WeirError
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.terminal import console

Floats = NDArray[np.float64]

CONFIG = Path("examples/flights/flights.yaml")
PICTURE = "flights.png"
SETTLED = 90 * 24


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the example in the folder of the project. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make flights", description=__doc__)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args(arguments)
    out = console()
    try:
        return example(options.config, options.cache, out)
    except WeirError as error:
        print(f"flights: {error}", file=sys.stderr)
        return 1


def example(config: Path, cache: Path, out: Console) -> int:
    """Fetches, plans, runs, draws, and compares.

    Raises:
      WeirError: something is missing that the example cannot make.
    """
    began = time.monotonic()
    if not config.exists():
        raise WeirError(f"{config} is missing; run the example in the folder of the project.")
    folder = config.parent
    out.print(Text("1. Events: flights from New York City, 2013", "bold"))
    content = data.fetch(cache)
    count = data.write_csv(content, folder / "flights.csv")
    out.print(
        f"   {count:,} flights that landed in {folder / 'flights.csv'}\n"
        "   A flight is an event when it is down: then its delay is known, and learned from.\n"
        "   It is forecast when it leaves its gate, from its delay there, its distance, the\n"
        "   scheduled hour and the day of the year: all known by then."
    )
    results = folder / "out"
    if forget(results, "flights"):
        out.print(f"   The releases of the last time in {results} are removed.")
    steps = (
        ("2. The guarantee, before any data are read", ["plan", str(config)]),
        ("3. The models, one a carrier and hour", ["run", str(config)]),
        ("4. The report", ["report", str(results)]),
    )
    for title, command in steps:
        out.print()
        out.print(Text(title, "bold"), Text(f"   $ weir {' '.join(command)}", "dim"), sep="\n")
        code = weir(command)
        if code:
            return code
    out.print()
    out.print(Text("5. What privacy costs the forecast", "bold"))
    out.print("   learning once more without noise, to compare ...")
    picture = compare(config, content, ResultFolder.open(results), out)
    out.print()
    out.print(Text("What it cost", "bold"), *cost(ResultFolder.open(results), "flight"), sep="\n")
    out.print()
    out.print(Text("Look at", "bold"))
    for path in (picture, results / "report.html", results / "report.png"):
        out.print(f"   {path}", soft_wrap=True)
    out.print(f"   ({time.monotonic() - began:.0f} s in all)")
    return 0


def compare(config: Path, content: bytes, run: ResultFolder, out: Console) -> Path:
    """Prints the table and draws the picture of private and other forecasts."""
    # The plan and the picture need libraries that take a second to import.
    from examples.flights import plot
    from examples.flights import truth as truth
    from weir.pipelines.config.job import load
    from weir.pipelines.graph.checks import plan_of

    flights = data.flights(content)
    plan = plan_of(load(config))
    forecasts = {
        truth.PRIVATE: truth.predict(truth.released(run), flights),
        truth.EXACT: truth.predict(truth.without_noise(plan, flights), flights),
        **truth.others(flights),
    }
    out.print(table(forecasts, flights))
    out.print(
        "   * is not private. Noise is felt in the first weeks and by carriers with few flights\n"
        "   (small: fewer than 1,000 a year); elsewhere it is soon drowned by what was learned."
    )
    path = run.directory.parent / PICTURE
    return plot.draw(forecasts, flights, run.promise[0], path)


def table(forecasts: Mapping[str, Floats], flights: Flights) -> Table:
    """Errors of all forecasts: over the year, later in it, and for the smaller carriers."""
    from examples.flights.truth import score

    count = np.bincount(flights.carrier, minlength=len(CARRIERS))
    groups = (
        ("all year", slice(None)),
        ("after\n90 days", flights.left >= SETTLED),
        ("small\ncarriers", count[flights.carrier] < 1000),
    )
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("mean absolute error in minutes", no_wrap=True)
    for title, _ in groups:
        made.add_column(title, justify="right", no_wrap=True)
    made.add_column("root mean\nsquare", justify="right", no_wrap=True)
    for name, forecast in forecasts.items():
        cells = [f"{score(forecast, flights, some).absolute:.2f}" for _, some in groups]
        made.add_row(Text(name), *cells, f"{score(forecast, flights).square:.2f}")
    return made


if __name__ == "__main__":
    sys.exit(main())
