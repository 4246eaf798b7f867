"""What synthetic events come to: exact, of synthetic events only, and next to releases on "
"screen."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from examples.stack.view import Exact, Shown, View
from tests.pipelines.conftest import Weir
from weir.pipelines.config.job import loads
from weir.pipelines.results.run import ReleasedOutput

CONFIG = """\
name: truth
schema: {time: at}
where: price > 10
key: {column: shop, declared: [a, b]}
clock: {start: 2026-01-01T00:00:00Z, period: 1s}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 1h}
aggregates:
  n: {count: events, over: [1]}
  s: {sum: price, clip: [0, 20]}
  m: {mean: price, clip: [0, 20]}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "truth.yaml"
    path.write_text(CONFIG)
    return path


def test_truth_is_what_was_sent_without_noise_or_clip(
    weir: Weir, config: Path, tmp_path: Path
) -> None:
    truth, sent = tmp_path / "truth.ndjson", tmp_path / "sent.ndjson"
    options = ("--times", "now", "--events", 3000, "--rate", 20_000, "--to", sent)
    assert weir("feed", config, *options, "--truth", truth).exit_code == 0
    counts, sums = Counter[str](), Counter[str]()
    for line in sent.read_bytes().splitlines():
        row = orjson.loads(line)
        if row["price"] > 10:
            counts[row["shop"]] += 1
            sums[row["shop"]] += row["price"]
    lines = [orjson.loads(line) for line in truth.read_bytes().splitlines()]
    assert [line["tick"] for line in lines] == sorted({line["tick"] for line in lines})
    for key in ("a", "b"):
        cells = [line["totals"].get(key, {"n": 0, "s": 0}) for line in lines]
        assert sum(cell["n"] for cell in cells) == counts[key] > 0
        assert sum(cell["s"] for cell in cells) == pytest.approx(sums[key])
        assert all(cell.keys() == {"n", "s"} for cell in cells), "a mean is no total"


@pytest.mark.parametrize(
    "words",
    [
        ("--times", "now", "--late", "0.1"),
        ("--times", "now", "--malformed", "0.1"),
        ("--times", "clock"),
        ("--from", "events.ndjson"),
        ("--times", "now", "--set", "aggregates={m: {mean: price, clip: [0, 20]}}"),
    ],
)
def test_what_has_no_truth_is_refused(
    words: tuple[str, ...], weir: Weir, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "events.ndjson").write_text('{"at": "2026-01-01T00:00:00Z"}\n')
    target = ("--to", tmp_path / "sent.ndjson", "--truth", tmp_path / "truth.ndjson")
    result = weir("feed", config, "--events", "10", *target, *words)
    assert result.exit_code == 2 and "--truth" in result.stderr


def test_a_release_and_its_true_value(tmp_path: Path) -> None:
    path = tmp_path / "truth.ndjson"
    exact = Exact(path)
    exact.read()  # not there yet
    lines = [{"tick": 3, "totals": {"a": {"n": 2.0}}}, {"tick": 5, "totals": {"a": {"n": 4.0}}}]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines) + b'{"tick": 6, "tot')
    exact.read()
    assert exact.total("a", ReleasedOutput("n", None), 5) == 6
    assert [exact.total("a", ReleasedOutput("n", 2), tick) for tick in (2, 3, 4, 5)] == [0, 2, 2, 4]
    assert exact.total("b", ReleasedOutput("n", 1), 5) == 0, "a silent key"
    assert exact.total("a", ReleasedOutput("n", 1), 6) is None, "half a line is no truth"
    assert exact.total("a", ReleasedOutput("m", 1), 5) is None, "a mean has none"


def test_before_the_first_release_the_screen_says_what_is_awaited(tmp_path: Path) -> None:
    view = View(tmp_path / "out", loads(CONFIG), None)
    counts = {"messages": 7, "acks": 0, "deliveries": 0}
    out = io.StringIO()
    Console(file=out, width=100).print(view.draw(Shown("RUNNING", counts, 0, True)))
    told = out.getvalue()
    assert "\u2713 events are published" in told and "\u2022 workers have started" in told
    assert "7 messages sent" in told and "0 events read" in told
