"""``weir.release``: events in memory are counted like those of files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger import adjustments as hand
from weir.pipelines.ledger.reservations import Reservation

TEXT = """\
name: shop
schema: {time: at}
clock: {start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-05T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates: {spent: {sum: dollars, clip: [0, 50]}}
"""
FRAME = pd.DataFrame(
    {
        "at": pd.date_range("2024-01-01", periods=60, freq="96min", tz="UTC"),
        "dollars": [float(i % 40) for i in range(60)],
    }
)
CHANGED = FRAME.assign(dollars=[*FRAME["dollars"][:-1], 49.0])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "secret.key"
    path.write_text("ab" * 32)
    path.chmod(0o600)
    return path


def ledger(tmp_path: Path, epsilon: float = 9.0, scope: str = "buyers") -> str:
    budget = f"budget: {{epsilon: {epsilon}, delta: 1e-5}}"
    return f"ledger: {{sqlite: {tmp_path / 'ledger.db'}, scope: {scope}, {budget}}}\n"


def test_other_events_are_refused_wherever_results_are(tmp_path: Path, key: Path) -> None:
    text = TEXT + ledger(tmp_path)
    out = f"sink: {{parquet: {tmp_path / 'out'}}}\n"
    first = weir.release(FRAME, text + out, secret_file=key)
    shutil.rmtree(tmp_path / "out")
    for more in ("", out):
        with pytest.raises(ConfigError, match="over other events"):
            weir.release(CHANGED, text + more, secret_file=key)
    again = weir.release(FRAME.to_dict("records"), text, secret_file=key)
    assert again.to_arrow() == first.to_arrow()
    assert first.ledger is not None and again.ledger is not None
    assert again.ledger["together"] == first.ledger["together"]


def test_a_rotation_is_an_entry_of_its_own(tmp_path: Path, key: Path) -> None:
    (tmp_path / "new.key").write_text("cd" * 32)
    (tmp_path / "new.key").chmod(0o600)
    text = TEXT + ledger(tmp_path, 1.4)
    weir.release(FRAME, text, secret_file=key)
    secret = (
        f"secret: {{file: {key}, rotate: "
        f"[{{from: '2024-01-02T00:00:00Z', file: {tmp_path / 'new.key'}}}]}}\n"
    )
    second = weir.release(FRAME, text + secret)
    assert second.ledger is not None and second.ledger["together"] > 1.2
    (tmp_path / "new.key").write_text("ef" * 32)
    with pytest.raises(ConfigError, match="is not enough"):
        weir.release(FRAME, text + secret)


def test_the_same_frame_in_another_scope_is_refused_by_name(tmp_path: Path) -> None:
    """Each call draws a secret of its own here."""
    weir.release(FRAME, TEXT + ledger(tmp_path))
    with pytest.raises(ConfigError, match="is not open in this ledger.*'buyers'"):
        weir.release(FRAME, TEXT + ledger(tmp_path, scope="buyer"))
    job = loads(TEXT + ledger(tmp_path, scope="others"))
    assert job.ledger is not None
    hand.open_scope(job.ledger, plan_of(job))
    with pytest.raises(ConfigError, match="under the scope 'buyers'"):
        weir.release(FRAME.copy(), TEXT + ledger(tmp_path, scope="others"))
    weir.release(CHANGED, TEXT + ledger(tmp_path, scope="others"))


def test_a_frame_that_changes_before_it_is_read_is_noticed(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = FRAME.copy()
    begin = Reservation.begin

    def late(self: Reservation) -> None:
        begin(self)
        frame.loc[59, "dollars"] = 49.0

    monkeypatch.setattr(Reservation, "begin", late)
    with pytest.raises(weir.WeirError, match="the events changed since the ledger was read"):
        weir.release(frame, TEXT + ledger(tmp_path), secret_file=key)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="over other events"):
        weir.release(frame, TEXT + ledger(tmp_path), secret_file=key)


def test_what_is_not_given_back_is_counted_and_says_so(tmp_path: Path, key: Path) -> None:
    bad = FRAME.assign(at=["no time"] * 50 + list(FRAME["at"][50:]))
    text = TEXT + ledger(tmp_path, 1.2)
    with pytest.raises(weir.WeirError, match=r"counted in the ledger as spent \(entry"):
        weir.release(bad, text, secret_file=key)
    with pytest.raises(ConfigError, match="over other events"):
        weir.release(FRAME, text, secret_file=key)
    with pytest.raises(ConfigError, match="is not enough"):
        weir.release(FRAME, text)
