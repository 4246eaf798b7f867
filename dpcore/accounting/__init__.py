"""Privacy loss as numbers: what a release costs, and what a plan guarantees.

``guarantee`` has losses that compose and the guarantee of a plan; ``statement`` says it in words.
``calibrate`` converts between (epsilon, delta), GDP and zCDP; ``joint`` and ``contributions`` give
the sensitivity of an event and of a user, ``groupings`` that in several groupings of keys;
``precision`` rejects noise too coarse for doubles.
``price`` and ``scope`` add up the losses of several plans in a budget.
"""

__all__ = [
    "calibrate",
    "contributions",
    "groupings",
    "guarantee",
    "joint",
    "precision",
    "price",
    "scope",
    "statement",
]
