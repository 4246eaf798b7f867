"""The page on learners has the table of default settings that was measured."""

from __future__ import annotations

from benchmarks import defaults
from benchmarks.default_sets import NEW, TABLES
from benchmarks.harness import RESULTS, rows_of


def test_the_table_of_the_page_is_that_of_the_measurement() -> None:
    rows = list(rows_of(RESULTS / "defaults.csv"))
    assert {row["set"] for row in rows} == set(TABLES) and 2 * len(NEW) == len(TABLES)
    page = defaults.PAGE.read_text()
    assert defaults.with_table(page, defaults.markdown(rows)) == page
    at_one = [float(row["ratio"]) for row in rows if float(row["epsilon"]) == 1]
    assert len(at_one) == 8 and sum(ratio <= 1.15 for ratio in at_one) >= 7
