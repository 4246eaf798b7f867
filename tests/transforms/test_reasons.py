"""Reasons by field: counters that pass any runner, and the table of what was refused."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.transforms.runtime import counters as process_counts
from weir.transforms.runtime.dead_letters import count_dead, dead_letters, reason_code, rows
from weir.transforms.runtime.reasons import (
    MISSING,
    REASONS,
    Refused,
    by_field,
    counter_of,
    refused_by_field,
    words,
)

FIELDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ["time_x", "_in_", "_2e", "__", ".", "a.b", "a_2eb", "in_rating", "größe"]
)


@pytest.mark.slow
@given(st.dictionaries(st.tuples(FIELDS, st.sampled_from([*REASONS, MISSING])), st.integers(1, 9)))
def test_counters_come_back_from_names_of_plain_letters(found: dict[tuple[str, str], int]) -> None:
    counters = {counter_of(field, reason): n for (field, reason), n in found.items()}
    assert all(re.fullmatch("[A-Za-z0-9_]+", name) for name in counters)
    assert by_field({**counters, "events": 7, "late": 2, "came_in_x": 1}) == found


def test_the_table_counts_what_was_refused_and_nothing_else() -> None:
    counters = {
        "events": 90, "filtered": 5, "clipped": 4, "non_finite": 9, "duplicate": 3,
        "over_capacity": 2, "malformed": 6, "not_a_number": 5, "unreadable_time": 1,
        counter_of("rating", "not_a_number"): 4, counter_of("x_y", "not_a_number"): 1,
        counter_of("rating", MISSING): 8, counter_of("at", "unreadable_time"): 1,
        "late": 2,
    }  # fmt: skip
    assert refused_by_field(counters) == [
        Refused("", "malformed", 6, True),
        Refused("rating", "not_a_number", 4, False),
        Refused("", "late", 2, True),
        Refused("at", "unreadable_time", 1, True),
        Refused("x_y", "not_a_number", 1, False),
    ]
    assert refused_by_field({"events": 7, "ticks_released": 3}) == []
    assert words("rating", "not_a_number") == "rating: not a number" and words("", "late") == "late"


def test_dead_letters_are_counted_by_reason_and_by_field() -> None:
    fields = pa.array(["a.b", "", "a.b", "c"]).dictionary_encode()
    codes = np.array([reason_code("not_text"), 0, reason_code("not_text"), reason_code("not_text")])
    letters = dead_letters("x", np.arange(4), codes.astype(np.int8), fields)
    assert list(rows(letters))[0] == ("x", 0, "a.b", "not_text")
    process_counts.reset()
    count_dead(letters)
    found = process_counts.snapshot()
    assert (found["not_text"], found["malformed"]) == (3, 1)
    assert by_field(found) == {("a.b", "not_text"): 2, ("c", "not_text"): 1}
