"""The report of a run: a picture, a page, a statement to sign, and a table of the last values."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from weir.dpcore.accounting.statement import user_conditions
from weir.dpcore.errors import ConfigError
from weir.dpcore.words import left_out_lines, number
from weir.pipelines import vega
from weir.pipelines.report import words
from weir.pipelines.report.data import ReportData, gather
from weir.pipelines.report.page import policy, templates
from weir.pipelines.report.score import score
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import show_margin


def statement_page(run: ResultFolder, version: str, day: date | None = None) -> str:
    """One printable page. Returns the text of an HTML file.

    Args:
      run: what was released. version: of Weir. day: it is dated; None: today, UTC.
    """
    day = datetime.now(UTC).date() if day is None else day
    safe = templates().get_template("statement.html")
    first, last = words.when(run, run.first_tick), words.when(run, run.last_tick)
    return safe.render(
        name=run.name,
        policy=policy((), False),
        protected=protected(run),
        strength=strength(run),
        always=words.every_period(run),
        against="Anyone who sees all that is released, alone or with others, now or later, and "
        "whatever else they know, be it all other records. Not against anyone who runs the job.",
        lasting=lasting(run),
        left_open=list(left_open(run)),
        expiration=words.expiration(run),
        caption=words.against(run),
        releases=list(_releases(run)),
        left_out=left_out_lines((o.name, o.left_out, not o.is_model) for o in run.outputs),
        exact=words.statement(run),
        unfinished=words.unfinished(run),
        facts=[
            ("Release", run.name),
            ("Rows", "all, in one release")
            if run.once
            else ("Dates", f"{first} to {last}, ticks {run.first_tick:,} to {run.last_tick:,}"),
            ("Plan", str(run.plan.get("digest") or "no _plan.json in this folder")),
            ("Versions", f"Weir {version}, plan version {run.plan.get('version', 1)}"),
            ("Printed", f"{day:%Y-%m-%d}"),
            *([("Budget", words.budget(run))] if words.budget(run) else []),
        ],
    )


def protected(run: ResultFolder) -> str:
    """What is hidden, in plain words."""
    guarantee = run.plan.get("guarantee") or {}
    noun, item = words.noun(run), words.unit(run)
    if guarantee.get("unit") == "user":
        per = words.period(run)
        counted = "of the calendar" if per and per.endswith(("month", "months")) else "of the clock"
        within = f" within {per} {counted}" if per else ""
        each = f": each {noun}, and all of them together" if noun != "event" else ""
        return f"All that one user adds{within}{each}. Whether it is there at all stays hidden."
    what = {
        "add_remove": f"One {item}. Whether it is among the records at all stays hidden.",
        "replace_one": f"What one {item} says. That there is one, where and when, is not hidden.",
        "replace_anywhere": f"What one {item} says, where it belongs, and when it was.",
    }
    return what.get(str(guarantee.get("relation")), f"One {item}.")


def strength(run: ResultFolder) -> str:
    """Epsilon and delta, in plain words."""
    epsilon, delta, _ = run.promise
    odds = f"1 in {number(1 / delta)} (delta = {words.short(delta)})" if delta else ""
    chance = f", but for a chance of {odds}" if delta else ""
    return (
        f"Whatever one looks for in the releases becomes at most {number(math.exp(epsilon), 3)} "
        f"times as likely, or as unlikely, through the protected record (epsilon = "
        f"{words.short(epsilon)}){chance}."
    )


def lasting(run: ResultFolder) -> str:
    """For how long."""
    _, _, window = run.promise
    if run.once:
        return "Always: against this release, which is the only one."
    if window is None:
        return "Always: against all that is ever released."
    rows = words.expiration(run)
    later = " What holds against what is released later is in the table." if rows[1:] else ""
    return f"Against all that is released within {words.duration(run, window)}.{later}"


def left_open(run: ResultFolder) -> Iterator[str]:
    """What is not protected, in plain words."""
    plan = run.plan
    guarantee = plan.get("guarantee") or {}
    yield (
        "What the releases reveal about everybody. It is what they are for, and it is known with "
        "or without any one record."
    )
    if guarantee.get("unit") == "user":
        yield from user_conditions(run.once)
        for row in (plan.get("user") or {}).get("periods") or []:
            yield (
                f"More than one period: over {row['count']} of them in a row a user has epsilon = "
                f"{words.short(row['epsilon'])}."
            )
    else:
        several = next(iter(plan.get("copies") or []), None)
        much = (
            f"; {several['count']} have epsilon = {words.short(several['epsilon'])}"
            if several
            else ""
        )
        yield f"Several records of one person: each more weakens the guarantee{much}."
    keys = (plan.get("canonical") or {}).get("key")
    if keys is not None:
        result = plan.get("discovery") is not None
        yield (
            "Which keys there are is released too, and protected as the guarantee says."
            if result
            else "Which keys there are: the list of them is public."
        )
    yield (
        "The data themselves, checkpoints, logs and the secret: anyone who runs the job can see "
        "them."
    )
    yield "Other releases of the same records: what they cost adds to this."


def _releases(run: ResultFolder) -> Iterator[tuple[str, str, str, str]]:
    """Name, what it is, and of each of its spans the words and the margin."""
    config = run.plan.get("config") or {}
    what = {
        str(item["name"]): str(item.get("what") or "") for item in run.plan.get("releases") or []
    }
    spans: dict[str, list[str]] = {}
    margins: dict[str, list[str]] = {}
    for output in run.outputs:
        worst, band = output.stddev_worst, "with each value"
        # Of means and models the plan's number is of the sums behind them.
        sums = (f"aggregates.{output.name}.{kind}" for kind in ("count", "sum", "histogram"))
        if math.isfinite(worst) and any(entry in config for entry in sums):
            band = f"\N{PLUS-MINUS SIGN} {number(run.band * worst, 3)} at most"
        spans.setdefault(output.name, []).append(words.span(output, run))
        margins.setdefault(output.name, []).append(band)
    for name, over in spans.items():
        margin = "; ".join(dict.fromkeys(margins[name]))
        yield name, what.get(name, ""), "; ".join(over), margin


ROWS_SHOWN = 12
NO_PICTURE = "report.png is not drawn: install its library with pip install 'weir-dp[png]'."


@dataclass(frozen=True)
class ReportPaths:
    """What was written, and the table of last values for a terminal.

    Attributes:
      png: the picture; None: the library that draws it is not installed.
      html: the page; None if only the picture was asked for.
      caption: what the table shows; apart from it, as a narrow table would fold it.
      table: last values with the half width of their 95 % margin.
      note: one line on what is missing from the run, or "".
      statement: the page to sign; None: it was not asked for.
      left_out: what bounds keep out of the values of the table, in a sentence each.
    """

    png: Path | None
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
      png_only: no page. A picture needs the extra ``weir-dp[png]``; without it the page is written
        alone, and the note says so.
      holdout: a file of events that are public: models' predictions of them are drawn too.
      statement: write ``statement.html`` next to the page: what is protected, to be signed.

    Returns:
      Paths and the table for a terminal.

    Raises:
      ConfigError: no results there, a key or name that the run does not have, held-back data that
        do not fit its models, or ``png_only`` where pictures cannot be drawn.
    """
    if png_only and not vega.is_installed():
        raise ConfigError("--png-only", None, NO_PICTURE)
    run = ResultFolder.open(directory)
    data = gather(run, keys, names)
    held = None if holdout is None else score(data, holdout)
    folder = Path(out) if out is not None else run.directory
    if folder.exists() and not folder.is_dir():
        raise ConfigError("out", str(folder), "must be a folder; there is a file of that name.")
    folder.mkdir(parents=True, exist_ok=True)
    png = page = None
    note = words.unfinished(run)
    if png_only or vega.is_installed():
        from weir.pipelines.report.picture import draw  # takes a second to import

        png = draw(data, folder / "report.png", held)
    else:
        note = " ".join(filter(None, [note, NO_PICTURE]))
    if not png_only:
        from weir.pipelines.report.page import page as drawn

        page = folder / "report.html"
        page.write_text(drawn(data, held), encoding="utf-8")
    signed = None
    if statement:
        signed = folder / "statement.html"
        signed.write_text(statement_page(run, metadata.version("weir-dp")), encoding="utf-8")
    caption = words.last_caption(data)
    return ReportPaths(png, page, caption, summary(data), note, signed, words.left_out(data))


def summary(data: ReportData) -> Table:
    """The last values as a table for a terminal, as many as its width holds: single numbers, or
    where there are none the first parts of others."""
    head, body = words.last_values(data)
    single = [0, *(i for i, title in enumerate(head) if i and len(title) == 2)]
    single = single if len(single) > 1 else list(range(len(head)))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown = [
        [Text(first), *(_cell(*value) for value in values)] for first, values in body[:ROWS_SHOWN]
    ]
    room = shutil.get_terminal_size((80, 24)).columns
    retained: list[int] = []
    for i in single:
        room -= 3 + max(len(line) for line in (*head[i], *(row[i].plain for row in shown)))
        if room < 0 and len(retained) > 1:
            break
        retained.append(i)
        justify: Literal["left", "right"] = "right" if i else "left"
        table.add_column(Text("\n".join(head[i])), justify=justify, no_wrap=True)
    for row in shown:
        table.add_row(*(row[i] for i in retained))
    hidden = [
        f"{len(body) - ROWS_SHOWN:,} more rows" if len(body) > ROWS_SHOWN else "",
        f"{len(head) - len(retained):,} more columns" if len(head) > len(retained) else "",
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
