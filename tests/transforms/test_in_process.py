"""Readers live as long as a DoFn of their run does in this process."""

from __future__ import annotations

import pytest

from weir.transforms.beam.in_process import ProcessReaders


class Counted:
    """A reader that counts those of its kind."""

    made = closed = 0

    def __init__(self) -> None:
        Counted.made += 1

    def close(self) -> None:
        Counted.closed += 1


def test_readers_close_with_the_last_dofn_and_a_bundle_after_it_makes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beam may begin a bundle of a cancelled job after teardown: its reader would hold messages."""
    monkeypatch.setattr(Counted, "made", 0)
    monkeypatch.setattr(Counted, "closed", 0)
    readers = ProcessReaders[Counted]()
    readers.join("a")
    readers.join("a")
    readers.join("b")
    first = readers.reader("a", 0, Counted)
    other = readers.reader("b", 0, Counted)
    readers.leave("a")
    assert readers.reader("a", 0, Counted) is first
    readers.leave("a")
    with pytest.raises(RuntimeError, match="cancelled"):
        readers.reader("a", 0, Counted)
    assert (Counted.made, Counted.closed) == (2, 1)
    assert readers.reader("b", 0, Counted) is other
    readers.join("a")
    assert readers.reader("a", 0, Counted) is not first
