"""Synthetic deliveries, as differences from what is usual: python -m examples.lasso.data FILE."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

NAMES = ("items", "weight", "distance", "floor", "rain", "rush", "new_driver", "signature")
SCALE = np.array([10.0, 20.0, 15.0, 6.0, 1.0, 1.0, 1.0, 1.0])
TRUE = np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.3, 0.0, 0.0])
"""Of scaled numbers: distance and the rush hour alone make a delivery late."""


def main() -> None:
    """Writes 20,000 of them over 60 days."""
    rng, n = np.random.default_rng(7), 20_000
    scaled = rng.uniform(-1, 1, (n, len(NAMES)))
    minutes = 60 * np.clip(scaled @ TRUE + 0.1 * rng.standard_normal(n), -1, 1)
    seconds = np.sort(rng.integers(0, 60 * 86_400, n))
    start = np.datetime64("2025-01-01T00:00:00")
    lines = ["delivery,at," + ",".join(NAMES) + ",minutes"]
    for i in range(n):
        numbers = ",".join(f"{x:.3f}" for x in (*(scaled[i] * SCALE), minutes[i]))
        lines.append(f"d{i},{start + seconds[i]}Z,{numbers}")
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
