"""Plans, programs and streams of one-pass models."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from weir.dpcore.models.optimize.course import Drawn
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.noise.noise import Noise
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan

CONFIG = """
name: one_pass
schema: {{time: t, id: i}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: all, relation: {relation}}}
model:
  algorithm: {algorithm}
  features: [{features}]
  target: y
  loss: {loss}
  records: {records}
  ranges: {{{ranges}}}
  set: {set}
  {more}
{mechanism}
"""
TREE, POLYHEDRAL, PHASED = "optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd"
SETS = {
    TREE: "{lp_ball: {radius: 2, p: 1.5}}",
    POLYHEDRAL: "{l1_ball: 2}",
    PHASED: "{box: [-1, 1]}",
}
CASES: dict[str, tuple[str, str]] = {
    "gaussian": (TREE, "noise: gaussian"),
    "generalised": (TREE, "noise: generalised_gaussian"),
    "discrete": (TREE, "noise: discrete_gaussian"),
    "tree": (POLYHEDRAL, "form: tree"),
    "one_sample": (POLYHEDRAL, "form: one_sample"),
    "phased": (PHASED, "form: halving"),
    "phased, discrete": (PHASED, "form: halving"),
    "learned": (PHASED, "form: learned"),
    "erm": (PHASED, "form: erm\n  keep: 10240"),
    "erm, one": (PHASED, "form: erm\n  passes: 1"),
}
"""Name -> algorithm, and what makes it that one."""


@cache
def plan(
    case: str,
    d: int = 2,
    records: int = 20,
    loss: str = "squared",
    keys: tuple[str, ...] = ("north",),
    epsilon: float = 2.0,
    delta: float = 1e-5,
    set: str = "",
    more: str = "",
    relation: str = "replace_one",
) -> Plan:
    algorithm, own = CASES.get(case, (PHASED, "form: erm"))
    records = max(records, 32) if case == "learned" else records  # an eighth of a quarter
    names = [f"x{j}" for j in range(d)]
    text = CONFIG.format(
        keys=", ".join(keys),
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        algorithm=algorithm,
        features=", ".join(names),
        loss=loss,
        records=records,
        ranges=", ".join(f"{name}: [-1, 1]" for name in [*names, "y"]),
        set=set or SETS[algorithm],
        more="\n  ".join([own, *([more] if more else [])]),
        mechanism="mechanism: {noise: discrete_gaussian}" if "phased, " in case else "",
    )
    return Plan.from_yaml(text)


def program(case: str, **settings: Any) -> Any:
    found = plan(case, **settings).program
    assert isinstance(found, OnePass)
    return found


def noise_of(secret: int = 0) -> Noise:
    root = RootKey.derive(secret.to_bytes(32, "little"), "test", bytes(32))
    return KeyedNoise(root, 0, [b"north"], 0)


def read(made: Any, rows: np.ndarray, noise: Any = None, cuts: tuple[int, ...] = ()) -> Any:
    """All models of a stream of rows, read in pieces, and the state behind them."""
    own = {name: array[0] for name, array in made.course.init(1)._asdict().items()}
    found, at = [], 0
    drawn = Drawn(noise_of() if noise is None else noise, np.zeros(2, dtype=np.uint64))
    for stop in (*cuts, len(rows)):
        found += made.course.read(own, rows[at:stop], at, drawn)
        at = stop
    return found, own


def rows_for(made: Any, n: int, seed: int = 0, void: bool = True) -> np.ndarray:
    """Bounded rows, some at corners, some far outside, some void."""
    rng = np.random.default_rng(seed)
    names = list(made.columns)
    values = rng.uniform(-1.5, 1.5, (n, len(names)))
    corner = rng.random(n) < 0.5
    values[corner] = rng.choice([-1.0, 1.0], (int(corner.sum()), len(names)))
    if void:
        values[rng.random(n) < 0.1, 0] = np.nan
    return np.asarray(made.bound({name: values[:, j] for j, name in enumerate(names)}, n).rows)
