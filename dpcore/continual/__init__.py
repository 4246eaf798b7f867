"""Continual sums: running totals and sliding sums under correlated noise, at every tick.

``base`` has ``ContinualSum``, which every mechanism subclasses; ``unit`` has the request that one
is calibrated for, and units of noise. Mechanisms are found by name in ``dpcore.registry``; ``blt``
and ``tree`` are open to models that build on them, ``independent`` to new mechanisms.
``rational`` and ``columns`` have the law of their noise, by which releases are filtered.
``active_users`` and ``learned`` are of aggregates alone: their leaves say when users came before,
and how large values are. ``ended`` says how long its clocks may be.
"""

__all__ = [
    "active_users", "base", "blt", "columns", "ended", "independent", "learned", "rational",
    "tree", "unit",
]  # fmt: skip
