"""The table of what was published and measured: CSV to go on from, Markdown to read."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import NamedTuple

from benchmarks.dp_sqlp.published import LINES
from benchmarks.harness import RESULTS, rows_of, write_rows

OTHERS = ("paper", "confidential-storm", "DP-SQLP, made again")
"""In order."""
DATA = {
    "clipped": "truth of at most 32 events a user",
    "whole": "truth of all events (the paper's)",
}


class Row(NamedTuple):
    """A line: who, on what, how far off, and what it took (empty where nobody said).

    ``seed`` is of the events; 0: published, of seeds of its own.
    ``seconds`` and ``bound_seconds`` are by the clock, the others of processors; ``read_processor``
    is of the bound that reads and sorts events too.
    """

    scale: float
    reading: str
    ticks: int
    who: str
    seed: int
    keys: float
    l_inf: float
    l1: float
    l2: float
    seconds: float | None = None
    gigabytes: float | None = None
    bound_seconds: float | None = None
    processor: float | None = None
    bound_processor: float | None = None
    read_processor: float | None = None

    @property
    def place(self) -> tuple[float, str, int]:
        """What rows must share to be compared."""
        return self.scale, self.reading, self.ticks


def published() -> list[Row]:
    """What others wrote."""
    return [Row(1.0, line.reading, line.ticks, line.who, 0, *line.errors) for line in LINES]


def read(folder: Path = RESULTS) -> list[Row]:
    """What earlier runs left, and what was published."""
    rows = published()
    for line in rows_of(folder / "dp_sqlp.csv"):
        numbers = {k: _number(v) for k, v in line.items() if k not in ("reading", "who")}
        numbers |= {"ticks": int(line["ticks"]), "seed": int(line["seed"])}
        rows = merged(rows, Row(**{**line, **numbers}))  # type: ignore[arg-type]
    return rows


def merged(rows: list[Row], row: Row) -> list[Row]:
    """The newest of each kind, in order."""
    mine = (*row.place, row.who, row.seed)
    found = [*(old for old in rows if (*old.place, old.who, old.seed) != mine), row]
    order = {who: i for i, who in enumerate(OTHERS)}

    def place(one: Row) -> tuple[object, ...]:
        return -one.scale, one.reading, one.ticks, order.get(one.who, 9), one.who, one.seed

    return sorted(found, key=place)


def by_seed(rows: list[Row]) -> list[list[Row]]:
    """Rows that differ in their seeds alone, together; in order."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((*row.place, row.who), []).append(row)
    return list(found.values())


def middle(rows: list[Row], name: str) -> float | None:
    """Median of a column over the seeds that have it; None where none has."""
    found = [getattr(row, name) for row in rows if getattr(row, name) is not None]
    return statistics.median(found) if found else None


def write(rows: list[Row], folder: Path = RESULTS) -> None:
    """dp_sqlp.csv and dp_sqlp.md."""
    cells = ({name: _cell(value) for name, value in row._asdict().items()} for row in rows)
    write_rows(folder / "dp_sqlp.csv", list(cells))
    (folder / "dp_sqlp.md").write_text(markdown(rows), encoding="utf-8")


def markdown(rows: list[Row]) -> str:
    """A table a set-up."""
    lines = []
    for place in dict.fromkeys(row.place for row in rows):
        scale, reading, ticks = place
        share = "" if scale == 1 else f", {scale:.0%} of the users and keys"
        lines += [
            f"**{ticks:,} ticks, {DATA[reading]}{share}**",
            "",
            "| | keys | l_inf | l1 | l2 | time | of processors | memory | times the bound: by the "
            "clock | of processors | that reads and sorts |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        some = [row for row in rows if row.place == place]
        lines += ["| " + " | ".join(shown(one)) + " |" for one in by_seed(some)]
        lines.append("")
    return "\n".join(lines)


def shown(rows: list[Row]) -> list[str]:
    """A line of the table, as words. rows: of one kind, a seed each."""
    who = rows[0].who if len(rows) == 1 else f"{rows[0].who} ({len(rows)} seeds)"
    figures = []
    for name in ("keys", "l_inf", "l1", "l2"):
        found = [getattr(row, name) for row in rows]
        spread = f" ± {statistics.stdev(found):,.0f}" if len(found) > 1 else ""
        figures.append(f"{statistics.fmean(found):,.0f}{spread}")
    seconds, processor = middle(rows, "seconds"), middle(rows, "processor")
    memory = middle(rows, "gigabytes")
    times = [
        f"{mine / least:.1f}" if mine is not None and least else ""
        for mine, least in (
            (seconds, middle(rows, "bound_seconds")),
            (processor, middle(rows, "bound_processor")),
            (processor, middle(rows, "read_processor")),
        )
    ]
    took = ["" if one is None else f"{one:,.0f} s" for one in (seconds, processor)]
    return [who, *figures, *took, "" if memory is None else f"{memory:.1f} GB", *times]


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value


def _number(text: str) -> float | None:
    return float(text) if text else None
