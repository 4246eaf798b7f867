"""A folder that is removed under a job ends it: nothing is written that nobody could go on from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.transforms.pulls import reader, wire
from tests.transforms.releases import batch
from weir.pipelines.runners.submitted import refusal_in
from weir.transforms.beam import write_files as sinks_folder
from weir.transforms.beam.write_files import RangeDoFn
from weir.transforms.operators.write import Write as WriteFiles
from weir.transforms.runtime import fence
from weir.transforms.runtime.acked import ReadTurn
from weir.transforms.runtime.fence import OPEN, Fatal, Fence, Removed
from weir.transforms.sinks import place
from weir.transforms.sinks.held import HeldWriter
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.writer import FolderWriter, Writer

RANGES = Ranges(1, 4, (0,))
Write = Callable[[int], None]


def stateful(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a tick by the step that runners with state have."""
    dofn = RangeDoFn(RANGES, writer)
    dofn.setup()

    def write(tick: int) -> None:
        ready = sorted_table([batch(tick, 1, [b"a"])])
        monkeypatch.setattr(sinks_folder, "sorted_table", lambda _: ready)
        dofn._write(tick, [], np.ones((1, 1), dtype=bool))

    return write


def in_process(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a tick by the step that a run in one process has."""
    step = WriteFiles(RANGES, writer, fence.OPEN)

    def write(tick: int) -> None:
        list(step.process(batch(tick, 1, [b"a"])))
        list(step.finish())

    return write


def begin(folder: Path) -> None:
    place.put(place.join(str(folder), place.PLAN_FILE), b"{}")


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("step", [stateful, in_process])
@pytest.mark.parametrize("gone", ["folder", "content", "plan"])
def test_nothing_is_written_into_a_folder_that_has_lost_its_plan(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: Callable[[Writer, pytest.MonkeyPatch], Write],
    held: bool,
    gone: str,
) -> None:
    folder = tmp_path / "out"
    begin(folder)
    writer = HeldWriter(str(folder), "csv", "much") if held else FolderWriter(str(folder), "csv")
    write = step(writer, monkeypatch)
    write(0)
    assert len(list(folder.rglob("ticks-*"))) == 1
    (folder / place.PLAN_FILE).unlink() if gone == "plan" else shutil.rmtree(folder)
    if gone == "content":
        folder.mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Removed, match=r"out has lost _plan\.json: it was removed") as failed:
        write(1)
    assert sorted(tmp_path.rglob("*")) == before
    text = f"weir.transforms.runtime.fence.Removed: {failed.value} [while running 'Write']"
    assert refusal_in(text) == str(failed.value)


def test_a_place_that_was_never_begun_is_written_to(tmp_path: Path) -> None:
    """As who builds a pipeline of their own may do."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        write = stateful(FolderWriter(str(tmp_path / "out"), "csv"), monkeypatch)
        write(0)
        write(1)
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize("lost", ["state", "out"])
def test_a_job_whose_claims_are_gone_ends(tmp_path: Path, lost: str) -> None:
    """A later start would take the same numbers again, and this job would never see it."""
    asked: list[int] = []
    state, out = str(tmp_path / "state"), str(tmp_path / "out")
    claims = fence.claim(state, "a"), (fence.claim(out, "a"),)
    mine = Fence(*claims, stop=lambda: asked.append(1))
    mine.check()
    shutil.rmtree(tmp_path / lost)
    with pytest.raises(Removed, match=f"{lost} has lost _epochs/000001"):
        mine.check()
    assert asked == [1]
    noted = fence.failure(claims[0])
    assert (noted is None) == (lost == "state"), "where the state is gone nothing is made there"
    assert (tmp_path / "state").exists() == (lost == "out")


def test_a_reader_whose_state_is_gone_acknowledges_nothing_and_gives_back_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Fence(fence.claim(str(tmp_path / "state"), "a"))
    one, server, *_ = reader(monkeypatch, [[wire("a")]], around=mine)
    assert one.take(0) is not None
    began = one.confirmations.began()
    shutil.rmtree(tmp_path / "state")
    one.confirmations.safe(began, ["a"], ReadTurn(0, 0))
    assert not server.acked
    fence._looked.clear()
    with pytest.raises(Fatal):
        one.begin(1)
    assert server.moved[-1] == (["a"], 0)
    OPEN.check()
