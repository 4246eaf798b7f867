"""Does an audit catch every broken twin of the suite, and what does it prove of the real thing?

    python -m benchmarks.audit_twins                 every twin, and the catalogue in docs/audit.md
    python -m benchmarks.audit_twins --only birth    twins whose name holds this

Every twin of tests/audit/twins is audited with its sabotage and without, at the audit's default
number of trials. Writes benchmarks/results/audit_twins.csv and remakes the catalogue in
docs/audit.md from it. The bound is the claim: a twin proves more, the real thing less. Rows that
are not measured again stay, with the commit-day's figures.
"""

from __future__ import annotations

import argparse
import csv
import logging
import time
from pathlib import Path

from tests.audit.twins import TWINS, Twin
from weir.pipelines.audit.attack import Report
from weir.pipelines.audit.audit import Audit

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "results" / "audit_twins.csv"
PAGE = ROOT / "docs" / "audit.md"
BEGIN, END = "<!-- table: python -m benchmarks.audit_twins -->", "<!-- end of twins -->"
FIELDS = (
    "twin", "caught", "claimed", "twin_proves", "real_proves", "claimed_mu", "twin_proves_mu",
    "real_proves_mu", "by", "real_broken", "seconds",
)  # fmt: skip


def measured(one: Twin) -> dict[str, str]:
    """A row of the table."""
    began = time.monotonic()
    broken, real = one.attacked(), one.attacked(sound=True)
    caught = one.caught(broken)
    mine, theirs = _asked(broken, one), _asked(real, one)
    by = mine.by if mine else "bits" if broken.alone is not None else ""
    return {
        "twin": one.name,
        "caught": caught[0].partition(" (")[0] if caught else "",
        "claimed": _shown(mine and mine.claim.epsilon),
        "twin_proves": _shown(mine and mine.proven),
        "real_proves": _shown(theirs and theirs.proven),
        "claimed_mu": _shown(mine and mine.claim.mu),
        "twin_proves_mu": _shown(mine and mine.proven_mu),
        "real_proves_mu": _shown(theirs and theirs.proven_mu),
        "by": by,
        "real_broken": "; ".join(real.broken),
        "seconds": f"{time.monotonic() - began:.1f}",
    }


def _asked(report: Report, one: Twin) -> Audit | None:
    """The first audit that is asked for."""
    return next((audit for audit in report.audits if one.only in audit.what), None)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def stored() -> dict[str, dict[str, str]]:
    """Twin -> its row, as it was measured."""
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        return {row["twin"]: row for row in csv.DictReader(file)}


def keep(rows: dict[str, dict[str, str]]) -> None:
    """Writes all rows, in the order of the catalogue, and the table of the page."""
    order = [one.name for one in TWINS if one.name in rows]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in order)
    titles = ("broken twin", "caught in", "claimed eps", "twin proves", "real thing proves",
              "claimed mu", "twin proves", "real thing proves", "by")  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name in order:
        row = rows[name]
        told = [row.get(field, "") for field in FIELDS[2:9]]
        cells = [name, row["caught"] or "NOT CAUGHT", *told]
        lines.append(f"| {' | '.join(cells)} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", help="Names that hold this.")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = stored()
    for one in TWINS:
        if given.only and given.only not in one.name:
            continue
        rows[one.name] = measured(one)
        keep(rows)
        row = rows[one.name]
        print(f"{one.name}: {row['caught'] or 'NOT CAUGHT'}, {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
