"""Bounds on the numbers of a config."""

from __future__ import annotations

FARTHEST, NEAREST = 1e60, 1e-60
"""Bounds of a clip, so that fourth powers of it are numbers."""


MOST_TICKS = 1 << 40
"""Longest span of ticks: 34,865 years of seconds."""
