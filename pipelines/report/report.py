"""The report of a run: a picture, a page, and a table of the last values."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from weir.dpcore.errors import ConfigError
from weir.pipelines.report import words
from weir.pipelines.report.data import ReportData, gather
from weir.pipelines.report.numbers import show_margin
from weir.pipelines.report.score import score
from weir.pipelines.results.run import ResultFolder

ROWS_SHOWN = 12


@dataclass(frozen=True)
class ReportPaths:
    """What was written, and the table of last values for a terminal.

    Attributes:
      png: the picture.
      html: the page; None if only the picture was asked for.
      caption: what the table shows; apart from it, as a narrow table would fold it.
      table: last values with the half width of their 95 % band.
      note: one line on what is missing from the run, or "".
      statement: the page to sign; None: it was not asked for.
      left_out: what bounds keep out of the values of the table, in a sentence each.
    """

    png: Path
    html: Path | None
    caption: str
    table: Table
    note: str
    statement: Path | None = None
    left_out: Sequence[str] = ()


def report(
    directory: Path | str,
    out: Path | str | None = None,
    keys: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    png_only: bool = False,
    holdout: Path | str | None = None,
    statement: bool = False,
) -> ReportPaths:
    """Draws the results in a folder. Prints nothing.

    Args:
      directory: the folder that a run wrote to; complete or not.
      out: folder for ``report.png`` and ``report.html``, made if missing; None: the results' own.
      keys: keys to draw; None: the first five by their last private value; the page has them all.
      names: outputs to draw; None: all.
      png_only: no page.
      holdout: a file of events that are public: models' predictions of them are drawn too.
      statement: write ``statement.html`` beside the page: what is protected, to be signed.

    Returns:
      Paths and the table for a terminal.

    Raises:
      ConfigError: no results there, a key or name that the run does not have, or held-back data
        that do not fit its models.
    """
    run = ResultFolder.open(directory)
    data = gather(run, keys, names)
    held = None if holdout is None else score(data, holdout)
    folder = Path(out) if out is not None else run.directory
    if folder.exists() and not folder.is_dir():
        raise ConfigError("out", str(folder), "must be a folder; there is a file of that name.")
    folder.mkdir(parents=True, exist_ok=True)
    # Drawing libraries take a second to import: only when there is something to draw.
    from weir.pipelines.report.page import page as drawn
    from weir.pipelines.report.picture import draw

    png = draw(data, folder / "report.png", held)
    page = None
    if not png_only:
        page = folder / "report.html"
        page.write_text(drawn(data, held), encoding="utf-8")
    signed = None
    if statement:
        from weir.pipelines.report.statement import statement as told

        signed = folder / "statement.html"
        signed.write_text(told(run, metadata.version("weir-dp")), encoding="utf-8")
    caption, note = words.last_caption(data), words.unfinished(run)
    return ReportPaths(png, page, caption, summary(data), note, signed, words.left_out(data))


def summary(data: ReportData) -> Table:
    """The last values as a table for a terminal, as many as its width holds: single numbers, or
    where there are none the first parts of others."""
    head, body = words.last_values(data)
    single = [0, *(i for i, title in enumerate(head) if i and len(title) == 2)]
    single = single if len(single) > 1 else list(range(len(head)))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown = [[Text(first), *(_cell(*one) for one in values)] for first, values in body[:ROWS_SHOWN]]
    room = shutil.get_terminal_size((80, 24)).columns
    kept: list[int] = []
    for i in single:
        room -= 3 + max(len(line) for line in (*head[i], *(row[i].plain for row in shown)))
        if room < 0 and len(kept) > 1:
            break
        kept.append(i)
        justify: Literal["left", "right"] = "right" if i else "left"
        table.add_column(Text("\n".join(head[i])), justify=justify, no_wrap=True)
    for row in shown:
        table.add_row(*(row[i] for i in kept))
    hidden = [
        f"{len(body) - ROWS_SHOWN:,} more rows" if len(body) > ROWS_SHOWN else "",
        f"{len(head) - len(kept):,} more columns" if len(head) > len(kept) else "",
    ]
    if any(hidden):
        table.caption = " and ".join(filter(None, hidden)) + " in the page"
    return table


def _cell(value: float, half: float, low: float, high: float) -> Text:
    shown, margin = show_margin(value, half, low, high)
    cell = Text(shown)
    if margin:
        cell.append(f" {margin}", style="dim")
    return cell
