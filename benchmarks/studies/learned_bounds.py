"""What does a clip cost that is learned in private from the first ticks, then frozen?

    python -m benchmarks.studies.learned_bounds [--bikes hour.csv] [--ratings u.data]
        [--cache .cache] [--draws 30000]

The expected error of a sum's last total (what is clipped off, and noise), over that of the best
fixed clip, which nobody knows. ``times`` 1, 2 and 4, and a public top in place of learning.
Departure delays of flights (336,776 events of 2013, the first 36 days learned), purchases at a CD
shop (customers as the unit, the first 60 of 546 days), what a user's movie ratings of a day add up
to (``u.data`` of MovieLens 100K: user, item, rating, seconds; users of a day as the unit, the
first 42 of 215 days), and rentals of bikes by the hour, which grow all the time (``hour.csv`` of
the UCI data set "Bike Sharing", or WEIR_BIKES says where it is; the first 73 of 731 days).

Bins end at ``top`` over powers of sqrt(2), so ``top`` also decides where bins lie in the data:
``least``, ``most`` and ``mean`` are over eight tops within a factor of sqrt(2). ``percent_chance``
is that mean with the threshold that noise alone passes with a chance of 1 %, in place of 0.1 %.
Draws are of the histogram alone: the error for a clip is exact. Half a minute; writes
benchmarks/studies/results/learned_bounds.csv.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, ndtri

from examples.flights import data as flights
from examples.shop import data as shop
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.continual.learned import LearnedSum
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.plan import Plan

OUT = Path(__file__).parent / "results" / "learned_bounds.csv"
EPSILONS, TIMES, PLACES = (0.5, 1.0, 4.0), (1, 2, 4), 8
CONFIG = """
name: learned
schema: {{time: at, id: id{unit}}}
clock: {{start: 2020-01-01T00:00:00Z, period: 1d, end: {end}T00:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: all{privacy}}}
aggregates: {{s: {{sum: x, clip: {clip}}}}}
"""


class Stream(NamedTuple):
    """Values in a stream.

    Attributes:
      name: for people. ticks: of the clock. first: of them that are learned from. top: public.
      values, at: (n,) of each event, and its tick. sized: (m,) values that the histogram holds.
      privacy: further settings of a user as the unit.
    """

    name: str
    ticks: int
    first: int
    top: float
    values: Any
    at: Any
    sized: Any
    privacy: str = ""


def delays(cache: Path) -> Stream:
    """Minutes by which flights leave late."""
    rows = list(csv.DictReader(io.StringIO(flights.fetch(cache).decode())))
    days = np.array([f"2013-{int(r['month']):02d}-{int(r['day']):02d}" for r in rows], "M8[D]")
    at = (days - np.datetime64("2013-01-01")).astype(int)
    late = [0.0 if r["dep_delay"] == "NA" else max(0.0, float(r["dep_delay"])) for r in rows]
    values = np.array(late)
    return Stream("flight delays, events", 365, 36, 1e5, values, at, values[at < 36])


def dollars(cache: Path) -> Stream:
    """Dollars of purchases, two a day and four days a month of each customer."""
    rows = shop.purchases(shop.fetch(cache))
    order = np.lexsort((rows.dollars, rows.day, rows.customer))
    seen: dict[tuple[int, int], list[int]] = {}
    kept, sized = [], []
    for i in order.tolist():
        period, day = int(rows.day[i]) // 30, int(rows.day[i])
        days = seen.setdefault((int(rows.customer[i]), period), [])
        if days.count(day) == 2 or (day not in days and len(set(days)) == 4):
            continue
        if not days and day < 60:
            sized.append(rows.dollars[i])
        days.append(day)
        kept.append(i)
    privacy = ", unit: user, per: 30d, contributions: {ticks: 4, keys: 1, events: 2}"
    values, at = rows.dollars[kept], rows.day[kept]
    return Stream("purchases, customers", shop.DAYS, 60, 1e5, values, at, np.array(sized), privacy)


def rentals(path: Path) -> Stream:
    """Rentals of bikes in an hour, as one value."""
    days: dict[str, int] = {}
    with path.open() as file:
        rows = [
            (days.setdefault(r["dteday"], len(days)), float(r["cnt"])) for r in csv.DictReader(file)
        ]
    at, values = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    return Stream("bikes an hour, events", 731, 73, 1e6, values, at, values[at < 73])


def stars(path: Path) -> Stream:
    """Stars that a user gives in a day."""
    rows = np.loadtxt(path, dtype=np.int64)
    days = (rows[:, 3] - rows[:, 3].min()) // 86_400
    cells, places = np.unique(np.stack([days, rows[:, 0]]), axis=1, return_inverse=True)
    values, at = np.bincount(places.ravel(), rows[:, 2]), cells[0]
    ticks = int(days.max()) + 1
    first = (ticks - 1) // 5
    privacy = ", unit: user, per: 1d, contributions: {ticks: 1, keys: 1, events: 1}"
    name = "movie ratings, users of a day"
    return Stream(name, ticks, first, 1e5, values, at, values[at < first], privacy)


def plan_of(stream: Stream, epsilon: float, clip: str) -> Plan:
    """A plan of one sum."""
    end = np.datetime64("2020-01-01") + stream.ticks
    unit = ", unit: who" if stream.privacy else ""
    shape = {"end": end, "epsilon": epsilon, "privacy": stream.privacy, "unit": unit}
    return Plan.from_yaml(CONFIG.format(**shape, clip=clip))


def risks(stream: Stream, clips: Any, unit: float) -> Any:
    """Expected size of the error of the last total behind the first ticks, for each clip."""
    rest = np.sort(stream.values[stream.at >= stream.first])
    total = np.concatenate([[0.0], np.cumsum(rest)])
    at = np.searchsorted(rest, clips)
    bias = total[-1] - total[at] - clips * (len(rest) - at)
    spread = clips * unit
    z = bias / spread
    return spread * (math.sqrt(2 / math.pi) * np.exp(-z * z / 2) + z * erf(z / math.sqrt(2)))


def study(stream: Stream, draws: int) -> Iterator[list[Any]]:
    """Rows of the table."""
    for epsilon in EPSILONS:
        public = plan_of(stream, epsilon, f"[{-stream.top}, {stream.top}]").outputs[0]
        rest = stream.values[stream.at >= stream.first]
        shares = np.concatenate([np.linspace(0.2, 0.99, 80), 1 - np.geomspace(1e-2, 1e-6, 60)])
        fixed = np.unique(np.quantile(rest[rest > 0], shares))
        unit = public.stddev_worst / stream.top
        best = float(risks(stream, fixed, unit).min())
        top = float(risks(stream, np.array([stream.top]), unit)[0])
        for times in TIMES:
            means, others, clips = [], [], []
            for place in range(PLACES):
                wide = stream._replace(top=stream.top * 2 ** (place / 2 / PLACES))
                mechanism, unit = learned(wide, epsilon, times)
                reach = -float(ndtri(0.01 / len(mechanism.edges)))
                lower = replace(mechanism, threshold=reach * mechanism.sizes_scale)
                edges, low = (chosen(stream, each, draws) for each in (mechanism, lower))
                means.append(float(risks(stream, edges, unit).mean()))
                others.append(float(risks(stream, low, unit).mean()))
                clips.append(float(np.median(edges)))
            over = [mean / best for mean in (means[0], min(means), max(means), np.mean(means))]
            yield [
                stream.name, epsilon, times, *(round(float(ratio), 2) for ratio in over),
                round(float(np.mean(others)) / best, 2), round(top / best),
                round(100 * means[0] / rest.sum(), 2), round(clips[0], 1),
            ]  # fmt: skip


def learned(stream: Stream, epsilon: float, times: int) -> tuple[LearnedSum, float]:
    """The mechanism of a plan, and the last total's standard deviation for a clip of 1."""
    learn = f"{{ticks: {stream.first}, top: {stream.top!r}, start: 100, times: {times}}}"
    plan = plan_of(stream, epsilon, f"{{learn: {learn}}}")
    (part,) = plan.program.parts  # type: ignore[attr-defined]
    mechanism: LearnedSum = part.mechanism
    return mechanism, plan.outputs[0].stddev_worst / mechanism.edges[mechanism.start]


