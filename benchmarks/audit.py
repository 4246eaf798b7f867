"""What does an attacker prove of every registered algorithm, beside what its plan claims?

    python -m benchmarks.audit                 every algorithm, and the table of docs/audit.md
    python -m benchmarks.audit --only blt      rows whose name holds this
    python -m benchmarks.audit --speed         one continual sum with 100,000 trials, and its time

Writes benchmarks/results/audit.csv, a line as soon as it is measured, and remakes the table in
docs/audit.md from it. The bound is the claim: a lower bound of epsilon above it would be a breach.
Rows that are not measured again stay, with the commit-day's figures.
"""

from __future__ import annotations

import argparse
import csv
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS
from pipelines.audit.attack import attack
from pipelines.config.job import loads

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "results" / "audit.csv"
PAGE = ROOT / "docs" / "audit.md"
BEGIN, END = "<!-- table: python -m benchmarks.audit -->", "<!-- end of table -->"
FIELDS = (
    "algorithm", "what", "claimed", "proven", "claimed_mu", "proven_mu", "tightness", "delta",
    "trials", "seconds", "distinguisher", "broken",
)  # fmt: skip
TRIALS, FEWER = 100_000, 8_000
HEAD = """
name: audit
source: {{parquet: nowhere/events.parquet}}
schema: {schema}
key: {{column: k, declared: [north]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T{ticks:02d}:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}, relation: {relation}}}
sink: {{parquet: nowhere/out}}
"""
L1 = ("online.conditional_gradient", "optimize.frank_wolfe")
ONE_PASS = ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd")


def head(
    epsilon: float = 1.0, delta: float = 1e-6, window: int | str = 2, ticks: int = 21,
    relation: str = "add_remove", schema: str = "{time: t}",
) -> str:  # fmt: skip
    """Sections that all have in common."""
    return HEAD.format(epsilon=epsilon, delta=delta, window=window, ticks=ticks,
                       relation=relation, schema=schema)  # fmt: skip


def configs() -> Iterator[tuple[str, str, int]]:
    """(algorithm, config, trials) of everything that is registered."""
    for name in CONTINUAL_SUMS.own:
        cls = CONTINUAL_SUMS[name]
        over = next(text for text, overs in (("all", (None,)), ("2", (2,)), ("1", (1,)))
                    if cls.serves(overs))  # fmt: skip
        for noise in cls.kinds:
            text = head(delta=0 if noise == "k_norm" else 1e-6)
            text += f"mechanism: {{continual_sum: {name}, noise: {noise}}}\n"
            text += f"aggregates: {{s: {{sum: y, clip: [0, 10], over: {over}}}}}\n"
            yield f"{name}, {noise}", text, TRIALS
    of = {
        "count": "count: events", "sum": "sum: y, clip: [0, 10]", "mean": "mean: y, clip: [0, 10]",
        "variance": "variance: y, clip: [0, 10]",
        "quantile": "quantile: y, at: [0.5], edges: [0, 2.5, 5, 7.5, 10]",
        "histogram": "histogram: y, edges: [0, 4, 8]",
    }  # fmt: skip
    for name in AGGREGATES.own:
        yield (
            name,
            head(epsilon=2, window=8, ticks=8) + f"aggregates: {{a: {{{of[name]}}}}}\n",
            20_000,
        )
    for name in MODELS.own:
        ball = "l1_ball" if name in L1 else "l2_ball"
        section = f"  set: {{{ball}: 2}}\n"
        schema, before = "{time: t}", ""
        if name in ONE_PASS:
            section, schema = "  records: 16\n", "{time: t, id: i}"
        elif name == "erm.sampled":
            section, schema = "  block: 6\n", "{time: t, id: i}"
        elif name.startswith("erm."):
            section, before = "  block: 2h\n", "expect: {events: 2}\n"
        elif name == "optimize.frank_wolfe":
            section, before = section + "  block: 2h\n", "expect: {events: 2}\n"
        elif name == "regression.projected":
            section += "  projection: {dimension: 1}\n"
        text = head(4.0, 1e-3, "all", 12, "replace_one", schema) + before
        text += f"model:\n  algorithm: {name}\n  features: [u, v]\n  target: y\n"
        text += "  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}\n" + section
        if name == "regression.erm":
            for solver in SOLVERS.own:
                yield f"{name}, {solver}", f"{text}  solver: {solver}\n", FEWER // 4
        else:
            yield name, text, FEWER


def measured(name: str, text: str, trials: int) -> list[dict[str, str]]:
    """Rows of the audits of all releases of one algorithm."""
    report = attack(loads(text), trials=trials, only="all releases", fuzz=False)
    found = []
    for one in report.audits:
        facts = {"algorithm": name, **one.to_json()}
        found.append({field: _shown(facts[field]) for field in FIELDS})
    return found


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def stored() -> dict[str, list[dict[str, str]]]:
    """Algorithm -> its rows, as they were measured."""
    found: dict[str, list[dict[str, str]]] = {}
    if TABLE.exists():
        with TABLE.open() as file:
            for row in csv.DictReader(file):
                found.setdefault(row["algorithm"], []).append(row)
    return found


def keep(rows: dict[str, list[dict[str, str]]]) -> None:
    """Writes all rows, in the order of the registry, and the table of the page."""
    order = [name for name, _, _ in configs() if name in rows]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for name in order:
            writer.writerows(rows[name])
    titles = ("algorithm", "releases", "claimed eps", "proven eps", "claimed mu", "proven mu")
    titles += ("tightness", "trials", "by")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name in order:
        for row in rows[name]:
            cells = [name, row["what"].removeprefix("all releases "), row["claimed"] or "no bound",
                     row["proven"], row["claimed_mu"], row["proven_mu"], row["tightness"],
                     f"{int(row['trials']):,}", row["distinguisher"]]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", help="Names that hold this.")
    parser.add_argument("--missing", action="store_true", help="Only what was never measured.")
    parser.add_argument("--speed", action="store_true", help="Time one audit of 100,000 trials.")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    if given.speed:
        name, text, _ = next(iter(configs()))
        began = time.monotonic()
        (first, *_) = measured(name, text, TRIALS)
        print(f"{name}: {time.monotonic() - began:.1f} s for {TRIALS:,} trials and all rows;",
              f"tightness {first['tightness']}")  # fmt: skip
        return
    rows = stored()
    for name, text, trials in configs():
        if given.only and given.only not in name or given.missing and name in rows:
            continue
        began = time.monotonic()
        rows[name] = measured(name, text, trials)
        keep(rows)
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
