"""The guard over ratios of speed: what it lets pass, what it stops, what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import beside, pipeline_speed, ratios
from benchmarks.beside import Ratio

KEPT = [Ratio("noise", "numpy", 0.60, 0.5), Ratio("files", "Arrow", 0.30, 0.6)]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "RESULTS", tmp_path)


def measured(monkeypatch: pytest.MonkeyPatch, *runs: list[Ratio]) -> Iterator[list[Ratio]]:
    """Lets runs of the benchmark find these, in turn."""
    left = iter(runs)

    def run(benchmark: str, short: bool) -> list[Ratio]:
        beside.write(benchmark, next(left), short)
        return beside.read(benchmark, short)

    monkeypatch.setattr(ratios, "run", run)
    return left


def test_ratios_are_read_as_they_were_written() -> None:
    beside.write("speed", KEPT, False)
    assert beside.read("speed", False) == KEPT
    assert beside.read("speed", True) == []


def test_a_ratio_that_falls_by_less_than_a_third_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    beside.write("speed", KEPT, True)
    before = beside.path_of("speed", True).read_bytes()
    measured(monkeypatch, [Ratio("noise", "numpy", 0.41, 0.5), Ratio("files", "Arrow", 0.9, 0.6)])
    assert ratios.guard("speed") == []
    assert beside.path_of("speed", True).read_bytes() == before


def test_the_least_of_three_runs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    low = [KEPT[0], Ratio("files", "Arrow", 0.2, 0.6)]
    measured(monkeypatch, KEPT, low, [Ratio("noise", "numpy", 0.5, 0.5), KEPT[1]])
    ratios.keep("speed")
    assert [one.ratio for one in beside.read("speed", True)] == [0.5, 0.2]


def test_a_fall_must_last(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, well = [Ratio("noise", "numpy", 0.1, 0.5), KEPT[1]], KEPT
    beside.write("speed", KEPT, True)
    left = measured(monkeypatch, slow, well, well)
    assert ratios.guard("speed") == []
    assert len(list(left)) == 1  # the second run was enough
    measured(monkeypatch, slow, slow, slow)
    (fault,) = ratios.guard("speed")
    assert "noise, beside numpy: 0.10, kept 0.60" in fault
    assert beside.read("speed", True) == KEPT


def test_a_ratio_that_is_not_measured_any_more_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    beside.write("speed", KEPT, True)
    measured(monkeypatch, *[KEPT[:1]] * 3)
    assert ratios.guard("speed") == ["files, beside Arrow: not measured any more"]


def test_the_page_says_what_is_short() -> None:
    page = ratios.page([("speed", one) for one in KEPT])
    assert "| noise (`speed`) | numpy | 0.60 | 0.5 |  |" in page
    assert "| files (`speed`) | Arrow | 0.30 | 0.6 | short |" in page


def test_turns_are_taken() -> None:
    seen: list[str] = []
    ratio, _, _ = beside.beside(lambda: seen.append("ours"), lambda: seen.append("bound"), 3)
    assert seen == ["bound", "ours"] * 4
    assert ratio > 0


def test_a_peer_that_is_missing_is_told_of_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline_speed.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["pipeline_speed", "--pipeline-dp"])
    with pytest.raises(SystemExit):
        pipeline_speed.main()
    said = capsys.readouterr().err
    assert "PipelineDP is not installed" in said and "pip install -e '.[bench]'" in said
