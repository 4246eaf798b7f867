"""How numbers, durations and tables look on a terminal, so that every command looks alike."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from weir.dpcore.leaves.clock import UTC, Clock, shown_unit
from weir.dpcore.words import bytes_text as bytes_text
from weir.dpcore.words import number as number
from weir.dpcore.words import sentence as sentence

NARROWEST = 100
"""Columns that output gets when it goes to a file or a pipe."""


NAMES, WORDS = 40, 20
"""Columns of a table up to which a cell is a name that stays whole, and that prose keeps."""


class Screen(Console):
    """A console on which a table keeps its columns: where it is too narrow lines become longer,
    and no name, key or number is cut or lost."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As Console.print."""
        narrow = self.width
        self.width = max(narrow, *map(_least, objects), 0)
        try:
            super().print(*objects, **options)
        finally:
            self.width = narrow


def _least(shown: Any) -> int:
    """Columns that what is shown needs; 0 where it can be broken anywhere."""
    if isinstance(shown, Padding):
        return _least(shown.renderable) + shown.left + shown.right
    return least_width(shown) if isinstance(shown, Table) else 0


def least_width(shown: Table) -> int:
    """Columns that a table needs: for whole numbers and names, and for prose some words."""
    needed = 0
    for column in shown.columns:
        texts = [str(cell) for cell in (column.header, *column.cells)]
        lines = [line for text in texts for line in text.split("\n")]
        whole = max(map(cell_len, lines), default=0)
        longest = max((cell_len(word) for line in lines for word in line.split()), default=0)
        retained = whole if column.no_wrap or whole <= NAMES else max(WORDS, longest)
        column.min_width = retained
        needed += retained + 2
    return needed + (len(shown.columns) + 1 if shown.box else 0)


def console(stderr: bool = False, wide: bool = False) -> Console:
    """A console that keeps its width when the output is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    plain = 200 if wide else NARROWEST
    width = shutil.get_terminal_size().columns if stream.isatty() else plain
    return Screen(file=stream, width=width, highlight=False, soft_wrap=False)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A plain table: names on top, numbers to the right and never broken, no boxes."""
    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        built.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name in right and name != "",
        )
    return built


def pairs(rows: Iterable[tuple[Any, Any]] = (), right: tuple[str, ...] = ()) -> Table:
    """A table of names and values without titles. right: ``("",)`` where these are numbers."""
    built = table("", "", right=right)
    built.show_header = False
    for row in rows:
        built.add_row(*row)
    return built


def heading(text: str) -> Text:
    """A heading of a section."""
    return Text(f"\n{text}", style="bold cyan")


def indent(part: RenderableType) -> RenderableType:
    """A part of a page, below its heading."""
    return Padding(part, (0, 0, 0, 2), expand=False)


def bullet(text: str, style: str = "", inside: int = 2) -> RenderableType:
    """A line of a list, whose later lines begin below its text."""
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row("-", Text(text, style=style))
    return Padding(row, (0, 0, 0, inside), expand=False)


def count(value: int, noun: str) -> str:
    """``1 tick``, ``365 ticks``, ``1,000 keys``."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def span(over: int | None) -> str:
    """The span of a release in words."""
    if over is None:
        return "since the start"
    return "each tick alone" if over == 1 else f"last {over:,} ticks"


def long_time(microseconds: int) -> str:
    """A duration for people: ``365 days``, ``6 hours``, ``10.0 years``."""
    seconds = microseconds / 1e6
    for limit, size, noun in (
        (120, 1, "second"),
        (7200, 60, "minute"),
        (172_800, 3600, "hour"),
        (86_400 * 1000, 86_400, "day"),
    ):
        if seconds < limit:
            amount = seconds / size
            shown = f"{amount:.0f}" if amount == round(amount) else f"{amount:.3g}"
            return f"{shown} {noun}{'' if shown == '1' else 's'}"
    return f"{seconds / (365.25 * 86_400):,.1f} years"


def long_ticks(clock: Clock, ticks: int) -> str:
    """How long so many ticks of a clock are: as ``long_time``, or ``3 months``."""
    calendar = clock.calendar
    if calendar is None:
        return long_time(ticks * clock.period)
    if calendar.months:
        return shown_unit(0, ticks * calendar.months, UTC)
    return long_time(ticks * calendar.nominal)
