"""Where a user's contributions of one period may lie: what accounting looks at besides norms."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pattern:
    """Cells (a key and a tick) that a user may contribute to in one period. Public.

    Attributes:
      span: S, ticks of the longest period; None: one that never ends.
      shortest: ticks of the shortest whole period.
      ticks: m, most ticks with a contribution. spacing: g, fewest ticks from one to the next.
      keys: k, most keys of a tick. key_ticks: r, most ticks of a key. period_keys: K, most keys of
        the period; None: any. cells: N, most cells; never more than m k and K r.
    """

    span: int | None
    shortest: int | None
    ticks: int
    spacing: int
    keys: int
    key_ticks: int
    period_keys: int | None
    cells: int

    @property
    def touched(self) -> int:
        """Most keys of a period."""
        return self.cells if self.period_keys is None else min(self.cells, self.period_keys)

    def once(self) -> Pattern:
        """Where only the first cell of each key in a period counts."""
        return replace(self, key_ticks=1, cells=self.touched)

    def rows(self, ticks: int | None, periods: int = 1) -> int | None:
        """H: rows from the first tick of a period on, within ``ticks`` from its last; None: all.

        A period of S ticks that is followed for W ticks from its last on meets S + W - 1 rows, and
        n periods in a row n S + W - 1.
        """
        if ticks is None or self.span is None:
            return None
        return max(periods * self.span + ticks - 1, 0)

    def single(self) -> Pattern:
        """A single cell of those."""
        return replace(self, ticks=1, keys=1, key_ticks=1, period_keys=1, cells=1)
