"""What the Python API takes as plan, secret and events, and what it says of anything else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.transforms import window

from tests.transforms.running import run
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.transforms.beam.private_releases import PrivateReleases
from weir.transforms.beam.python_events import check_elements
from weir.transforms.decode.memory_events import pick
from weir.transforms.decode.schema import EventSchema
from weir.transforms.operators.filter import Assign
from weir.transforms.runtime.secret import SecretRef

TEXT = """
name: shop
schema: {time: t}
key: {column: store, declared: [north, south]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates: {spent: {sum: dollars, clip: [0, 10]}}
"""
PLAN = Plan.from_yaml(TEXT)
SCHEMA = EventSchema.from_config(PLAN.config, PLAN.program.columns)
NAMES = ("t", "store", "dollars")
HEX = "5a" * 32


class Purchase(NamedTuple):
    t: str
    store: str
    dollars: float


@dataclass
class Sale:
    t: str
    store: str
    dollars: float


class Short(NamedTuple):
    t: str
    store: str
    dolars: float


class Odd(datetime):
    """As pandas' Timestamp is."""


VALUES: dict[str, Any] = {"t": "2025-01-01T01:00:00Z", "store": "north", "dollars": 3.0}


@pytest.fixture
def secret(tmp_path: Path) -> SecretRef:
    file = tmp_path / "secret.key"
    file.write_text(HEX)
    file.chmod(0o600)
    return SecretRef(file=str(file))


def into(events: list[Any], **kwargs: Any) -> Any:
    return beam.Pipeline() | beam.Create(events) | PrivateReleases(PLAN, **kwargs)


@pytest.mark.slow
def test_values_with_named_fields_are_events_like_dictionaries(secret: SecretRef) -> None:
    made = [VALUES, {**VALUES, "store": "south", "more": "x"}]
    expected = run(PLAN, made, secret=secret, kind=Any)
    assert not expected.dead and expected.counts["events"] == 2
    for kind in (beam.Row, Purchase, Sale):
        events = [kind(**{name: one[name] for name in NAMES}) for one in made]
        ran = run(PLAN, events, secret=secret, kind=Any)
        assert ran.rows == expected.rows and not ran.dead


def test_fields_are_picked_by_name_and_become_pythons_own() -> None:
    class Counted(NamedTuple):
        count: int
        index: Any

    assert pick(Counted(3, np.float32(0.5)), ["count", "index", "store"]) == {
        "count": 3,
        "index": 0.5,
        "store": None,
    }
    moment = datetime(2025, 1, 1, 1, 2, 3, 4, UTC)
    picked = pick({"a": np.int64(7), "b": np.datetime64("2025-01-01T00:00", "ns")}, ["a", "b"])
    assert picked == {"a": 7, "b": datetime(2025, 1, 1)}
    odd = pick({"a": Odd(2025, 1, 1, 1, 2, 3, 4, UTC), "b": np.datetime64("NaT")}, ["a", "b"])
    assert odd == {"a": moment, "b": None} and type(odd["a"]) is datetime
    for event in ("text", 7, None, ("north", 3.0), [VALUES], Sale):
        assert pick(event, NAMES) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Any, pd.DataFrame, pa.Table, pa.RecordBatch])
def test_frames_and_tables_hold_many_events(kind: Any, secret: SecretRef) -> None:
    made = [VALUES, {**VALUES, "store": "south"}, {**VALUES, "dollars": None}]
    expected = run(PLAN, made, secret=secret, kind=Any)
    frame = pd.DataFrame(made)
    parts = [frame.iloc[:2], frame.iloc[2:]]
    if kind is not pd.DataFrame:
        parts = [pa.Table.from_pandas(part, preserve_index=False) for part in parts]
    if kind is Any:
        parts = [*parts[1].to_batches(), frame.iloc[:2]]
    if kind is pa.RecordBatch:  # of a declared type they are decoded events: told from raw ones
        parts, kind = [batch for part in parts for batch in part.to_batches()], object
    ran = run(PLAN, parts, secret=secret, kind=kind)
    assert ran.rows == expected.rows and not ran.dead and ran.counts["events"] == 3


