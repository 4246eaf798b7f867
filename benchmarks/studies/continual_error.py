"""How large is the error of running totals on a clock that ends, under each mechanism?

    python -m benchmarks.studies.continual_error

Standard deviations per Delta / mu, worst tick and root mean square. "least" is a lower bound for
every mechanism (a semidefinite bound from both sides up to 256 ticks, nuclear norms at 1,000 and
above). Nothing is drawn: the variances are exact. A minute; most of it is the longest clock.
"""

from __future__ import annotations

import csv
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.registry import CONTINUAL_SUMS

OUT = Path(__file__).parent / "results" / "continual_error.csv"
LEAST = {64: 2.111, 256: 2.533, 1000: 2.954, 4096: 3.350, 1 << 14: 3.791, 1 << 20: 5.115}
USERS = (
    *((90, 4, 1), (90, 30, 1), (90, 4, 7), (365, 12, 1)),
    *((1000, 4, 1), (1000, 30, 1), (1000, 30, 30), (4096, 30, 1)),
)
"""(ticks, contributions, spacing) of one user on the whole clock."""


def errors(name: str, n: int, pattern: Pattern | None = None) -> tuple[float, float, float]:
    """Worst and root mean square error, and seconds to calibrate and price."""
    begun = perf_counter()
    mechanism: Any = CONTINUAL_SUMS[name].calibrated(
        dimension=1,
        scales=(1.0,),
        sensitivity=1.0,
        overs=(None,),
        window=None,
        horizon=n,
        budget=PrivacyLoss("gdp", 1.0),
        pattern=pattern,
    )
    squares = mechanism.noise_scale**2 * mechanism.factor(np.arange(n), None)
    return float(squares.max()) ** 0.5, float(squares.mean()) ** 0.5, perf_counter() - begun


def main() -> None:
    """Prints the table and writes it."""
    rows = []
    cases = [(n, 1, 1, None) for n in LEAST]
    cases += [(n, k, g, Pattern(n, n, k, g, 1, k, None, k)) for n, k, g in USERS]
    for n, contributions, spacing, pattern in cases:
        for name in ("blt", "ended"):
            worst, mean, seconds = errors(name, n, pattern)
            least = LEAST.get(n, "") if pattern is None else ""
            rows.append([n, contributions, spacing, name, round(worst, 3), round(mean, 3), least])
            print(*rows[-1], f"{seconds:.2f} s", flush=True)
    with OUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        head = ["ticks", "contributions", "spacing", "mechanism", "worst", "rms", "least"]
        writer.writerows([head, *rows])


if __name__ == "__main__":
    main()
