"""What ``weir audit`` prints."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from weir.pipelines.audit.attack import Report
from weir.pipelines.audit.audit import Audit
from weir.pipelines.terminal import heading, table

NUMBERS = ("claimed eps", "proven eps", "claimed mu", "proven mu", "trials", "s")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "no bound" if math.isinf(value) else f"{value:.3g}"


def _table(audits: list[Audit]) -> Table:
    made = table("releases", *NUMBERS, "by", right=NUMBERS)
    for one in audits:
        made.add_row(
            one.what,
            _number(one.claim.epsilon),
            _number(one.proven),
            _number(one.claim.mu),
            _number(one.proven_mu),
            f"{one.trials:,}",
            f"{one.seconds:.1f}",
            one.by,
            style="bold red" if one.broken else None,
        )
    return made


def render(report: Report, out: Console) -> None:
    """A table of audits, and what else was found."""
    out.print(heading(f"{report.name}: audited from bytes to the sink"))
    for note in report.notes:
        out.print(f"Note: {note}")
    if report.audits:
        for change in dict.fromkeys(one.change for one in report.audits):
            mine = [one for one in report.audits if one.change == change]
            out.print(f"\nNeighbours: {change}")
            out.print(_table(mine))
        out.print(
            "\nproven: what an attacker who sees everything else shows with 95 % confidence, at "
            "the claim's delta: a lower bound. The truth lies between it and the claim."
        )
    if report.isolation is not None:
        found = report.isolation
        out.print(
            f"Bytes: records malformed in {len(found.forms)} ways moved {found.moved} of "
            f"{found.bystanders} keys that they do not belong to; a run took "
            f"{found.seconds[0]:.2f} s with them and {found.seconds[1]:.2f} s without "
            "(measured, not promised)."
        )
    for words in report.broken:
        out.print(f"BROKEN: {words}", style="bold red")
    if not report.broken:
        out.print("No claim was broken.")
