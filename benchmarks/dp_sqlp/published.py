"""What was published: the set-up and the figures that this benchmark stands next to.

Zhang, Doroshenko, Kairouz, Steinke, Thakurta, Ma, Cohen, Apte, Spacek: Differentially Private
Stream Processing at Scale, PVLDB 17 (2024), section 5.1 and table 1; and what an open
implementation of the same algorithm, lucadibello/confidential-storm, measured with ten seeds
(benchmark/utility, June 2026; some 8 hours a run of 1,000 ticks).
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.dp_sqlp.errors import Errors

USERS, KEYS = 10_000_000, 1_000_000
EPSILON, DELTA = 6.0, 1e-9
CAP = 32
"""Most events of a user that count."""
TICKS = (100, 1_000)


class Published(NamedTuple):
    """A line of somebody's table: whose, on which reading of the data (data.py), how many ticks."""

    who: str
    reading: str
    ticks: int
    errors: Errors


LINES = (
    Published("paper", "whole", 100, Errors(28_338, 1_391, 17_741_225, 50_039)),
    Published("paper", "whole", 1_000, Errors(22_280, 1_563, 19_395_721, 58_237)),
    Published("confidential-storm", "clipped", 100, Errors(32_146, 1_094, 16_892_132, 44_538)),
    Published("confidential-storm", "clipped", 1_000, Errors(24_407, 1_611, 19_683_005, 59_033)),
)
