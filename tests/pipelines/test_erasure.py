"""What docs/how-to/erasure.md says of corrections: by id, by a counter-event, by another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.result_rows import result_rows
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.run import run

TEXT = """\
name: shop
source: {csv: events.csv}
schema: {time: at, id: id}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}
privacy: {epsilon: 1e9, delta: 1e-6, protect_for: all}
aggregates:
  visits: {count: events}
  sales: {count: events, where: "amount > 0"}
  paid: {sum: amount, clip: [-50, 50]}
secret: {file: secret.key}
sink: {parquet: out/}
"""
FIRST = "2024-01-01T00:10:00Z,a,30\n"


def released(folder: Path, events: str, text: str = TEXT, out: str = "out") -> dict[Any, float]:
    """(name, tick) -> value of a run over events, under the secret of the folder."""
    (folder / "secret.key").write_bytes(bytes(range(32)))
    (folder / "secret.key").chmod(0o600)
    (folder / "events.csv").write_text("at,id,amount\n" + events)
    (folder / "shop.yaml").write_text(text)
    job = load(folder / "shop.yaml", [f"sink.parquet={folder / out}"])
    run.run(parts_of(job, "direct"), "direct")
    return {(row["name"], row["tick"]): row["value"][0] for row in result_rows(folder / out)}


@pytest.mark.slow
def test_the_same_id_again_corrects_nothing(tmp_path: Path) -> None:
    found = released(tmp_path, FIRST + "2024-01-01T02:10:00Z,a,10\n")
    assert found["paid", 5] == pytest.approx(30, abs=0.1)
    assert found["visits", 5] == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_a_counter_event_brings_the_sum_back_from_its_own_tick_on(tmp_path: Path) -> None:
    found = released(tmp_path, FIRST + "2024-01-01T03:10:00Z,b,-20\n")
    assert [round(found["paid", tick]) for tick in range(6)] == [30, 30, 30, 10, 10, 10]
    assert found["visits", 5] == pytest.approx(2, abs=0.1)  # a count takes it as one more
    assert found["sales", 5] == pytest.approx(1, abs=0.1)  # its own where leaves it out


@pytest.mark.slow
def test_a_clip_from_zero_does_not_let_it_in(tmp_path: Path) -> None:
    text = TEXT.replace("[-50, 50]", "[0, 50]")
    found = released(tmp_path, FIRST + "2024-01-01T03:10:00Z,b,-20\n", text)
    assert found["paid", 5] == pytest.approx(30, abs=0.1)


@pytest.mark.slow
def test_a_changed_file_under_the_same_secret_stands_out_at_the_change(tmp_path: Path) -> None:
    text = TEXT.replace("1e9", "1.0")
    events = FIRST + "2024-01-01T03:10:00Z,b,{}\n"
    one = released(tmp_path, events.format(20), text, "one")
    other = released(tmp_path, events.format(25), text, "other")
    same = [one["paid", tick] == other["paid", tick] for tick in range(6)]
    assert same == [True, True, True, False, False, False]
    # The noise from there on is another one: what differs is not the correction itself.
    differs = np.array([other["paid", tick] - one["paid", tick] for tick in range(3, 6)])
    assert np.all(np.abs(differs - 5) > 1e-6)


@pytest.mark.slow
def test_the_ledger_refuses_it(tmp_path: Path) -> None:
    ledger = "ledger: {sqlite: ledger.db, scope: us, budget: {epsilon: 9, delta: 1e-5}}\n"
    text = TEXT.replace("1e9", "1.0") + ledger
    released(tmp_path, FIRST, text, "one")
    with pytest.raises(ConfigError, match="secret"):
        released(tmp_path, FIRST.replace("30", "25"), text, "other")
