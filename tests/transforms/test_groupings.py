"""Several groupings through the whole transform: what is simulated, of files and of streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.running import SECRET, cut, run, shuffled
from weir.dpcore.bounded_events import Events
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.transforms.runtime.secret import SecretRef

START, HOUR = 1_704_067_200_000_000, 3_600_000_000
CITIES, PRODUCTS = ("paris", "rome", 'a"b'), ("shoes", "hats")
DECLARED = "declared: [[paris, shoes], [paris, hats], [rome, hats], ['a\"b', hats]]"
FOUND = "observed_keys_are_public: true"


def plan_of(known: str, more: str = "", schema: str = "{time: t}") -> Plan:
    return Plan.from_yaml(f"""
name: groups
schema: {schema}
key: {{columns: [city, product], groups: [[city], [city, product], []], {known}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: 8 ticks}}
aggregates:
  n: {{count: events, over: [all, 6]}}
  m: {{mean: x, clip: [0, 10]}}
  h: {{histogram: x, edges: [0, 2, 5, 10]}}
{more}""")


def batch_of(n: int = 400) -> pa.RecordBatch:
    """Events of all combinations; every tenth has no city or no product."""
    rng = np.random.default_rng(4)
    city = [CITIES[i] for i in rng.integers(0, 3, n)]
    product = [PRODUCTS[i] for i in rng.integers(0, 2, n)]
    for i in range(0, n, 10):
        (city if i % 20 else product)[i] = None
    return pa.RecordBatch.from_pydict(
        {
            "@time": pa.array(START + rng.integers(0, 20 * HOUR, n)).cast(
                pa.timestamp("us", "UTC")
            ),
            "@key0": pa.array(city).dictionary_encode(),
            "@key1": pa.array(product).dictionary_encode(),
            "@id": pa.array([f"e{i}" for i in range(n)]),
            "@position": pa.array(range(n), pa.int64()),
            "x": pa.array(rng.uniform(-1, 12, n)),
        }
    )


def wanted(plan: Plan, batch: pa.RecordBatch) -> dict[tuple[Any, ...], Any]:
    rows = [row for row in batch.to_pylist() if None not in (row["@key0"], row["@key1"])]
    events = Events(
        np.array(
            [int(row["@time"].timestamp()) * 10**6 + row["@time"].microsecond for row in rows]
        ),
        [key_text((row["@key0"], row["@key1"])) for row in rows],
        {"x": np.array([row["x"] for row in rows])},
    )
    return {
        (one.first_tick + i, one.key, released.name, released.over): value.tolist()
        for one in simulate(plan, events, SECRET)
        for released in one.released
        for i, value in enumerate(released.value[:, 0])
    }


def cells(ran: Any) -> dict[tuple[Any, ...], Any]:
    found = {(r["tick"], r["key"], r["name"], r["over"]): r["value"] for r in ran.rows}
    assert len(found) == len(ran.rows)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("known", [DECLARED, FOUND])
def test_files_and_streams_release_what_is_simulated(known: str, secret: SecretRef) -> None:
    plan, batch = plan_of(known), batch_of()
    expected = wanted(plan, batch)
    ran = run(plan, cut(batch, 3), secret=secret)
    assert cells(ran) == expected
    assert cells(run(plan, cut(shuffled(batch), 5), secret=secret, bounded=False)) == expected
    keys = {key for _, key, _, _ in expected}
    assert {key_text((None, None)), key_text(("paris", None)), key_text(("paris", "hats"))} <= keys
    dead = {letter[1] for letter in ran.dead}
    assert set(range(0, 400, 10)) <= dead, "no city or no product: in no grouping at all"
    undeclared = [row for row in batch.to_pylist() if (row["@key0"], row["@key1"]) in
                  {("rome", "shoes"), ('a"b', "shoes")}]  # fmt: skip
    assert (len(dead) == 40 + len(undeclared)) == (known == DECLARED)


@pytest.mark.slow
def test_copies_of_an_id_count_once_in_every_grouping(secret: SecretRef) -> None:
    plan, batch = plan_of(DECLARED, schema="{time: t, id: i}"), batch_of()
    ran = run(plan, [batch, shuffled(batch)], secret=secret)
    assert cells(ran) == wanted(plan, batch)


def test_totals_are_those_of_their_parts_but_for_noise() -> None:
    """With a public number of events: exact sums of a coarser key are those of the finer ones."""
    from weir.dpcore.bounded_events import bounded
    from weir.dpcore.simulate import sum_leaves

    plan = plan_of(DECLARED)
    events = Events(
        np.array([START, START, START + HOUR]),
        [key_text(pair) for pair in (("paris", "hats"), ("paris", "shoes"), ("rome", "hats"))],
        {"x": np.array([1.0, 2.0, 4.0])},
    )
    found = bounded(plan, events, 24)
    sums = dict(zip(found.names, sum_leaves(plan, found, 24).transpose(1, 0, 2), strict=True))

    def of(*pair: str | None) -> Any:
        return sums[key_text(pair).encode()]

    np.testing.assert_array_equal(of("paris", None), of("paris", "hats") + of("paris", "shoes"))
    np.testing.assert_array_equal(of(None, None), of("paris", None) + of("rome", None))
    assert of(None, None).any()