def chosen(stream: Stream, mechanism: LearnedSum, draws: int) -> Any:
    """(draws,) clips that it chooses."""
    channel = Channel.make("sizes", "x", edges=(0.0, *mechanism.edges))
    found = channel.contribution(stream.sized).coordinate
    assert found is not None
    sizes = np.bincount(found[found >= 0], minlength=len(mechanism.edges))
    keys = [f"{i}".encode() for i in range(draws)]
    root = KeyRing.derive(bytes(32), "n", bytes(32), ()).at(0)
    noise, chain = KeyedNoise(root, 0, keys, 0), np.zeros((draws, 2), dtype=np.uint64)
    clip = mechanism.decided(np.tile(sizes, (draws, 1)), noise, chain)
    return np.asarray(mechanism.edges)[clip]


def main() -> None:
    """Prints the table and writes it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bikes", type=Path, default=os.environ.get("WEIR_BIKES"))
    parser.add_argument("--ratings", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    parser.add_argument("--draws", type=int, default=30_000)
    args = parser.parse_args()
    head = ["stream", "epsilon", "times", "over_best", "least", "most", "mean", "percent_chance"]
    head += ["top_over_best", "percent_of_total", "clip"]
    rows = [head]
    streams = [delays(args.cache), dollars(args.cache)]
    streams += [] if args.ratings is None else [stars(args.ratings)]
    streams += [] if args.bikes is None else [rentals(Path(args.bikes))]
    for stream in streams:
        for row in study(stream, args.draws):
            print(*row, flush=True)
            rows.append(row)
    with OUT.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
