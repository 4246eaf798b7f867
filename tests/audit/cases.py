"""A config for the audit of everything that is registered, and of keys that are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.dpcore.noise.noise import is_pure
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS

TRIALS, FEWER = 100_000, 8_000
SOME, FEW, FEWEST = 2_000, 400, 240
"""Trials in the suite: of a known law, of what is learned, and where a trial is expensive or little
is claimed."""
MORE = {"epsilon": 4.0, "delta": 1e-3}
HEAD = """
name: audit
source: {{parquet: nowhere/events.parquet}}
schema: {schema}
key: {{column: k, declared: [north]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T{ticks:02d}:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}, relation: {relation}}}
sink: {{parquet: nowhere/out}}
"""
L1 = ("online.conditional_gradient", "optimize.frank_wolfe")
PURE = ("erm.output_perturbation", "erm.independent_batches", "erm.sliding_window", "erm.sampled",
        "optimize.frank_wolfe")  # fmt: skip
"""Models whose loss is pure: without a mu a few trials tell a broken claim where it is small."""
EPSILONS = {"regression.erm": 8.0, "regression.naive": 16.0}
"""Where less buys no step at this size: what is released then depends on no event."""
SETTINGS = {
    "regression.projected": "  projection: {dimension: 1}\n",
    "regression.naive": "  curvature: 1\n",
    # Six blocks: by default nothing is released of so few.
    "erm.sliding_window": "  window: 3\n",
    "erm.continual": "  base: 2\n  doublings: 1\n",
    "erm.basic_continual": "  base: 2\n  doublings: 1\n",
}
ONE_PASS = ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd")


def head(
    epsilon: float = 1.0, delta: float = 1e-6, window: int | str = 2, ticks: int = 21,
    relation: str = "add_remove", schema: str = "{time: t}",
) -> str:  # fmt: skip
    """Sections that all have in common."""
    lasting = window if window == "all" else f"{window} ticks"
    return HEAD.format(epsilon=epsilon, delta=delta, window=lasting, ticks=ticks,
                       relation=relation, schema=schema)  # fmt: skip


def configs(short: bool = False) -> Iterator[tuple[str, str, int]]:
    """(algorithm, config, trials) of everything that is registered, and of keys that are found.

    Args:
      short: for the suite: fewer ticks and trials. Under Gaussian noise a broken claim takes the
        fewer trials the more is claimed; where the loss is pure, the less is.
    """
    yield from _sums(short)
    yield from _aggregates(short)
    yield from _models(short)
    yield from _found_keys(short)


def _sums(short: bool) -> Iterator[tuple[str, str, int]]:
    for name in CONTINUAL_SUMS.own:
        cls = CONTINUAL_SUMS[name]
        over = next(text for text, overs in (("all", (None,)), ("2", (2,)), ("1", (1,)))
                    if cls.serves(overs))  # fmt: skip
        for noise in cls.kinds:
            pure, trials = is_pure(noise), TRIALS
            given: dict[str, Any] = {"delta": 0 if pure else 1e-6}
            if short:
                given = {"delta": 0, "ticks": 4} if pure else {**MORE, "ticks": 5}
                trials = FEWEST if pure else SOME
            if cls.caveat:
                given["window"] = "all"
            text = head(**given)
            text += f"mechanism: {{continual_sum: {name}, noise: {noise}}}\n"
            text += f"aggregates: {{s: {{sum: y, clip: [0, 10], over: {over}}}}}\n"
            yield f"{name}, {noise}", text, trials


def _aggregates(short: bool) -> Iterator[tuple[str, str, int]]:
    of = {
        "count": "count: events", "sum": "sum: y, clip: [0, 10]", "mean": "mean: y, clip: [0, 10]",
        "variance": "variance: y, clip: [0, 10]",
        "quantile": "quantile: y, at: [0.5], edges: [0, 2.5, 5, 7.5, 10]",
        "histogram": "histogram: y, edges: [0, 4, 8]",
    }  # fmt: skip
    given: dict[str, Any] = {"epsilon": 2, "window": 8, "ticks": 8}
    if short:
        given = {**MORE, "window": 4, "ticks": 4}
    for name in AGGREGATES.own:
        text = head(**given) + "mechanism: {noise: gaussian}\n"
        text += f"aggregates: {{a: {{{of[name]}}}}}\n"
        yield name, text, SOME if short else 20_000


def _models(short: bool) -> Iterator[tuple[str, str, int]]:
    for name in MODELS.own:
        ball = "l1_ball" if name in L1 else "l2_ball"
        section = f"  set: {{{ball}: 2}}\n"
        schema, before = "{time: t}", ""
        epsilon, ticks = EPSILONS.get(name, 4.0), 12
        if name in ONE_PASS:
            # The fewer records, the more one of them moves; of 4 a pass takes too few.
            section, schema = "  records: 8\n", "{time: t, id: i}"
        elif name == "erm.sampled":
            section, schema = "  block: 6\n", "{time: t, id: i}"
        elif name.startswith("erm."):
            section, before = "  block: 2h\n", "expect: {events: 2}\n"
        elif name == "optimize.frank_wolfe":
            section, before = section + "  block: 2h\n", "expect: {events: 2}\n"
        section += SETTINGS.get(name, "")
        trials = FEWER // 4 if name.startswith("erm.") else FEWER
        if short:
            # A pass takes some of the records, a sample some of a block's: not always the changed.
            epsilon = 1.0 if name in (*PURE, *ONE_PASS) else epsilon
            trials = FEWEST if name.startswith("erm.") and name != "erm.sampled" else FEW
            ticks = 6 if "block" in section else ticks
            # Of a smaller sample a record is in half of the fits, or in none.
            section += "  sample: 0.9\n" if name == "erm.sampled" else ""
        text = head(epsilon, 1e-3, "all", ticks, "replace_one", schema) + before
        text += f"model:\n  algorithm: {name}\n  features: [u, v]\n  target: y\n"
        text += "  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}\n" + section
        if name == "regression.erm":
            for solver in SOLVERS.own:
                own = trials if short else trials // 4
                yield f"{name}, {solver}", f"{text}  solver: {solver}\n", own
        else:
            yield name, text, trials


def _found_keys(short: bool) -> Iterator[tuple[str, str, int]]:
    users = "unit: user, per: all, contributions: {ticks: 1, keys: 1, events: 1}"
    for noise in ("gaussian",) if short else ("gaussian", "discrete_gaussian", "k_norm"):
        text = head(1.0, 1e-2, "all", 4 if short else 12, schema="{time: t, unit: w}")
        text = text.replace("declared: [north]", "discover: {min_users: 3}")
        text = text.replace("relation: add_remove", users)
        text += f"mechanism: {{noise: {noise}}}\naggregates: {{n: {{count: events}}}}\n"
        yield f"keys that are found, {noise}", text, FEW if short else FEWER // 4
