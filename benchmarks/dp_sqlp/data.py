"""The published events: budgets of users and ranks of keys by Zipf-Mandelbrot, uniform ticks.

A user has v events with probability ~ (v + 26)^-6.738, each of a key of rank r with probability
~ (r + 1000)^-1.4, at a uniform time. There are two readings of that:
  "whole": ranks and budgets from 0 in the formulas, and the truth counts all events, those behind
    a user's 32nd too. The unreleased histogram of the paper (59,052,062 events, 25,497 of the
    largest key) is of this kind: 5.9047 events a user.
  "clipped": from 1, and the truth counts the first 32 events of a user only, as confidential-storm
    does: 5.978 events a user.
With fewer users than published, keys and the 1000 shrink alike, so that keys are as large as they
were; but a user then meets a key again more often (of 1 in 100 users, 5 % of all events do).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.dp_sqlp.published import CAP, KEYS, USERS

READINGS = ("clipped", "whole")
LARGEST_BUDGET = 100_000
MINUTES = 1_000
"""All events lie in so many minutes: ticks are of a minute or of ten."""
MINUTE = 60_000_000
START = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z, in microseconds."""
TOGETHER = 20
"""Minutes in a row group."""


@dataclass(frozen=True)
class Setting:
    """Which events: a reading, a share of the published users and keys, and a seed."""

    reading: str
    scale: float = 1.0
    seed: int = 42

    @property
    def users(self) -> int:
        """How many people there are."""
        return round(USERS * self.scale)

    @property
    def keys(self) -> int:
        """How many keys there are, named 0, 1, ... by rank."""
        return round(KEYS * self.scale)

    @property
    def first(self) -> int:
        """What the first rank and the smallest budget are in the formulas."""
        return 0 if self.reading == "whole" else 1

    def budgets(self) -> NDArray[np.float64]:
        """Probabilities of 1, 2, ... events of a user, before any clipping."""
        return _zipf_mandelbrot(LARGEST_BUDGET, self.first + 26.0, 6.738)

    def shares(self) -> NDArray[np.float64]:
        """Probabilities of the keys, by rank."""
        return _zipf_mandelbrot(self.keys, (self.first + 1000.0) * self.scale, 1.4)

    def mean(self) -> float:
        """Expected events of a user."""
        events = np.arange(1, LARGEST_BUDGET + 1)
        if self.reading == "clipped":
            events = np.minimum(events, CAP)
        return float((self.budgets() * events).sum())


class Events(NamedTuple):
    """In order of time: user (n,) int32, key (n,) int32, minute (n,) int16."""

    user: NDArray[np.int32]
    key: NDArray[np.int32]
    minute: NDArray[np.int16]


def events(setting: Setting) -> Events:
    """Draws them: some 13 bytes of memory an event, 60 million in half a minute.

    Drawn as counts and shuffled, which has the same law as one by one and no search.
    """
    rng = np.random.default_rng((setting.seed, READINGS.index(setting.reading)))
    number = np.arange(1, LARGEST_BUDGET + 1)
    if setting.reading == "clipped":
        number = np.minimum(number, CAP)
    budget = np.repeat(number, rng.multinomial(setting.users, setting.budgets()))
    user = np.repeat(np.arange(setting.users, dtype=np.int32), budget)
    rng.shuffle(user)
    counts = rng.multinomial(len(user), setting.shares())
    key = np.repeat(np.arange(setting.keys, dtype=np.int32), counts)
    rng.shuffle(key)
    minutes = rng.multinomial(len(user), np.full(MINUTES, 1 / MINUTES))
    return Events(user, key, np.repeat(np.arange(MINUTES, dtype=np.int16), minutes))


def write(drawn: Events, file: Path, seed: int) -> None:
    """Parquet of columns time, user, key, id, in order of time; one row group in memory."""
    rng = np.random.default_rng(seed)
    schema = pa.schema(
        [
            ("time", pa.timestamp("us", tz="UTC")),
            ("user", pa.int64()),
            ("key", pa.int64()),
            ("id", pa.int64()),
        ]
    )
    ends = np.searchsorted(drawn.minute, np.arange(0, MINUTES + 1, TOGETHER))
    with pq.ParquetWriter(file, schema) as writer:
        for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            within = rng.integers(0, MINUTE, end - first)
            time = np.sort(START + drawn.minute[first:end].astype(np.int64) * MINUTE + within)
            columns = (
                time,
                drawn.user[first:end].astype(np.int64),
                drawn.key[first:end].astype(np.int64),
                np.arange(first, end),
            )
            arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))


def counted(setting: Setting, drawn: Events) -> NDArray[np.int64]:
    """The truth (keys,): all events of this reading."""
    return np.bincount(drawn.key, minlength=setting.keys).astype(np.int64)


def kept(drawn: Events, cap: int = CAP) -> NDArray[np.bool_]:
    """(n,): the first ``cap`` events of each user."""
    order = np.argsort(drawn.user, kind="stable")
    user = drawn.user[order]
    starts = np.flatnonzero(np.diff(user, prepend=np.int32(-1)))
    rank = np.arange(len(user)) - np.repeat(starts, np.diff(starts, append=len(user)))
    inside = np.empty(len(user), dtype=np.bool_)
    inside[order] = rank < cap
    return inside


def firsts(setting: Setting, drawn: Events) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
    """Key and minute of each (user, key)'s first event."""
    code = drawn.user.astype(np.int64)
    code *= setting.keys
    code += drawn.key
    code <<= 10
    code |= drawn.minute
    code.sort()
    pair = code >> 10
    new = np.empty(len(pair), dtype=np.bool_)
    new[:1] = True
    np.not_equal(pair[1:], pair[:-1], out=new[1:])
    first = code[new]
    return ((first >> 10) % setting.keys).astype(np.int32), (first & 1023).astype(np.int16)


def _zipf_mandelbrot(n: int, q: float, s: float) -> NDArray[np.float64]:
    """(i + q)^-s for i < n, which add up to 1."""
    weight = (np.arange(n) + q) ** -s
    return np.asarray(weight / weight.sum())
