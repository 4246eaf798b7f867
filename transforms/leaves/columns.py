"""Columns that an id becomes."""

from __future__ import annotations

HIGH, LOW = "@hash_high", "@hash_low"
"""Columns that an event's id becomes."""
