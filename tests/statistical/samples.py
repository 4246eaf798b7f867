"""Many independent errors of one plan's releases: one a key, all keys with the same events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.audit.world import DAY
from tests.constant_noise import NoNoise
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Simulated, simulate

SURE = 4.5
"""Standard errors that count as chance. Secrets are fixed: a test passes always or never."""


def background(plan: Plan, per_key: int, seed: int = 3) -> Events:
    """The same ``per_key`` events for every key, spread over the clock, values inside and outside
    their clips."""
    rng = np.random.default_rng(seed)
    names = [key.decode() for key in plan.keys.ordered]
    times = plan.clock.start + rng.integers(0, (plan.clock.ticks or 1) * DAY, per_key)
    columns = {name: rng.uniform(-1, 6, per_key) for name in plan.program.columns}
    everyone = [name for name in names for _ in range(per_key)]
    n = len(names)
    return Events(np.tile(times, n), everyone, {k: np.tile(v, n) for k, v in columns.items()})


def one_key(plan: Plan, events: Events) -> Events:
    """The events of the first key alone."""
    per_key = len(events.times) // len(plan.keys.declared)
    mine = slice(0, per_key)
    keys = events.keys or []
    return Events(events.times[mine], keys[mine], {k: v[mine] for k, v in events.columns.items()})


def released(plan: Plan, events: Events, secret: int = 1, program: Any = None) -> list[Simulated]:
    """A run, with another program in place of the plan's where a test tampers."""
    what = plan if program is None else replace(plan, program=program)
    return simulate(what, events, secret.to_bytes(32, "big"))


def truth(plan: Plan, events: Events) -> Simulated:
    """What the first key's releases are without noise."""
    found = simulate(plan, one_key(plan, events), bytes(32), noise=NoNoise(0))
    return next(one for one in found if one.key == plan.keys.ordered[0].decode())


def ratio(errors: np.ndarray, stated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Measured over stated variance, and its standard error. errors: (K, ...), stated: (...)."""
    squares = (errors / stated) ** 2
    return squares.mean(axis=0), squares.std(axis=0) / np.sqrt(len(squares))
