"""What does an attacker prove of every algorithm and of every mutant, next to what is claimed?

    python -m tests.audit.tables                    every algorithm, and its table
    python -m tests.audit.tables --mutants          every mutant, and its table
    python -m tests.audit.tables --replay           every algorithm by weir audit --replay
    python -m tests.audit.tables --only blt         rows whose name holds this
    python -m tests.audit.tables --speed            one continual sum with 100,000 trials, its time

An algorithm is audited with many trials; a twin with its sabotage and without, at the audit's
default number of trials. Writes algorithms.csv, twins.csv or replays.csv next to this file, a line
as soon as it is measured, and from it a table in benchmarks/results: audit.md, or replay.md. The
bound is the claim: a lower bound of epsilon above it would be a breach; a mutant proves more, the
real thing less. Rows that are not measured again stay, with the figures of the day of their commit.
"""

from __future__ import annotations

import argparse
import csv
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.audit.cases import TRIALS, configs
from tests.audit.twins import TWINS, Twin
from weir.pipelines.audit.attack import Report, attack
from weir.pipelines.audit.audit import Audit
from weir.pipelines.audit.replay import replay_audit
from weir.pipelines.config.job import loads

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
PAGE = RESULTS / "audit.md"
REPLAYED = 60
"""Pairs of streams of a replay."""
Row = dict[str, str]


class Table(NamedTuple):
    """A table of the page.

    Attributes:
      file: of its rows, as CSV. fields: its columns; the first is the name of a row.
      marks: where it begins and ends in the page. titles: its head. cells: of a row of the page.
      names: of all rows, in order. measure: rows of a name. page: where the table is.
    """

    file: Path
    fields: Sequence[str]
    marks: tuple[str, str]
    titles: Sequence[str]
    cells: Callable[[Row], list[str]]
    names: Sequence[str]
    measure: Callable[[str], list[Row]]
    page: Path = PAGE

    def stored(self) -> dict[str, list[Row]]:
        """Name -> its rows, as they were measured."""
        found: dict[str, list[Row]] = {}
        if self.file.exists():
            with self.file.open() as file:
                for row in csv.DictReader(file):
                    found.setdefault(row[self.fields[0]], []).append(row)
        return found

    def keep(self, rows: Mapping[str, list[Row]]) -> None:
        """Writes all rows, in order, and the table of the page."""
        flat = [row for name in self.names for row in rows.get(name, [])]
        with self.file.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.fields, lineterminator="\n")
            writer.writeheader()
            writer.writerows(flat)
        head, *body = (f"| {' | '.join(row)} |" for row in (self.titles, *map(self.cells, flat)))
        lines = "\n".join([head, "|---" * len(self.titles) + "|", *body])
        begin, end = self.marks
        before, _, rest = self.page.read_text().partition(begin)
        self.page.write_text(f"{before}{begin}\n{lines}\n{end}{rest.partition(end)[2]}")


CASES = {name: (text, trials) for name, text, trials in configs()}
FULLER = {
    "erm.sampled, block: 30": CASES["erm.sampled"][0].replace("block: 6", "block: 30"),
    "optimize.sfw_polyhedral, form: tree": (f"{CASES['optimize.sfw_polyhedral'][0]}  form: tree\n"),
}
"""Of replays only: fits of more than a few rows, and a form that is no default at this width."""
TEXTS = {name: text for name, (text, _) in CASES.items()} | FULLER
BY_NAME = {one.name: one for one in TWINS}


def audited(name: str) -> list[Row]:
    """Rows of the audits of all releases of one algorithm."""
    text, trials = CASES[name]
    report = attack(loads(text), trials=trials, only="all releases", fuzz=False)
    found = []
    for one in report.audits:
        facts = {"algorithm": name, **one.to_json()}
        found.append({field: shown(facts[field]) for field in ALGORITHMS.fields})
    return found


def replayed(name: str) -> list[Row]:
    """The row of a replay: of the span of which most of the claim is used."""
    began = time.process_time()
    report = replay_audit(loads(TEXTS[name]), trials=REPLAYED)
    best = max(report.audits, key=lambda one: one.share)
    row = {
        "algorithm": name,
        "what": best.what,
        "share": f"{best.share:.2f}",
        "largest": f"{report.largest[0]:.2f}",
        "pairs": str(report.tried),
        "seconds": f"{report.seconds:.1f}",
        "processor": f"{time.process_time() - began:.1f}",
        "broken": "; ".join(report.broken),
    }
    return [row]


