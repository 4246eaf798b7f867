"""A worker ends the job of a stream that is over, when nobody else does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.runners import ending
from weir.pipelines.runners.ending import AHEAD, BELIEVED, END_OF_TIME, End, Warden, cancel


class Flink:
    """A cluster with one job, over or not, which is gone once it was asked to end."""

    over, name, asked, jobs_lost = True, "weir-x", "", 0

    def __init__(self, url: str, timeout: float = 0.0) -> None:
        if url == "http://away":
            raise EngineFailed("does not answer")

    def jobs(self, live: bool) -> list[dict[str, str]]:
        assert live
        return [] if Flink.asked else [{"jid": "j", "name": Flink.name}]

    def get(self, path: str) -> Any:
        if path.endswith("watermarks"):
            return [{"id": "0", "value": str(END_OF_TIME if Flink.over else 7)}]
        if "metrics" in path:
            return []
        return {"vertices": [{"id": "v", "name": "Tick"}]}

    def stop(self, job: str, folder: str, drain: bool) -> str:
        assert drain and folder == "file:///s"
        Flink.asked = "drained"
        raise StopIteration  # a worker ends with its job

    def cancel(self, job: str) -> None:
        Flink.asked = "cancelled"


@pytest.fixture(autouse=True)
def flink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "FlinkRest", Flink)
    monkeypatch.setattr(Flink, "asked", "")
    monkeypatch.setattr(Flink, "over", True)


def test_the_end_is_shown_by_the_sink_or_believed_after_a_while() -> None:
    rest: Any = Flink("http://x")
    assert End(4, lambda: True).has_come(rest, "j")
    assert not End(None, lambda: True).has_come(rest, "j")
    end = End(4, lambda: None)
    assert [end.has_come(rest, "j") for _ in range(BELIEVED)] == [False] * (BELIEVED - 1) + [True]
    Flink.over = False
    assert not end.has_come(rest, "j")


@pytest.mark.parametrize("differs", [False, True])
def test_a_worker_marks_the_results_notes_the_drain_and_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, differs: bool
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        Flink.over = len(looks) != 5  # a restart: it looks again
        assert len(looks) < 99

    monkeypatch.setattr(ending.time, "sleep", sleep)
    done: list[str] = []
    first = iter([False, False, True])  # two workers were faster, and their drains failed
    warden = Warden(
        "http://x",
        "weir-x",
        4,
        "file:///s",
        lambda: True,
        lambda: done.append("marked"),
        lambda: next(first),
        lambda: differs,
    )
    with pytest.raises(StopIteration):
        warden._watch()
    assert done == ([] if differs else ["marked"]) and Flink.asked == "drained"
    assert len(looks) == 5 + AHEAD + 2, "the client has the first word"


def test_nobody_looks_any_more_for_a_flink_of_this_process_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            ending.leave("http://gone", "weir-x")
        assert len(looks) < 99

    monkeypatch.setattr(ending.time, "sleep", sleep)
    monkeypatch.setattr(Flink, "over", False)
    monkeypatch.setattr(ending, "_watched", {"weir-x"})
    given = ("http://gone", "weir-x", 4, "file:///s", lambda: True, lambda: None, lambda: True)
    Warden(*given)._watch()
    assert len(looks) == 3 and not ending._watched, "the next job of that name is watched"
    idle = SimpleNamespace(start=lambda: None)
    monkeypatch.setattr(ending.threading, "Thread", lambda **_: idle)
    Warden(*given).watch()
    assert "http://gone" not in ending._left, "a later Flink had the same port"


def test_a_job_that_was_replaced_is_cancelled_by_its_name_where_flink_can_be_reached() -> None:
    cancel("http://away", "weir-x")
    cancel("http://x", "weir-other")
    assert not Flink.asked
    cancel("http://x", "weir-x")
    assert Flink.asked == "cancelled"
