"""What one call released: rows as Python, Arrow or pandas, and as a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.leaves.keys import shown_key
from weir.dpcore.plan import Plan
from weir.dpcore.plan_html import paragraphs, table
from weir.dpcore.words import left_out_lines
from weir.pipelines.results.series import interval, lopsided
from weir.transforms.sinks.wide import number, title

if TYPE_CHECKING:
    import pandas

    from weir.transforms.beam.releases import ReleaseRow

SHOWN_TICKS, SHOWN_KEYS, SHOWN_COLUMNS = 7, 20, 24
"""What a notebook shows at once, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Released:
    """Releases of one call. Iterating gives ``ReleaseRow``.

    Attributes:
      plan: what was guaranteed.
      table: rows of ``RELEASE_SCHEMA``, by tick.
      counters: the operator's counts of what was read and refused: private numbers, which a
        notebook does not show by itself.
      notes: what else to know, as that the secret is lost.
      ledger: how the budget stands with this release; None where no ledger was asked.

        >>> from weir import Released
        >>> [name for name in dir(Released) if name.startswith("to_")]
        ['to_arrow', 'to_pandas', 'to_wide']
    """

    plan: Plan
    table: pa.Table
    counters: Mapping[str, int]
    notes: tuple[str, ...] = ()
    ledger: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        """How many numbers."""
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[ReleaseRow]:
        """Typed rows."""
        from weir.transforms.beam.releases import rows_of

        return rows_of(self.table)

    def to_arrow(self) -> pa.Table:
        """A row for each number."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each number. Whole numbers, some of them none, are nullable integers."""
        pandas = _pandas()
        whole = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype()}
        return self.table.to_pandas(types_mapper=whole.get)

    def to_wide(self) -> pandas.DataFrame:
        """A row for each key and tick, by key and start of the tick (without a clock by key alone);
        of each number a column with its value, and "low" and "high" where it has a margin."""
        pandas = _pandas()
        titles, order = self._titles()
        long = self.table.select(["key", "tick_start", "value", "low", "high"]).to_pandas()
        long["of"] = pandas.Series(titles, dtype=object)
        index = ["key"] if self.plan.clock.once else ["key", "tick_start"]
        wide = long.pivot(index=index, columns="of", values=["value", "low", "high"])
        wide = wide.swaplevel(axis=1)
        have = [
            (of, item) for of in order for item in ("value", "low", "high") if (of, item) in wide
        ]
        built: Any = wide[have].dropna(axis=1, how="all")
        return built.rename_axis(columns=[None, None])

    def estimates(self, names: Sequence[str] | None = None, hindsight: bool = False) -> pa.Table:
        """Estimates of counts and sums, from these releases alone; see ``weir estimate``.

        Args:
          names: outputs; None: all that have estimates. hindsight: of every tick, from all of them.

        Returns:
          a row for each key, tick, output, span and label.

        Raises:
          ConfigError: there are none, with the reason.
        """
        from weir.pipelines.estimates.estimate import of_releases

        return of_releases(self.plan, self.table, names, hindsight)

    def _titles(self) -> tuple[list[str], list[str]]:
        """What each number is called: output, span and label; and the names in the plan's order."""
        places = {(output.name, output.over): at for at, output in enumerate(self.plan.outputs)}
        names, ranks = [], {}
        columns = (self.table[item].to_pylist() for item in ("name", "over", "label", "index"))
        for name, over, label, index in zip(*columns, strict=True):
            names.append(f"{title(name, over)} {label}".rstrip())
            ranks[names[-1]] = (places.get((name, over), len(places)), index)
        return names, sorted(ranks, key=ranks.__getitem__)

    def __repr__(self) -> str:
        return f"<Released {self._caption()}>"

    def _repr_html_(self) -> str:
        """The guarantee and the newest ticks. Whatever a key or a name holds is escaped."""
        parts = [f"<div>{paragraphs([self._caption(), self.plan.guarantee.statement])}"]
        if self.table.num_rows:
            parts.append(self._newest())
            parts.append(paragraphs(self._left_out()))
        parts.append(paragraphs(self.notes))
        return "".join((*parts, "</div>"))

    def _left_out(self) -> list[str]:
        """What bounds keep out of each output, in a sentence."""
        banded = self.table.filter(self.table["low"].is_valid())
        names = set(pc.unique(banded["name"]).to_pylist())
        return left_out_lines(
            (output.name, self.plan.bias_words(output.name), output.name in names)
            for output in self.plan.outputs
        )

    def _caption(self) -> str:
        rows = f"{self.table.num_rows:,} numbers"
        return f"{self.plan.name}: {rows}, plan {self.plan.digest[:12]}"

    def _newest(self) -> str:
        """The newest ticks of the first keys: a line for each, with its margin of error."""
        once = self.plan.clock.once
        last = 0 if once else pc.max(self.table["tick"]).as_py()
        ticks = pc.fill_null(self.table["tick"], 0)
        recent = self.table.filter(pc.greater(ticks, last - SHOWN_TICKS))
        some = Released(self.plan, recent, {})
        several = self.plan.keys.listed
        lines: dict[tuple[str, int], dict[str, str]] = {}
        starts: dict[int, Any] = {}
        names, titles = some._titles()
        for name, row in zip(names, recent.to_pylist(), strict=True):
            lines.setdefault((row["key"], row["tick"] or 0), {})[name] = _shown(row)
            starts[row["tick"] or 0] = row["tick_start"]
        keys = sorted({key for key, _ in lines})
        retained, columns = set(keys[:SHOWN_KEYS]), titles[:SHOWN_COLUMNS]
        body = [
            (
                shown_key(key) if several else key,
                *(() if once else (starts[tick].isoformat(),)),
                *map(item.get, columns),
            )
            for (key, tick), item in sorted(lines.items())
            if key in retained
        ]
        left = [f"{len(keys) - len(retained):,} more keys"] if len(keys) > len(retained) else []
        left += (
            [f"{len(titles) - len(columns):,} more numbers"] if len(titles) > len(columns) else []
        )
        which = "The release" if once else f"The newest {min(SHOWN_TICKS, len(starts))} ticks"
        caption = f"{which}, with 95 % margins of the noise"
        caption += f" ({' and '.join(left)}: to_pandas() has all)" if left else ""
        return table(("key", *(() if once else ("tick_start",)), *columns), body, caption)


def _shown(row: Mapping[str, Any]) -> str:
    """A number with its margin of error."""
    value, low, high = row["value"], row["low"], row["high"]
    if high is not None and lopsided(value, low, high):
        return interval(value, low, high)
    shown, half = number(value, None if high is None else (high - low) / 2)
    return f"{shown} \u00b1 {half}" if half else shown


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("frames need pandas: pip install 'weir-dp[pandas]'.") from None
    return pandas


__all__ = ["Released"]
