"""Filter and assign: order of the rules, edges of the clock, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.doubles import CountSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys
from weir.pipelines.graph.build import in_process_runner
from weir.transforms.beam.stateless import FilterDoFn
from weir.transforms.decode.canonical import assemble, placed
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.operators.filter import Assign
from weir.transforms.runtime.dead_letters import rows

CLOCK = Clock(start=1000, period=10, end=1035, delay=5)


@dataclass(frozen=True)
class PublicPlan:
    clock: Clock
    keys: Keys
    where: str | None = None
    program: Any = CountSum()

    def block_of(self, keys: Sequence[bytes]) -> Any:
        return self.keys.block_of(keys)

    def block_keys(self, block: int) -> tuple[bytes, ...]:
        return self.keys.block_keys(block)


KEYS = tuple(f"k{i}" for i in range(40))
DECLARED = PublicPlan(CLOCK, Keys.make("key", KEYS, False, 16), "x > 0")
OBSERVED = PublicPlan(CLOCK, Keys.make("key", None, True, 16))
SINGLE = PublicPlan(CLOCK, Keys.make(None, None, False, None))


def batch(
    times: list[int],
    keys: list[str | None] | None = None,
    arrivals: list[int | None] | None = None,
    x: list[float] | None = None,
) -> pa.RecordBatch:
    stamp = pa.timestamp("us", "UTC")
    columns: dict[str, Any] = {"@time": pa.array(times, pa.int64()).view(stamp)}
    if keys is not None:
        columns["@key"] = pa.array(keys, pa.string()).dictionary_encode()
    if arrivals is not None:
        columns["@arrival"] = pa.array(arrivals, pa.int64()).view(stamp)
    columns["@position"] = pa.array(range(len(times)), pa.int64())
    columns["x"] = pa.array([1.0] * len(times) if x is None else x, pa.float64())
    columns["other"] = columns["x"]
    return pa.RecordBatch.from_arrays(
        list(columns.values()), names=list(columns), metadata={"source": "here"}
    )


@pytest.mark.parametrize("where", [None, "x > 0"])
@pytest.mark.parametrize("keep", [("x",), ("x", "@id")])
def test_places_of_a_run_of_rows_are_those_of_a_column(
    where: str | None, keep: tuple[str, ...]
) -> None:
    """Consecutive rows have no column of positions until a step needs it."""
    schema = EventSchema.build(Stamp("t", "epoch_us"), key="k", id="i", numbers=["x"], where=where)
    n = 9
    raw = {
        "t": pa.array([None, 999, *range(1000, 1006), 1035], pa.int64()),
        "k": pa.array([KEYS[i] if i != 4 else "other" for i in range(n)]),
        "i": pa.array([str(i) for i in range(n)]),
        "x": pa.array([0.0 if i == 5 else 1.0 for i in range(n)]),
    }
    named, results = replace(DECLARED, where=where), []
    for positions in (np.arange(7, 7 + n), range(7, 7 + n)):
        decoded = assemble(raw, positions, schema, "here")
        assert decoded.events is not None and decoded.dead is not None
        first = list(rows(decoded.dead))
        assigned = Assign(named, keep)(decoded.events)
        assert assigned.dead is not None
        results.append((first, list(rows(assigned.dead)), placed(assigned.events).to_pydict()))
        assert (assigned.events.schema.metadata or {}).keys() <= {b"source"}
    assert results[0] == results[1]
    kept = {**raw, "t": pa.array(range(1000, 1000 + n), pa.int64()), "k": pa.array(KEYS[:n])}
    for positions, there in ((np.arange(7, 7 + n), True), (range(7, 7 + n), False)):
        decoded = assemble(kept, positions, schema, "here")
        assert decoded.events is not None and decoded.dead is None
        assert ("@position" in decoded.events.schema.names) is there
        assert placed(decoded.events).column("@position").to_pylist() == list(range(7, 7 + n))
        events = Assign(named, keep)(decoded.events).events
        made = where is not None or "@id" in keep
        assert ("@position" in events.schema.names) is (there or made)
        if there or made:
            gone = {12} if where else set()
            wanted = [place for place in range(7, 7 + n) if place not in gone]
            assert events.column("@position").to_pylist() == wanted


def test_where_then_clock_then_lateness_then_key() -> None:
    given_rows = [
        (999, "?", 9999, 0.0, None),
        (999, "?", 9999, 1.0, "before_start"),
        (1030, "?", 9999, 1.0, "after_end"),
        (1034, "k1", 1034, 1.0, "after_end"),
        (1000, "?", 1006, 1.0, "late"),
        (1000, "?", 1005, 1.0, "unknown_key"),
        (1000, None, None, 1.0, "unknown_key"),
        (1000, "k1", None, 1.0, "kept"),
        (1029, "k2", 900, 1.0, "kept"),
    ]
    times, keys, arrivals, x, fates = (list(column) for column in zip(*given_rows, strict=True))
    assigned = Assign(DECLARED, ["x"])(batch(times, keys, arrivals, x))
    assert assigned.filtered == 1
    assert assigned.dead is not None
    found = {
        position: (source, field, reason) for source, position, field, reason in rows(assigned.dead)
    }
    assert found == {
        i: ("here", "key" if fate == "unknown_key" else "", fate)
        for i, fate in enumerate(fates)
        if fate not in (None, "kept")
    }
    assert assigned.events.column("@position").to_pylist() == [7, 8]
    assert assigned.events.column("@tick").to_pylist() == [0, 2]
    assert assigned.events.column("@key").to_pylist() == ["k1", "k2"]
    assert assigned.events.schema.names == ["@key", "@position", "x", "@tick"]
    assert assigned.events.schema.metadata == {b"source": b"here"}


def test_a_time_too_far_ahead_of_its_own_arrival_is_early_and_others_do_not_matter() -> None:
    ahead = replace(DECLARED, clock=replace(DECLARED.clock, end=None, ahead=20))
    times = [1100, 1100, 1100, 1100, 10**18]
    arrivals = [1080, 1079, None, 1106, 1000]
    assigned = Assign(ahead, ["x"])(batch(times, ["k1"] * 5, arrivals, [1.0] * 5))
    assert assigned.events.column("@position").to_pylist() == [0, 2]
    assert assigned.dead is not None
    found = [(n, reason) for _, n, _, reason in rows(assigned.dead)]
    assert found == [(1, "early"), (3, "late"), (4, "early")]
    whatever = replace(ahead, clock=replace(ahead.clock, ahead=None))
    assert Assign(whatever, ["x"])(batch(times, ["k1"] * 5, arrivals, [1.0] * 5)).dead is not None
    far = Assign(whatever, ["x"])(batch([1100], ["k1"], [1000], [1.0]))
    assert far.dead is None and far.events.num_rows == 1


def test_every_declared_key_passes() -> None:
    keys = list(KEYS[::-1])
    events = Assign(DECLARED, [])(batch([1000] * 40, keys)).events  # type: ignore[arg-type]
    assert events.column("@key").to_pylist() == keys


def test_observed_keys_all_pass_and_only_live_ones_are_listed() -> None:
    keys: list[str | None] = ["early", "a", None, "b", "a"]
    assigned = Assign(OBSERVED, [])(batch([0, 1000, 1000, 1010, 1020], keys))
    assert assigned.events.column("@key").to_pylist() == ["a", "b", "a"]
    assert assigned.events.column("@key").dictionary.to_pylist() == ["a", "b"]
    assert assigned.dead is not None
    assert [(n, reason) for _, n, _, reason in rows(assigned.dead)] == [
        (0, "before_start"),
        (2, "unknown_key"),
    ]


def test_without_a_key_column_there_is_one_key() -> None:
    assigned = Assign(SINGLE, ["x"])(batch([1000, 1010]))
    assert assigned.events.schema.names == ["@position", "x", "@tick"]
    assert assigned.dead is None


@pytest.mark.parametrize("plan", [DECLARED, OBSERVED, SINGLE])
def test_an_empty_batch_stays_empty(plan: PublicPlan) -> None:
    assigned = Assign(plan, ["x"])(batch([], []))
    assert assigned.events.num_rows == 0 and assigned.dead is None and assigned.filtered == 0


EVENTS = st.lists(
    st.tuples(
        st.integers(980, 1050) | st.sampled_from([-(2**60), 2**60]),
        st.sampled_from([*KEYS[:3], "?", "", None]),
        st.integers(980, 1060) | st.none(),
        st.sampled_from([0.0, 1.0, float("nan")]),
    ),
    max_size=20,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(EVENTS)
def test_nothing_is_lost_and_rows_are_judged_one_by_one(events: list[Any]) -> None:
    assign = Assign(DECLARED, ["x", "@time"])
    times, keys, arrivals, x = ([row[i] for row in events] for i in range(4))
    whole = assign(batch(times, keys, arrivals, x))
    dead = 0 if whole.dead is None else whole.dead.num_rows
    assert whole.events.num_rows + dead + whole.filtered == len(events)
    reasons = {} if whole.dead is None else {n: reason for _, n, _, reason in rows(whole.dead)}
    kept = set(whole.events.column("@position").to_pylist())
    for i, (time, key, arrival, value) in enumerate(events):
        tick = (time - 1000) // 10
        if not value > 0:
            expected = None
        elif tick < 0:
            expected = "before_start"
        elif tick >= 3:
            expected = "after_end"
        elif arrival is not None and arrival - time > 5:
            expected = "late"
        else:
            expected = "kept" if key in KEYS else "unknown_key"
        assert reasons.get(i, "kept" if i in kept else None) == expected


@pytest.mark.slow
def test_the_transform_counts_and_sets_apart() -> None:
    given_batch = batch([1000, 0, 1010], ["k1", "k1", "k2"], x=[1.0, 1.0, 0.0])
    with beam.Pipeline(runner=in_process_runner()) as pipeline:
        out = (
            pipeline
            | beam.Create([given_batch])
            | beam.ParDo(FilterDoFn(DECLARED, ["x"]))
            .with_output_types(pa.RecordBatch, dead=pa.RecordBatch)
            .with_outputs("dead", main="events")
        )
        kept = out.events | "Kept" >> beam.FlatMap(lambda b: b.column("@position").to_pylist())
        dead = out.dead | "Dead" >> beam.FlatMap(lambda b: b.column("position").to_pylist())
        assert_that(kept, equal_to([0]), label="kept")
        assert_that(dead, equal_to([1]), label="dead")


def test_a_bad_predicate_is_refused_when_the_graph_is_built() -> None:
    with pytest.raises(ConfigError, match="where"):
        FilterDoFn(PublicPlan(CLOCK, DECLARED.keys, "x.y()"), [])


def test_ticks_at_the_edges() -> None:
    events = Assign(SINGLE, [])(batch([1000, 1009, 1010, 1029])).events
    assert np.array_equal(events.column("@tick").to_numpy(), [0, 0, 1, 2])