@pytest.mark.slow
def test_a_frame_that_lacks_a_column_is_refused(secret: SecretRef) -> None:
    with pytest.raises(ConfigError, match="did you mean dolars"):
        frame = pd.DataFrame([VALUES]).rename(columns={"dollars": "dolars"})
        run(PLAN, [frame], secret=secret, kind=Any)


@pytest.mark.slow
def test_a_value_that_is_no_event_is_dead_lettered_and_the_others_count(secret: SecretRef) -> None:
    ran = run(PLAN, [VALUES, "no event", None, VALUES], secret=secret, kind=Any)
    assert ran.dead == [("rows", 1, "", "malformed"), ("rows", 2, "", "malformed")]
    assert ran.counts["events"] == 2


@pytest.mark.parametrize(
    "events, hint",
    [
        (['{"t": "2025"}'], r"'str'.*json\.loads"),
        ([b"line"], r"'bytes'.*json\.loads"),
        ([7], "'int'"),
        ([("north", VALUES)], "Tuple"),
        ([[VALUES]], "List"),
    ],
)
def test_elements_whose_type_holds_no_event_are_refused_where_they_enter(
    events: list[Any], hint: str
) -> None:
    with pytest.raises(ConfigError, match=hint):
        into(events)


@pytest.mark.parametrize(
    "kind",
    [Any, object, dict, dict[str, Any], Purchase, Sale, pa.RecordBatch, pa.Table, pd.DataFrame],
)
def test_types_that_may_hold_events_pass(kind: Any) -> None:
    check_elements(kind, SCHEMA)


def test_a_declared_type_without_a_column_is_refused_with_the_nearest_name() -> None:
    for kind in (Short, beam.Row):
        with pytest.raises(ConfigError, match="did you mean dolars") as caught:
            into([kind(t="2025-01-01", store="north", dolars=1.0)])
        assert caught.value.value == "dollars"


@pytest.mark.parametrize("given", [HEX, HEX.encode(), Path("secret.key"), 7])
def test_a_secret_that_is_no_reference_is_refused_by_its_type_alone(given: Any) -> None:
    for more in ({"secret": given}, {"rotate": [(1, given)]}):
        with pytest.raises(TypeError, match=r" Secret\(file='secret\.key'\)") as caught:
            PrivateReleases(PLAN, **more)
        assert type(given).__name__ in str(caught.value) and HEX not in str(caught.value)
    with pytest.raises(TypeError, match="pairs"):
        PrivateReleases(PLAN, rotate=[SecretRef(file="later.key")])  # type: ignore[list-item]


@pytest.mark.parametrize("given", [TEXT, {"name": "shop"}, None, PLAN.config])
def test_a_plan_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"plan must be a Plan, not .*Plan\.from_yaml") as caught:
        PrivateReleases(given)
    assert "privacy" not in str(caught.value)


def test_numbers_of_ticks_are_held_to_their_bounds() -> None:
    for more in ({"every": 0}, {"every": -1}):
        with pytest.raises(ConfigError, match="whole number"):
            PrivateReleases(PLAN, **more)


def test_what_never_ends_or_is_windowed_is_refused_where_it_enters() -> None:
    pipeline = beam.Pipeline()
    endless = pipeline | beam.Create([VALUES])
    endless.is_bounded = False
    with pytest.raises(ConfigError, match="bounded=False"):
        endless | PrivateReleases(PLAN)
    hours = pipeline | "2" >> beam.Create([VALUES]) | beam.WindowInto(window.FixedWindows(3600))
    with pytest.raises(ConfigError, match=r"'FixedWindows'.*GlobalWindows"):
        hours | "3" >> PrivateReleases(PLAN)
    with pytest.raises(TypeError, match="PCollection"):
        PrivateReleases(PLAN).expand([VALUES])


def test_a_batch_of_undecoded_columns_says_what_to_give_instead() -> None:
    batch = pa.RecordBatch.from_pylist([VALUES])
    with pytest.raises(ConfigError, match=r"batch\.to_pylist\(\)"):
        Assign(PLAN, ["dollars"])(batch)
