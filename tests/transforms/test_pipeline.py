"""The whole stream against dpcore's simulate, and against itself however the data are cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import START, FakePlan, events, random_events
from tests.transforms.running import SECRET, Ran, cut, run, shuffled
from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, simulate
from weir.transforms.runtime.reasons import counter_of
from weir.transforms.runtime.secret import SecretRef

PLAN = """
name: shop
schema: {{time: t{extra}}}
key: {key}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T05:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 64 ticks}}
aggregates:
  n: {{count: events, over: [all, 7]}}
  s: {{sum: v, clip: [0, 10]}}
  m: {{mean: v, clip: [0, 10]}}
  h: {{histogram: v, edges: [0, 2, 5, 9]}}
"""


def plan(declared: bool = True, extra: str = "", blocks: int | None = None) -> Plan:
    key = "{column: k, declared: [a, b, c, d]}"
    if not declared:
        key = "{column: k, observed_keys_are_public: true}"
    text = PLAN.format(key=key, extra=extra)
    return Plan.from_yaml(text + (f"blocks: {blocks}\n" if blocks else ""))


def simulated(
    made: Plan, batch: pa.RecordBatch, more: dict[str, Any] | None = None
) -> dict[tuple[Any, ...], Any]:
    """(tick, key, name, over) -> (value, stddev) by dpcore alone."""
    found = simulate(
        made,
        Events(
            batch.column("@time").view(pa.int64()).to_numpy(),
            batch.column("@key").to_pylist(),
            {"v": batch.column("v").to_numpy(zero_copy_only=False), **(more or {})},
        ),
        SECRET,
    )
    out: dict[tuple[Any, ...], Any] = {}
    for one in found:
        for released in one.released:
            for i, value in enumerate(released.value[:, 0]):
                error = None if released.stddev is None else released.stddev[i, 0].tolist()
                cell = (one.first_tick + i, one.key, released.name, released.over)
                out[cell] = (value.tolist(), error)
    return out


def as_cells(ran: Ran) -> dict[tuple[Any, ...], Any]:
    cells = {
        (row["tick"], row["key"], row["name"], row["over"]): (row["value"], row["stddev"])
        for row in ran.rows
    }
    assert len(cells) == len(ran.rows)
    return cells


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "observed"])
def test_the_pipeline_is_what_simulate_says_bit_for_bit(declared: bool, secret: SecretRef) -> None:
    made = plan(declared)
    batch = random_events(2_000, FakePlan())
    expected = simulated(made, batch)
    assert as_cells(run(made, cut(shuffled(batch), 3), secret=secret)) == expected
    assert len(expected) == 300 * (4 if declared else 3) * 5 or not declared


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "observed"])
def test_blocks_order_strides_and_replays_do_not_matter(declared: bool, secret: SecretRef) -> None:
    batch = random_events(1_000, FakePlan())
    first = run(plan(declared), [batch], secret=secret).rows
    for other in (
        run(plan(declared, blocks=64), cut(batch, 4), secret=secret),
        run(plan(declared), cut(shuffled(batch), 2), secret=secret, every=10),
    ):
        assert other.rows == first
    twice = run(plan(declared), [batch], ["--direct_runner_bundle_repeat=2"], secret=secret).rows
    assert twice[::3] == twice[1::3] == twice[2::3] == first


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "observed"])
def test_a_predicate_of_one_aggregate_is_what_simulate_says(
    declared: bool, secret: SecretRef
) -> None:
    text = PLAN.replace("n: {{count: events,", "n: {{count: events, where: v > 3 and v < 8,")
    text = text.replace("m: {{mean: v,", "m: {{mean: v, where: v is not None,")
    key = "{column: k, declared: [a, b, c, d]}"
    if not declared:
        key = "{column: k, observed_keys_are_public: true}"
    made = Plan.from_yaml(text.format(key=key, extra=""))
    batch = random_events(2_000, FakePlan())
    v = batch.column("v").to_numpy(zero_copy_only=False)
    gates = {
        GATE + "v > 3 and v < 8": ((v > 3) & (v < 8)).astype(float),
        GATE + "v is not None": (~np.isnan(v)).astype(float),
    }
    expected = simulated(made, batch, gates)
    assert as_cells(run(made, cut(shuffled(batch), 3), secret=secret)) == expected
    assert expected != simulated(made, batch, {name: one * 0 + 1 for name, one in gates.items()})


@pytest.mark.slow
def test_following_the_clock_gives_what_announcing_all_of_it_gives(secret: SecretRef) -> None:
    batch = random_events(500, FakePlan())
    first = run(plan(), [batch], secret=secret)
    assert run(plan(), [batch], secret=secret, bounded=False, every=100).rows == first.rows


@pytest.mark.slow
def test_a_row_says_what_it_is(secret: SecretRef) -> None:
    made = plan()
    row = run(made, [random_events(10, FakePlan())], secret=secret).rows[-1]
    assert row["release"] == "shop" and row["plan"] == made.digest
    assert (row["epsilon"], row["delta"], row["window"]) == (1.0, 1e-6, 64)
    assert row["tick"] == 299 and str(row["tick_end"]) == "2024-01-01 05:00:00+00:00"
    assert (row["tick_end"] - row["tick_start"]).total_seconds() == 60


@pytest.mark.slow
def test_every_key_releases_at_every_tick_even_without_any_event(secret: SecretRef) -> None:
    ran = run(plan(), [], secret=secret)
    assert len(ran.rows) == 300 * 4 * 5 and ran.dead == []
    assert {row["key"] for row in ran.rows} == {"a", "b", "c", "d"}
    assert as_cells(ran) == simulated(plan(), random_events(0, FakePlan()))


@pytest.mark.slow
def test_one_event_is_a_release_for_its_key_from_its_tick_on(secret: SecretRef) -> None:
    batch = events([START + 61_000_000], ["b"], [3.0])
    ran = run(plan(declared=False), [batch], secret=secret)
    assert {row["key"] for row in ran.rows} == {"b"}
    assert min(row["tick"] for row in ran.rows) == 1 and len(ran.rows) == 299 * 5


@pytest.mark.slow
def test_what_does_not_count_is_dead_lettered_with_reason_and_place(secret: SecretRef) -> None:
    hour = 3_600_000_000
    batch = events(
        [START - 1, START, START + 5 * hour, START + 1, START + 2],
        ["a", "a", "b", "zebra", None],
        [1.0] * 5,
    )
    ran = run(plan(), [batch], secret=secret)
    assert ran.dead == [
        ("test", 0, "", "before_start"),
        ("test", 2, "", "after_end"),
        ("test", 3, "k", "unknown_key"),
        ("test", 4, "k", "unknown_key"),
    ]
    assert ran.counts["unknown_key"] == ran.counts[counter_of("k", "unknown_key")] == 2
    assert as_cells(ran) == simulated(plan(), batch.slice(1, 1))


@pytest.mark.slow
def test_clipped_and_missing_numbers_count_as_the_plan_says(secret: SecretRef) -> None:
    batch = events([START] * 3, ["a"] * 3, [1e9, float("nan"), -5.0])
    ran = run(plan(), [batch], secret=secret)
    assert as_cells(ran) == simulated(plan(), batch)
    assert ran.counts["non_finite"] >= 1 and ran.counts["clipped"] >= 2


@pytest.mark.slow
def test_duplicates_count_once_wherever_they_come(secret: SecretRef) -> None:
    made = plan(extra=", id: id")
    batch = random_events(600, FakePlan(), ids=True)
    again = batch.slice(100, 50)
    ran = run(made, [*cut(batch, 3), again, again], secret=secret)
    assert as_cells(ran) == simulated(made, batch)
    assert ran.counts["duplicate"] == 100
    assert ran.dead == sorted(("test", i, "", "duplicate") for i in [*range(100, 150)] * 2)


@pytest.mark.slow
def test_dictionaries_are_events_too(secret: SecretRef) -> None:
    made = plan(extra=", id: id")
    batch = random_events(300, FakePlan(), ids=True)
    found = [
        {"t": row["@time"], "k": row["@key"], "v": row["v"], "id": row["@id"], "more": "x"}
        for row in batch.to_pylist()
    ]
    found[7:7] = [{"t": "no time", "k": "a", "v": 1.0}, {"k": "a", "v": 1.0}]
    ran = run(made, found, secret=secret, kind=dict)
    assert as_cells(ran) == simulated(made, batch)
    assert [letter[0] for letter in ran.dead] == ["rows", "rows"]


def test_bounded_input_needs_the_end_of_the_clock() -> None:
    fake = FakePlan()
    endless = replace(fake, clock=replace(fake.clock, end=None))
    with pytest.raises(ConfigError, match=r"clock\.end"):
        run(endless, [])


@pytest.mark.slow
def test_a_fresh_secret_gives_fresh_noise() -> None:
    first, second = (run(FakePlan(), []).rows for _ in range(2))
    assert [row["value"] for row in first] != [row["value"] for row in second]


def test_nothing_in_the_graph_holds_the_secret(secret: SecretRef, tmp_path: Path) -> None:
    import apache_beam as beam

    from weir.transforms.beam.private_releases import PrivateReleases

    value = secret.resolve()
    pipeline = beam.Pipeline()
    source = pipeline | beam.Create([random_events(1, FakePlan())]).with_output_types(
        pa.RecordBatch
    )
    source | PrivateReleases(plan(extra=", id: id"), secret)
    graph = pipeline.to_runner_api().SerializeToString()
    for form in (value, value.hex().encode()):
        assert form not in graph
    assert np.frombuffer(graph, np.uint8).size > 0