def caught(name: str) -> list[Row]:
    """The row of a twin."""
    one, began = BY_NAME[name], time.monotonic()
    broken, real = one.attacked(), one.attacked(sound=True)
    where = one.caught(broken)
    mine, theirs = first_of(broken, one), first_of(real, one)
    return [
        {
            "twin": name,
            "caught": where[0].partition(" (")[0] if where else "",
            "claimed": shown(mine and mine.claim.epsilon),
            "twin_proves": shown(mine and mine.proven),
            "real_proves": shown(theirs and theirs.proven),
            "claimed_mu": shown(mine and mine.claim.mu),
            "twin_proves_mu": shown(mine and mine.proven_mu),
            "real_proves_mu": shown(theirs and theirs.proven_mu),
            "by": mine.by if mine else "bits" if broken.isolation is not None else "",
            "real_broken": "; ".join(real.broken),
            "seconds": f"{time.monotonic() - began:.1f}",
        }
    ]


def first_of(report: Report, one: Twin) -> Audit | None:
    """The first audit that the twin names."""
    return next((audit for audit in report.audits if one.only in audit.what), None)


def shown(value: object) -> str:
    """Four digits; nothing for None."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def cells_of_algorithm(row: Row) -> list[str]:
    """As the page has them."""
    what, claimed = row["what"].removeprefix("all releases "), row["claimed"] or "no bound"
    numbers = [row[name] for name in ("proven", "claimed_mu", "proven_mu", "tightness")]
    return [row["algorithm"], what, claimed, *numbers, f"{int(row['trials']):,}",
            row["distinguisher"]]  # fmt: skip


def cells_of_twin(row: Row) -> list[str]:
    """As the page has them."""
    numbers = [row.get(field, "") for field in MUTANTS.fields[2:9]]
    return [row["twin"], row["caught"] or "NOT CAUGHT", *numbers]


ALGORITHMS = Table(
    HERE / "algorithms.csv",
    ("algorithm", "what", "claimed", "proven", "claimed_mu", "proven_mu", "tightness", "delta",
     "trials", "seconds", "distinguisher", "broken"),
    ("<!-- table: python -m tests.audit.tables -->", "<!-- end of table -->"),
    ("algorithm", "releases", "claimed eps", "proven eps", "claimed mu", "proven mu", "tightness",
     "trials", "by"),
    cells_of_algorithm,
    list(CASES),
    audited,
)  # fmt: skip
REPLAYS = Table(
    HERE / "replays.csv",
    ("algorithm", "what", "share", "largest", "pairs", "seconds", "processor", "broken"),
    ("<!-- table: python -m tests.audit.tables --replay -->", "<!-- end of table -->"),
    ("algorithm", "releases", "share", "largest change"),
    lambda row: [row["algorithm"], row["what"], row["share"], row["largest"]],
    list(TEXTS),
    replayed,
    RESULTS / "replay.md",
)
MUTANTS = Table(
    HERE / "twins.csv",
    ("twin", "caught", "claimed", "twin_proves", "real_proves", "claimed_mu", "twin_proves_mu",
     "real_proves_mu", "by", "real_broken", "seconds"),
    ("<!-- table: python -m tests.audit.tables --mutants -->", "<!-- end of mutants -->"),
    ("mutant", "caught in", "claimed eps", "mutant proves", "real thing proves", "claimed mu",
     "mutant proves", "real thing proves", "by"),
    cells_of_twin,
    list(BY_NAME),
    caught,
)  # fmt: skip


def main() -> None:
    """See the module."""
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--mutants", action="store_true", help="Mutants, in place of algorithms.")
    parser.add_argument("--replay", action="store_true", help="Replays, in place of attacks.")
    parser.add_argument("--only", default="", help="Names that hold this.")
    parser.add_argument("--missing", action="store_true", help="Only what was never measured.")
    parser.add_argument("--speed", action="store_true", help="Time one audit of 100,000 trials.")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    table: Any = MUTANTS if given.mutants else REPLAYS if given.replay else ALGORITHMS
    began, spent = time.monotonic(), time.process_time()
    if given.speed:
        (first, *_) = audited(next(iter(CASES)))
        took = f"{time.monotonic() - began:.1f} s for {TRIALS:,} trials and all rows"
        print(f"{first['algorithm']}: {took}; tightness {first['tightness']}")
        return
    rows = table.stored()
    for name in table.names:
        if given.only in name and not (given.missing and name in rows):
            rows[name] = table.measure(name)
            table.keep(rows)
            print(f"{name}: after {time.monotonic() - began:.1f} s", flush=True)
    processor = time.process_time() - spent
    print(f"{time.monotonic() - began:.0f} s, {processor:.0f} s of processor time")


if __name__ == "__main__":
    main()
