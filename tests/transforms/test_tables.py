"""Frames of pandas and tables of Arrow as events: read as files are, each record alone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.memory_events import decode_table, is_frame, is_table
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime.dead_letters import rows

SCHEMA = EventSchema.build(
    Stamp("at"), key="store", id="no", numbers=["dollars"], where="member == true"
)
START = datetime(2025, 1, 1, tzinfo=UTC)
GOOD: dict[str, list[Any]] = {
    "at": [START, START.replace(hour=5), None],
    "store": ["north", "south", "north"],
    "no": ["a", "b", "c"],
    "dollars": [1.5, None, 3.0],
    "member": [True, False, None],
    "more": ["not", "read", "at all"],
}


def read(given: Any, schema: EventSchema = SCHEMA, **more: Any) -> tuple[list[dict], list[Any]]:
    found: list[Decoded] = list(decode_table(given, schema, **more))
    events = [row for one in found if one.events is not None for row in one.events.to_pylist()]
    dead = [row for one in found if one.dead is not None for row in rows(one.dead)]
    for event in events:  # NaN is not equal to itself
        event["dollars"] = None if np.isnan(event["dollars"]) else event["dollars"]
    return events, dead


def frames() -> dict[str, Any]:
    frame = pd.DataFrame(GOOD)
    return {
        "inferred": frame,
        "objects": pd.DataFrame(GOOD, dtype=object),
        "categories": frame.astype({"store": "category"}),
        "old texts": frame.astype({"store": pd.StringDtype("python"), "no": object}),
        "nullable": frame.assign(member=frame["member"].astype("boolean")),
        "arrow": pa.table(GOOD).to_pandas(types_mapper=pd.ArrowDtype),
        "index": frame.set_index("at"),
        "levels": frame.set_index(["at", "store"]),
        "odd index": frame.set_index(np.array([7, 7, 7])),
        "table": pa.table(GOOD),
        "batch": pa.RecordBatch.from_pydict(GOOD),
        "chunks": pa.concat_tables([pa.table(GOOD).slice(at, 1) for at in range(3)]),
    }


@pytest.mark.parametrize("kind", list(frames()))
def test_all_of_them_give_the_same_events(kind: str) -> None:
    given = frames()[kind]
    events, dead = read(given)
    assert is_table(given) and is_frame(given) == isinstance(given, pd.DataFrame)
    assert [event["@time"] for event in events] == [START, START.replace(hour=5)]
    assert [event["@key"] for event in events] == ["north", "south"]
    assert [event["@id"] for event in events] == ["a", "b"]
    assert [event["dollars"] for event in events] == [1.5, None]
    assert [event["member"] for event in events] == [True, False]
    assert [event["@position"] for event in events] == [0, 1]
    assert [(position, field, why) for _, position, field, why in dead] == [
        (2, "at", "missing_time")
    ]


def test_long_ones_come_in_batches_and_positions_go_on() -> None:
    for given in (pa.table(GOOD), pd.DataFrame(GOOD)):
        found = list(decode_table(given, SCHEMA, first=10, batch_rows=2))
        assert [0 if one.events is None else one.events.num_rows for one in found] == [2, 0]
        assert [row[1] for one in found if one.dead is not None for row in rows(one.dead)] == [12]


ODD: dict[str, list[Any]] = {
    "at": [
        "2025-01-01T00:00:00Z", START, date(2025, 1, 1), pd.Timestamp(START), "no time", pd.NaT,
        np.datetime64("2025-01-01"), 7.5, b"\xff",
    ],
    "store": ["north", 7, None, "\ud800", 7.5, b"south", float("nan"), pd.NA, True],
    "no": ["a", 5, "\ud800", b"\xff", None, 2**70, np.int64(5), 1.5, "b"],
    "dollars": ["12", 12, 12.0, "1_2", "abc", Decimal("12"), np.float32(12), None, "\ud800"],
    "member": [True, None, "true", 1, False, pd.NA, np.bool_(True), float("nan"), "no"],
}  # fmt: skip


@pytest.mark.slow
def test_a_value_of_a_column_of_objects_is_read_alone() -> None:
    """Each odd value in a good event: next to each other value of its column, and all together."""
    lenient = SCHEMA.lenient()
    good = {"at": START, "store": "north", "no": "a", "dollars": 1.5, "member": True}

    def outcome(some: list[dict[str, Any]]) -> list[Any]:
        frame = pd.DataFrame({n: pd.Series([one[n] for one in some], dtype=object) for n in good})
        events, dead = read(frame, lenient)
        found: list[Any] = [[] for _ in some]
        for event in events:
            found[event.pop("@position")].append(tuple(event.items()))
        for _, position, field, why in dead:
            found[position].append((field, why))
        return found

    records, alone = [], []
    for name, values in ODD.items():
        some = [good | {name: value} for value in values]
        each = [outcome([one])[0] for one in some]
        for one, expected in zip(some, each, strict=True):
            for other in some:
                assert outcome([other, one])[1] == expected
        records += some
        alone += each
    assert outcome(records) == alone and outcome(records[::-1]) == alone[::-1]
    assert len({str(one) for one in alone}) > 12


def test_a_word_among_numbers_spoils_itself_only() -> None:
    """As pandas.read_csv leaves it: one bad cell turns a column of numbers into texts."""
    base = pd.DataFrame({"at": [START] * 3, "store": "north", "no": list("abc"), "member": True})
    clean, _ = read(base.assign(dollars=[1.5, 2.5, 3.5]))
    for texts in (
        ["1.5", "x", "3.5"],
        pd.Series(["1.5", "x", "3.5"], dtype=object),
        [1.5, "x", 3.5],
    ):
        spoilt, dead = read(base.assign(dollars=texts))
        assert [one["dollars"] for one in spoilt] == [1.5, None, 3.5]
        assert [spoilt[0], spoilt[2]] == [clean[0], clean[2]]
        assert [row[2:] for row in dead] == [("dollars", "not_a_number")]


def test_on_a_stream_a_table_may_lack_a_column() -> None:
    for given in (pd.DataFrame(GOOD).drop(columns="dollars"), pa.table(GOOD).drop(["dollars"])):
        events, dead = read(given, SCHEMA.lenient())
        assert [event["dollars"] for event in events] == [None, None] and len(dead) == 1
    for given in (pd.DataFrame(GOOD).drop(columns="at"), pa.table(GOOD).drop(["at"])):
        events, dead = read(given, SCHEMA.lenient())
        assert not events and [row[3] for row in dead] == ["missing_time"] * 3


def test_a_column_that_is_not_there_or_of_no_such_type_is_refused_by_name() -> None:
    frame, table = pd.DataFrame(GOOD), pa.table(GOOD)
    for given, name in ((frame, "the frame"), (table, "the table")):
        other = given.rename(columns={"dollars": "dolars"}) if is_frame(given) else (
            given.rename_columns(["dolars" if n == "dollars" else n for n in given.schema.names])
        )  # fmt: skip
        with pytest.raises(ConfigError, match=f"not a column of {name}; did you mean dolars"):
            read(other)
    with pytest.raises(ConfigError, match="there twice"):
        read(pd.concat([frame, frame[["dollars"]]], axis=1))
    with pytest.raises(ConfigError, match="key.column"):
        read(frame.assign(store=[0.5, 1.5, 2.5]))
    with pytest.raises(ConfigError, match="aggregates = 'dollars'"):
        read(frame.assign(dollars=pd.to_timedelta([1, 2, 3])))
    assert not is_table({"at": 1}) and not is_table([frame])
