"""Fitted coefficients of continual sums, as ``tests.dpcore.continual.fit_tables`` prints them, and
of users on clocks that end, ``fit_ended`` next to it.

``tables.json`` holds, by table and by window or span N, forms with more and more buffers, until one
more gives less than a permille. Each form is a list of poles 1 - theta_j and a list of zeros
1 - lambda_j, hex floats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from weir.dpcore.continual.rational import Rational

_TABLES = json.loads(resources.files(__package__).joinpath("tables.json").read_text())


def _forms(table: str) -> tuple[Rational, ...]:
    """The forms of a table, in order."""
    return tuple(
        Rational(*(tuple(map(float.fromhex, gaps)) for gaps in form))
        for forms in _TABLES[table].values()
        for form in forms
    )


WINDOWS = _forms("windows")
"""For running totals and windows of powers of two."""
(PERPETUAL,) = _forms("perpetual")
"""For running totals over 2^40 ticks, with the error that the first 2^24 of them see."""
SLIDING = _forms("sliding")
"""For sums over the last N ticks, N a power of two."""


class EndedRow(NamedTuple):
    """For running totals on a clock that ends.

    Attributes:
      ticks: of the clock. contributions, spacing: of a key, and the fewest ticks from one to
        the next. gains: five coefficients of the logarithm of the gains. form: of b.
    """

    ticks: int
    contributions: int
    spacing: int
    gains: tuple[float, ...]
    form: Rational


def _ended() -> Iterator[EndedRow]:
    for case, (gains, form) in _TABLES["ended"].items():
        ticks, contributions, spacing = map(int, case.split())
        poles, zeros = (tuple(map(float.fromhex, gaps)) for gaps in form)
        yield EndedRow(ticks, contributions, spacing, tuple(gains), Rational(poles, zeros))


ENDED = tuple(_ended())
