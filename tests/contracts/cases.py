"""Every registered continual sum, with every noise and window: what the contract is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Ints, State, arrays_of
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.independent import CoverSum, UnitSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import kind_of
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.registry import CONTINUAL_SUMS

WINDOWS: tuple[int | None, ...] = (1, 2, 3, 8, None)
WHOLE = ("ended", "kary_tree", "kary_window")
"""Mechanisms whose noise is fitted to a whole clock: no shorter window."""
OVERS: tuple[tuple[int | None, ...], ...] = ((None, 1, 3), (None,), (5,), (1,))
HORIZON = 600
SENSITIVITY = 2.5
SCALES = (30000.0, 0.0, 45000.0)
BUDGET = {"gdp": 0.7, "zcdp": 0.2, "pure": 0.8}
KEYS = (b"north", b"south", b"west")
ROOT = RootKey.derive(bytes(range(32)), "contract", bytes(32))


@dataclass(frozen=True)
class Case:
    """A mechanism of the registry, a noise, a window (None: for ever) and the sums asked."""

    name: str
    kind: str
    window: int | None
    overs: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.name}-{self.kind}-{self.window or 'all'}-{len(self.overs)}"

    def make(self, horizon: int | None, scales: tuple[float, ...] = SCALES) -> Any:
        """Calibrates it; ConfigError where it cannot serve."""
        kind = kind_of(self.kind)
        return CONTINUAL_SUMS[self.name].calibrated(
            dimension=len(scales),
            scales=scales,
            sensitivity=SENSITIVITY,
            overs=self.overs,
            window=self.window,
            horizon=horizon,
            budget=PrivacyLoss(kind, BUDGET[kind]),
            norm=1 if self.kind == "laplace" else 2,
        )

    def build(self, scales: tuple[float, ...] = SCALES) -> Any:
        """Without an end where it can, with 600 ticks where it must know the end."""
        try:
            return self.make(None, scales)
        except ConfigError:
            return self.make(HORIZON, scales)


def windows_of(name: str) -> tuple[int | None, ...]:
    """Protection windows of the cases of a mechanism."""
    return (None,) if name in WHOLE else WINDOWS


@cache
def cases() -> tuple[Case, ...]:
    """All that is served. tests/contracts/test_registry.py sees that nothing is lost here."""
    found = []
    for name, cls in CONTINUAL_SUMS.items():
        overs = next(overs for overs in OVERS if cls.serves(overs))
        for kind in cls.kinds:
            for window in windows_of(name):
                case = Case(name, kind, window, overs)
                try:
                    case.build()
                except ConfigError:
                    continue
                found.append(case)
    return tuple(found)


def gaussian_cases() -> tuple[Case, ...]:
    """One noise for each mechanism and window, where the noise does not matter."""
    return tuple(case for case in cases() if case.kind == CONTINUAL_SUMS[case.name].kinds[0])


def noise(first: int, keys: tuple[bytes, ...] = KEYS) -> KeyedNoise:
    """The real keyed noise."""
    return KeyedNoise(ROOT, 0, keys, first)


def leaves(n: int, n_keys: int = len(KEYS), dimension: int = len(SCALES), seed: int = 1) -> Ints:
    """(n, K, d): about half the keys have an empty tick."""
    rng = np.random.default_rng(seed)
    out = rng.integers(-1000, 1000, (n, n_keys, dimension))
    out[rng.random((n, n_keys)) < 0.5] = 0
    return out


def run(
    mechanism: ContinualSum,
    data: Ints,
    strides: tuple[int, ...] | None = None,
    keys: tuple[bytes, ...] = KEYS,
    state: State | None = None,
    first: int = 0,
) -> tuple[State, list[np.ndarray]]:
    """Steps through data in strides (None: one). Returns the state and (n, K, d) per over."""
    state = mechanism.init(data.shape[1]) if state is None else state
    out: list[list[np.ndarray]] = [[] for _ in mechanism.overs]
    at = 0
    for stride in strides or (len(data),):
        state, released = mechanism.step(state, data[at : at + stride], noise(first + at, keys))
        for parts, part in zip(out, released, strict=True):
            parts.append(part)
        at += stride
    assert at == len(data)
    return state, [np.concatenate(parts) for parts in out]


def exact(data: Ints, over: int | None) -> np.ndarray:
    """Clean sums in Python integers: (n, K, d) object."""
    total = np.cumsum(data.astype(object), axis=0)
    if over is not None:
        total[over:] = total[over:] - total[:-over].copy()
    return total


def same(a: State, b: State) -> bool:
    """Whether two states hold the same bits."""
    pairs = zip(arrays_of(a), arrays_of(b), strict=True)
    return all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs
    )


def response(mechanism: Any, n: int) -> np.ndarray:
    """(n, n): the clean outputs whose noise ``materialize`` describes, as a matrix."""
    if hasattr(mechanism, "response"):
        return np.asarray(mechanism.response(n))
    return np.tril(np.ones((n, n)))


def holds(mechanism: Any, tick: int, record: int) -> float:
    """Variance, in units, of the part of a tick's noise that is keyed with a record's leaf."""
    if isinstance(mechanism, CoverSum):
        nodes = mechanism.cover(tick)
        return sum(x.multiplier**2 for x in nodes if x.start <= record < x.end)
    if tick < record:
        return 0.0
    if isinstance(mechanism, UnitSum):
        nodes = mechanism.nodes(tick + 1)
        held = [node.start <= record < node.end for node in nodes]
        return float((mechanism.materialize(tick + 1)[tick, held] ** 2).sum())
    return float((mechanism.materialize(tick + 1)[tick, record:] ** 2).sum())
