"""Where a partial leaf waits for its tick: near ticks in one bag, far ones in others.

A bag is read and written whole. Were there one, each step would read and write whatever is for
later, and events of a far future would be paid for at every tick. So what is for the next turn of
``SPANS[0]`` ticks lies in the first bag, what is for the next turn of ``SPANS[1]`` in the second,
the rest in the last; a bag is read when a turn of the one before it begins.
"""

from __future__ import annotations

SPANS = (32, 1024)
"""Ticks of a turn of each bag but the last; each divides the next."""
BAGS = len(SPANS) + 1


def bag_of(tick: int, following: int) -> int:
    """Which bag a leaf whose first tick is ``tick`` waits in, where ``following`` is next."""
    for bag, span in enumerate(SPANS):
        if tick < (following // span + 1) * span:
            return bag
    return len(SPANS)


def bags_due(first: int, stop: int) -> int:
    """How many bags, nearest first, may hold what is due in [first, stop), or belong nearer then.

    Every other bag holds nothing before ``stop``, and all that ``bag_of`` would still put there.
    """
    return 1 + sum(first // span != stop // span for span in SPANS)
