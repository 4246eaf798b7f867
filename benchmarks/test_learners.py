"""The page on learners has the tables that were measured."""

from __future__ import annotations

from benchmarks import learners
from benchmarks.harness import RESULTS, rows_of


def test_the_table_of_the_page_is_that_of_the_measurement() -> None:
    rows = list(rows_of(RESULTS / "learners.csv"))
    assert {row["stream"] for row in rows} == set(learners.STREAMS)
    page = learners.PAGE.read_text()
    assert learners.with_table(page, learners.markdown(rows)) == page
