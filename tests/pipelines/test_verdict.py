"""How much of an input may be refused before its releases wait for somebody's word."""

from __future__ import annotations

import pytest

from weir.pipelines.config.job import JobConfig, json_schema
from weir.pipelines.results.verdict import judge
from weir.transforms.runtime.reasons import counter_of

DONE = {"ticks_released": 24}


@pytest.mark.parametrize(
    ("counts", "limit", "passes", "records", "put_aside"),
    [
        ({}, 0.0, True, 0, 0),
        ({"events": 10}, 0.0, True, 10, 0),
        ({"events": 5, "malformed": 5}, 0.5, True, 10, 5),
        ({"events": 5, "malformed": 6}, 0.5, False, 11, 6),
        ({"events": 71, "too_long": 29}, 0.29, True, 100, 29),
        ({"events": 10, "unknown_key": 6}, 0.5, False, 10, 6),
        ({"events": 10, "before_start": 2, "after_end": 2, "late": 2}, 0.5, False, 10, 6),
        ({"events": 10, "duplicate": 9, "filtered": 9, "over_capacity": 9}, 0.0, True, 10, 0),
        ({"events": 10, "clipped": 9, "non_finite": 9, "out_of_range": 9}, 0.0, True, 10, 0),
        ({"malformed": 1}, 0.99, False, 1, 1),
        ({"malformed": 1}, 1.0, True, 1, 1),
        ({"events": 10**6, "malformed": 1}, 0.0, False, 10**6 + 1, 1),
    ],
)
def test_records_that_were_put_aside_are_held_against_the_limit(
    counts: dict[str, int], limit: float, passes: bool, records: int, put_aside: int
) -> None:
    found = judge({**DONE, **counts}, limit)
    assert (found.passes, found.records, found.put_aside) == (passes, records, put_aside)
    if not passes:
        assert f"{put_aside:,} of {records:,} records were rejected (" in str(found)


@pytest.mark.parametrize(("count", "passes"), [(50, True), (51, False)])
def test_no_field_may_be_unreadable_in_too_many_records(count: int, passes: bool) -> None:
    half = {counter_of("a.b", "not_a_number"): count - 25, counter_of("a.b", "not_text"): 25}
    plain = {"not_a_number": count - 25, "not_text": 25}
    other = {"not_a_time": 30, counter_of("c", "not_a_time"): 30}
    found = judge({**DONE, "events": 100, **plain, **half, **other}, 0.5)
    assert found.passes is passes and found.put_aside == 0 and found.records == 100
    if not passes:
        assert "51 values of a.b in 100 records could not be read" in str(found)


def test_a_runner_that_does_not_tell_passes_nothing() -> None:
    assert not judge({}, 1.0).passes
    assert "does not tell" in str(judge({}, 1.0))


def test_reasons_are_listed_the_most_frequent_first() -> None:
    found = judge({**DONE, "events": 9, "late": 1, "malformed": 3}, 0.0).to_json()
    assert [row["reason"] for row in found["reasons"]] == ["malformed", "late"]
    assert found["records"] == 12 and found["put_aside"] == 4


def test_the_schema_tells_its_bounds() -> None:
    field = json_schema()["$defs"]["Limits"]["properties"]["refused"]
    assert (field["minimum"], field["maximum"], field["default"]) == (0, 1, 0.05)
    assert JobConfig.model_fields["limits"].default.refused == 0.05
