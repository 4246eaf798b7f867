"""Parts of events that are read in parallel: the same files and dead letters as one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.pipelines.config.job import loads
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.runners.local import LocalJob
from weir.transforms.formats import parquet
from weir.transforms.local import event_parts
from weir.transforms.local.event_parts import EventParts
from weir.transforms.runtime import counters
from weir.transforms.sinks import dead_letters
from weir.transforms.sources.opened import OpenedFiles

CONFIG = """
name: apart
source: {{parquet: {folder}/events*.parquet}}
schema: {{time: t{role}}}
key: {{column: k, {keys}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-03T00:00:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: all{privacy}}}
aggregates: {{events: {{count: events}}, total: {{sum: v, clip: [0, 10]}}}}
sink: {{parquet: {folder}/{out}}}
dead_letters: {{parquet: {folder}/{out}-dead}}
"""
HOUR = 3_600_000_000
START = 1_704_067_200_000_000
DECLARED = "declared: [a, b, c]"
PLANS = {
    "declared": {"role": "", "keys": DECLARED, "privacy": ""},
    "observed": {"role": "", "keys": "observed_keys_are_public: true", "privacy": ""},
    "ids": {"role": ", id: id", "keys": DECLARED, "privacy": ""},
    "users": {
        "role": ", unit: u, id: id",
        "keys": "discover: {min_users: 1}",
        "privacy": ", unit: user, per: all, contributions: {ticks: 2, keys: 2, events: 2}",
    },
}


def write(folder: Path, rows: int = 4_000) -> None:
    """Two files, a tenth of whose events are beyond the clock, or of a key that is not declared,
    or of nobody; a tenth have an id again."""
    rng = np.random.default_rng(4)
    for number in range(2):
        columns = {
            "t": pa.array(START + rng.integers(0, 50 * HOUR, rows)).cast(pa.timestamp("us", "UTC")),
            "k": pa.array(rng.choice(list("abcd"), rows, p=[0.6, 0.2, 0.15, 0.05])),
            "v": pa.array(rng.gamma(2, 2, rows)),
            "id": pa.array(rng.integers(0, 9 * rows, rows).astype(str)),
            "u": pa.array([None if x % 50 == 0 else f"u{x}" for x in rng.integers(0, 900, rows)]),
        }
        pq.write_table(pa.table(columns), folder / f"events{number}.parquet", row_group_size=300)


def run(folder: Path, out: str, plan: str, secret: Path) -> dict[str, Any]:
    """What a run writes, and what it counts."""
    text = CONFIG.format(folder=folder, out=out, **PLANS[plan])
    parts = parts_of(loads(text), "local", str(secret))
    counters.reset()
    job = LocalJob.of(parts, ())
    parts.sink.prepare(parts.plan, parts.secrets, True)
    job.run()
    files = [*(folder / out).glob("ticks-*"), *(folder / f"{out}-dead").glob("*")]
    return {one.name: one.read_bytes() for one in files} | {"counts": counters.snapshot()}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("held", [100, 1 << 16])
def test_in_parallel_comes_what_comes_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, held: int
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(32)))
    secret.chmod(0o600)
    write(tmp_path)
    monkeypatch.setattr(dead_letters, "ROWS", held)
    monkeypatch.setattr(parquet, "SPLIT_ROWS", 600)
    threads = set()
    read = event_parts.read

    def noted(*args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        threads.add(threading.current_thread().name)
        yield from read(*args, **kwargs)

    monkeypatch.setattr(event_parts, "read", noted)
    together = [run(tmp_path, f"together{i}", plan, secret) for i in range(3)]
    assert all(("in-turn" in name) == (plan != "ids") for name in threads)
    monkeypatch.setattr(OpenedFiles, "apart", False)
    alone = run(tmp_path, "alone", plan, secret)
    letters = [name for name in alone if name.startswith("dead-")]
    assert letters and (len(letters) > 2) == (held == 100)
    assert alone["counts"]["events"] == 8_000 and alone["counts"]["after_end"] > 100
    # Where a part has more dead letters than are held, other files hold them.
    files = [name for name in alone if held > 100 or name not in letters]
    assert all({n: one[n] for n in files} == {n: alone[n] for n in files} for one in together)
    assert all(one == together[0] for one in together)
    tables = [
        pa.concat_tables([pq.read_table(tmp_path / f"{out}-dead")]).sort_by("position")
        for out in ("alone", "together0")
    ]
    assert tables[0].num_rows == tables[1].num_rows
    for at, one in enumerate(tables):
        order = [(name, "ascending") for name in one.schema.names]
        tables[at] = one.sort_by(order)
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("plan", ["declared", "observed", "users"])
def test_what_parts_raise_ends_the_run_and_names_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    """However many fail: none waits for what another has not given back."""
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(32))
    secret.chmod(0o600)
    write(tmp_path, 900)
    monkeypatch.setattr(parquet, "SPLIT_ROWS", 300)
    decode = OpenedFiles.decode

    def cut(self: OpenedFiles, split: Any, alone: bool = True) -> Iterator[Any]:
        yield next(decode(self, split, alone))
        if split.start:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(OpenedFiles, "decode", cut)
    with pytest.raises(OSError, match="Input/output") as caught:
        run(tmp_path, "out", plan, secret)
    assert caught.value.__notes__ == ["while running 'Read'"]
    assert not any((tmp_path / "out").glob("ticks-*"))


def test_plans_that_keep_order_read_as_one() -> None:
    batches = [pa.RecordBatch.from_pydict({"n": [i]}) for i in range(5)]
    events = EventParts([lambda _, b=b: iter([b]) for b in batches], together=True).as_one()
    assert not events.together
    assert list(events.each(lambda some, _: list(some))) == batches
