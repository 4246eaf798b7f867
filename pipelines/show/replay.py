"""What ``weir audit --replay`` prints."""

from __future__ import annotations

from rich.console import Console

from weir.pipelines.audit.replayed import ReplayReport
from weir.pipelines.terminal import heading, number, table


def render_replay(report: ReplayReport, out: Console) -> None:
    """The claims with what neighbours use of them, the calls, and what is wrong."""
    out.print(heading(f"{report.name}: {report.tried:,} neighbours replayed"))
    for note in report.notes:
        out.print(f"Note: {note}")
    numbers = ("claimed", "proven", "share", "recomputed")
    rows = table("releases", *numbers, "neighbours", right=numbers)
    for row in report.audits:
        shown = row.to_json()
        rows.add_row(
            row.what,
            _number(shown["claimed"]),
            _number(shown["proven"]),
            f"{row.share:.4f}",
            _number(shown["recomputed"]),
            row.change,
            style="bold red" if row.broken else None,
        )
    out.print(rows)
    out.print(
        "\nproven: epsilon of the pair of streams that uses most of the claim, given all answers. "
        "share: its mu (root of rho, pure epsilon) over the claim's. recomputed: epsilon of that "
        "pair if each of its calls changed by all that it paid for."
    )
    sizes = ("sensitivity", "scale", "calls")
    rows = table("mechanism", "noise", *sizes, right=sizes)
    for call in report.calls:
        rows.add_row(
            call["mechanism"], call["noise"], number(call["sensitivity"]), number(call["scale"]),
            f"{call['calls']:,}",
        )  # fmt: skip
    out.print(rows)
    ratio, name, _ = report.largest
    if name:
        out.print(f"Largest change over declared sensitivity: {ratio:.4f} ({name}).")
    if report.early_claimed:
        out.print(
            f"Partition selection: noise releases a key of one user with probability "
            f"{report.early:.3g} at most, of {report.early_claimed:.3g} that delta has for it."
        )
    for what in report.broken:
        pair = report.faults.get(what, "")
        out.print(f"BROKEN: {what}" + (f" ({pair})" if pair else ""), style="bold red")
    if not report.broken:
        out.print("No claim was broken.")


def _number(value: float | None) -> str:
    return "infinite" if value is None else number(value)
