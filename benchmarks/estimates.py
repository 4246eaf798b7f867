"""How much nearer to the truth are estimates than the releases that they are computed from?

    python -m benchmarks.estimates [--draws 8] [--only flights] [--data FOLDER]

Public series under the noise of a plan, in fresh draws: the ratio of root mean squared errors
(release / estimate, from tick 30 on; more is better, 1 is the release itself), live and in
hindsight; how often the 95 % interval holds the truth; the largest error over the largest of the
release. Keys of a row share a bank. Series marked ``held out`` were not looked at when the filters
were designed. The CD shop's purchases come from a package of the index, as do the flights; bicycle
rentals lie in FOLDER/bike-sharing/hour.csv (UCI, "Bike Sharing") and are left out where they do
not. ``--shifts`` adds steps of a level. Short: two draws of two series.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.csv

from benchmarks.harness import Bench, main
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.blt import Blt
from weir.dpcore.estimates.laws import BufferLaw
from weir.dpcore.estimates.rules import Estimates
from weir.dpcore.estimates.series import Tracker, windows
from weir.dpcore.estimates.sources import EstimateSource

BEGIN = 30
"""Ticks that are not counted: a week of the sum, and three for the filters to begin."""
CLIP, CENTRE = 200.0, 100.0
"""Of dollars in these rows, and what is taken off each."""
CACHE = Path(__file__).parents[1] / ".cache"


class Case(NamedTuple):
    """A public series. truth: (keys, ticks), of each tick. unit: of noise. season: ticks.

    counts: truth of the count, where it helps, with its unit. event: see ``EstimateSource``.
    """

    name: str
    truth: Floats
    unit: float
    season: int = 7
    event: float = 1.0
    counts: tuple[Floats, float] | None = None
    held_out: bool = False


def shop() -> Iterator[Case]:
    """Purchases and dollars of a day, with purchases and with customers protected."""
    from examples.shop.data import DAYS, fetch
    from examples.shop.data import purchases as parsed
    from examples.shop.truth import Truth

    purchases = parsed(fetch(CACHE))
    dollars = np.minimum(purchases.dollars, CLIP)
    for unit, small, large in (("event", 10.72, 1695.0), ("customer", 39.32, 6213.0)):
        weight = Truth(purchases, True)._within if unit == "customer" else np.ones(len(dollars))
        count, paid, discs = (
            np.bincount(purchases.day, weight * value, minlength=DAYS)[None]
            for value in (1.0, dollars, np.minimum(purchases.cds, 10))
        )
        yield Case(f"shop purchases, {unit}", count, small)
        yield Case(f"shop dollars, {unit}", paid, large, event=CLIP / 2)
        yield Case(f"shop dollars with count, {unit}", paid, large, 7, CLIP / 2, (count, small))
        yield Case(f"shop discs, {unit}", discs, 10 * small, event=5.0, held_out=True)


def flights() -> Iterator[Case]:
    """Flights of a day, by carrier and by origin."""
    from examples.flights.data import fetch

    events = pyarrow.csv.read_csv(io.BytesIO(fetch(CACHE)))
    day = events["time_hour"].to_numpy().astype("datetime64[D]").astype(np.int64)
    day -= day.min()
    for of, column in (("carriers", "carrier"), ("origins", "origin")):
        _, codes = np.unique(events[column].to_numpy(), return_inverse=True)
        size = day.max() + 1
        each = np.bincount(codes * size + day, minlength=(codes.max() + 1) * size)
        truth = each.reshape(-1, size).astype(float)
        for unit in (8.5, 85.0):
            yield Case(f"flights, {len(truth)} {of}", truth, unit, held_out=of == "origins")


def bikes(folder: Path) -> Iterator[Case]:
    """Rentals of a day and of an hour."""
    path = folder / "bike-sharing" / "hour.csv"
    if not path.exists():
        print(f"left out: {path} is missing (UCI, Bike Sharing).")
        return
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    days = {day: i for i, day in enumerate(dict.fromkeys(row["dteday"] for row in rows))}
    day = np.asarray([days[row["dteday"]] for row in rows])
    hour = day * 24 + np.asarray([int(row["hr"]) for row in rows])
    for who in ("cnt", "casual"):
        number = np.asarray([float(row[who]) for row in rows])
        for unit in (8.5, 850.0):
            name, held = f"bikes daily, {who}", who == "casual"
            yield Case(name, np.bincount(day, number)[None], unit, held_out=held)
    number = np.asarray([float(row["cnt"]) for row in rows])
    for unit in (8.5, 255.0):
        yield Case("bikes hourly", np.bincount(hour, number)[None, -2160:], unit, 24)


def synthetic(rng: np.random.Generator) -> Iterator[Case]:
    """Series that are hard, or as easy as can be."""
    n = 400
    spikes = rng.poisson(60, n).astype(float)
    spikes[[150, 250, 251, 330]] += 2000
    week = 200 * np.array([1, 1, 1, 1.2, 1.5, 0.3, 0.2])[np.arange(n) % 7]
    yield Case("made constant", rng.poisson(40, (1, n)).astype(float), 40.0)
    yield Case("made zero", np.zeros((1, n)), 40.0)
    jumps = rng.poisson(np.repeat([100, 400, 50, 250], 100))[None].astype(float)
    yield Case("made jumps", jumps, 40.0)
    yield Case("made spikes", spikes[None], 40.0)
    walk = np.maximum(300 + np.cumsum(rng.normal(0, 15, n)), 0)
    yield Case("made walk", walk[None], 40.0)
    yield Case("made weekly", rng.poisson(week)[None].astype(float), 100.0)


def law_for(ticks: int, window: int) -> BufferLaw:
    """The noise that a plan would have."""
    chosen = Blt.calibrated(
        dimension=1, scales=(2.0**30,), sensitivity=1.0, overs=(None,), window=window,
        horizon=ticks, budget=PrivacyLoss("gdp", 1.0),
    )  # fmt: skip
    return BufferLaw(chosen.form)


class Errors(NamedTuple):
    """Of one draw, (ticks, keys) each: of the release, of the estimate, whether it is covered."""

    release: Floats
    estimate: Floats
    covered: Floats
    excess: float


def measured(case: Case, rng: np.random.Generator, hindsight: bool) -> dict[str, Errors]:
    """A draw of noise, live and in hindsight."""
    keys, n = case.truth.shape
    law = law_for(n, 720 if case.season == 24 else 365)
    over = case.season
    sums = np.cumsum(case.truth, axis=1).T
    matrix = law.walk(np.eye(n)).T
    apart = matrix - np.concatenate([np.zeros((over, n)), matrix[:-over]])
    stddev = case.unit * np.sqrt((apart**2).sum(axis=1))
    shares: tuple[tuple[float, float, float], ...] = ()
    noise = law.walk(rng.normal(size=(keys, n))).T
    counted = None
    if case.counts is None:
        released = sums + case.unit * noise
    else:
        counts, small = case.counts
        rest = (case.unit**2 - (CENTRE * small) ** 2) ** 0.5
        shares = ((CENTRE, 1.0, small), (1.0, 0.0, rest))
        counted = np.cumsum(counts, axis=1).T + small * noise
        fresh = law.walk(rng.normal(size=(keys, n))).T
        released = sums + CENTRE * small * noise + rest * fresh
    source = EstimateSource(
        case.name, (over,), law, case.unit, case.event, 0.0, "counts", shares, (0.0, CLIP)
    )
    tracker = Tracker(source, case.season, keys, counts=counted is not None)
    live = [
        tracker.add(released[t], {over: stddev[t]}, None if counted is None else counted[t])[over]
        for t in range(n)
    ]
    truth, release = windows(sums, over), windows(released, over)
    results = {"live": Estimates(*(np.stack(item) for item in zip(*live, strict=True)))}
    if hindsight:
        results["hindsight"] = tracker.hindsight({over: stddev[:, None]})[over]
    out = {}
    for how, item in results.items():
        low, high = item.low, item.high
        off, own = np.abs(item.value - truth), np.abs(release - truth)
        inside = (low <= truth) & (truth <= high)
        excess = float((off - own - 3 * stddev[:, None]).max())
        out[how] = Errors(own[BEGIN:], off[BEGIN:], inside[BEGIN:], excess)
    return out


def root(values: list[Floats]) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.concatenate([value.ravel() for value in values]) ** 2)))


def compare(bench: Bench, case: Case, draws: int, stream: int) -> None:
    """A row of figures."""
    rng = bench.rng(1000 + stream)
    hindsight = case.truth.shape[1] <= 800
    runs = [measured(case, rng, hindsight) for _ in range(draws)]
    cells: dict[str, float | None] = {}
    for how in ("live", "hindsight"):
        if how not in runs[0]:
            continue
        own = [run[how] for run in runs]
        ratio = root([e.release for e in own]) / root([e.estimate for e in own])
        largest = max(e.estimate.max() for e in own) / max(e.release.max() for e in own)
        covered = float(np.mean([e.covered.mean() for e in own]))
        short = {"live": "live", "hindsight": "hind"}[how]
        cells |= {short: ratio, f"{short}_covered": covered, f"{short}_largest": float(largest)}
        assert max(e.excess for e in own) <= 1e-6 * case.unit, "the guard does not hold"
    bench.row(series=case.name, unit=case.unit, held_out=case.held_out, draws=draws, **cells)


def shifts(bench: Bench, draws: int) -> None:
    """Steps of a level at tick 150, in standard deviations of the 7-tick release."""
    n, at, over = 300, 150, 7
    law = law_for(n, 365)
    matrix = law.walk(np.eye(n)).T
    apart = matrix - np.concatenate([np.zeros((over, n)), matrix[:-over]])
    stddev = np.sqrt((apart**2).sum(axis=1))
    for size in (0, 1, 2, 3, 5, 10):
        step = size * stddev[at] / over
        level = np.where(np.arange(n) < at, 10.0, 10.0 + step)
        sums = np.cumsum(level)[:, None] + np.zeros(1)
        rng = bench.rng(2000 + size)
        values, inside, flags, errors = [], [], [], []
        for _ in range(draws):
            released = sums + law.walk(rng.normal(size=(1, n))).T
            source = EstimateSource("level", (over,), law, 1.0, 0.0, None)
            tracker = Tracker(source, 7, 1)
            live = [tracker.add(released[t], {over: stddev[t]})[over] for t in range(n)]
            result = Estimates(*(np.concatenate(item) for item in zip(*live, strict=True)))
            truth, release = windows(sums, over)[:, 0], windows(released, over)[:, 0]
            values.append(result.value)
            inside.append((result.low <= truth) & (truth <= result.high))
            flags.append(result.surprise[at : at + 14].any())
            errors.append((release - truth, result.value - truth))
        risen = (np.mean(values, axis=0) - 10 * over) / max(over * step, 1e-9)
        covered = np.mean(inside, axis=0)[at : at + 21]
        after = [np.concatenate([e[i][at : at + 30] for e in errors]) for i in (0, 1)]
        bench.row(
            "_shifts", size=size, draws=draws,
            half=_first(risen[at:], 0.5) if size else None,
            most=_first(risen[at:], 0.9) if size else None,
            flagged=float(np.mean(flags)), worst=float(covered.min()), mean=float(covered.mean()),
            ratio=root([after[0]]) / root([after[1]]),
        )  # fmt: skip


def _first(risen: Floats, share: float) -> int | None:
    """Ticks until so much of a step is seen."""
    reached = np.flatnonzero(risen >= share)
    return int(reached[0]) + 1 if len(reached) else None


def measure(bench: Bench) -> None:
    """All rows, or those whose name holds ``--only``."""
    bench.keys = ("series", "unit")
    cases = [*synthetic(bench.rng(7))]
    if not bench.short:
        cases += [*shop(), *flights(), *bikes(Path(bench.args.data))]
    draws = 2 if bench.short else bench.args.draws
    for stream, case in enumerate(cases):
        if bench.args.only in case.name and not (bench.short and stream > 1):
            many = max(2, draws // 4) if len(case.truth) > 3 or case.season == 24 else draws
            compare(bench, case, min(draws, many) if not bench.short else draws, stream)
    if bench.args.shifts:
        bench.keys = ()
        shifts(bench, bench.args.shifts)


if __name__ == "__main__":
    main(measure, draws=8, only="", data=".", shifts=0)
