"""A page to sign: what a release protects, against whom, for how long, and what it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime

from weir.dpcore.words import left_out_lines, number
from weir.pipelines.report import words
from weir.pipelines.report.page import policy, templates
from weir.pipelines.results.run import ResultFolder


def statement(run: ResultFolder, version: str, day: date | None = None) -> str:
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
        "whatever else they know, be it all other records. Not against whoever runs the job.",
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
            ("Dates", f"{first} to {last}, ticks {run.first_tick:,} to {run.last_tick:,}"),
            ("Plan", str(run.plan.get("digest") or "no _plan.json in this folder")),
            ("Versions", f"Weir {version}, plan version {run.plan.get('version', 1)}"),
            ("Printed", f"{day:%Y-%m-%d}"),
            *([("Budget", words.budget(run))] if words.budget(run) else []),
        ],
    )


def protected(run: ResultFolder) -> str:
    """What is hidden, in plain words."""
    guarantee = run.plan.get("guarantee") or {}
    noun, one = words.noun(run), words.unit(run)
    if guarantee.get("unit") == "user":
        per = words.period(run)
        counted = "of the calendar" if per and per.endswith(("month", "months")) else "of the clock"
        within = f" within {per} {counted}" if per else ""
        each = f": each {noun}, and all of them together" if noun != "event" else ""
        return f"All that one user adds{within}{each}. Whether it is there at all stays hidden."
    what = {
        "add_remove": f"One {one}. Whether it is among the records at all stays hidden.",
        "replace_one": f"What one {one} says. That there is one, where and when, is not hidden.",
        "replace_anywhere": f"What one {one} says, where it belongs, and when it was.",
    }
    return what.get(str(guarantee.get("relation")), f"One {one}.")


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
        "What the releases tell of everybody. It is what they are for, and it is known with or "
        "without any one record."
    )
    if guarantee.get("unit") == "user":
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
        yield f"Several records of one person: each more weakens the promise{much}."
    keys = (plan.get("canonical") or {}).get("key")
    if keys is not None:
        found = plan.get("discovery") is not None
        yield (
            "Which keys there are is released too, and protected as the promise says."
            if found
            else "Which keys there are: the list of them is public."
        )
    yield (
        "The data themselves, checkpoints, logs and the secret: whoever runs the job can see them."
    )
    yield "Other releases of the same records: what they cost adds to this."


def _releases(run: ResultFolder) -> Iterator[tuple[str, str, str, str]]:
    config = run.plan.get("config") or {}
    what = {
        str(item["name"]): str(item.get("what") or "") for item in run.plan.get("releases") or []
    }
    for output in run.outputs:
        worst, band = output.stddev_worst, "with each value"
        # Of means and models the plan's number is of the sums behind them.
        sums = (f"aggregates.{output.name}.{kind}" for kind in ("count", "sum", "histogram"))
        if math.isfinite(worst) and any(one in config for one in sums):
            band = f"\N{PLUS-MINUS SIGN} {number(run.band * worst, 3)} at most"
        yield output.name, what.get(output.name, ""), words.span(output, run), band
