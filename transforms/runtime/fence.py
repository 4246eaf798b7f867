"""Which of several jobs on one stream may go on: the one that was started last.

Each start of a stream takes the next number in every folder that the stream keeps: that of its
state, and that of its releases. Numbers are files that are made once, so no two jobs have one. A
job that finds the number behind its own taken has been replaced: its readers acknowledge nothing
more, its sinks write nothing more, and it ends. Readers look at every turn and right before they
acknowledge, sinks right before they write.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from weir.dpcore.errors import WeirError, in_words
from weir.transforms.runtime import files

FOLDER = "_epochs"
DRAINED = "_drained"
"""Folder of a file for each job that was drained: a number, and when."""
FAILED = "_failed"
"""Folder of a file for each job that ended by a fatal error: its number, when, and why."""
LOOK = 1.0
"""Seconds between two looks of one worker that nothing hangs on."""
_log = logging.getLogger("weir.fence")


class Fatal(WeirError):
    """What no restart of a job repairs: the job has to end. Its text holds nothing of an event."""


class Fenced(Fatal):
    """A newer job has taken over."""


class Removed(Fatal):
    """A folder of the job was removed, or emptied, while it runs."""

    def __init__(self, folder: str, lost: str) -> None:
        super().__init__(
            f"{folder} has lost {lost}: it was removed or emptied while its job runs, and nothing "
            "could go on from what would be written there. Bring it back from a copy and go on "
            "from there, or begin again in another folder."
        )


class Claim(NamedTuple):
    """A job's number in a folder."""

    folder: str
    epoch: int


def _file(folder: str, epoch: int) -> str:
    return files.join(files.join(folder, FOLDER), f"{epoch:06d}")


def claim(folder: str, name: str) -> Claim:
    """Takes the next number of a folder for the job of a name: from now on it is the newest."""
    taken = [int(item) for item in files.names(files.join(folder, FOLDER)) if item.isdigit()]
    epoch = max(taken, default=0) + 1
    while not files.put(_file(folder, epoch), f"{time.time()} {name}\n".encode()):
        epoch += 1
    return Claim(folder, epoch)


def claim_first(folder: str, name: str) -> Claim | None:
    """Takes a folder for a job that nothing can go on from; None where another job has it."""
    mine = Claim(folder, 1)
    taken = any(item.isdigit() for item in files.names(files.join(folder, FOLDER)))
    noted = f"{time.time()} {name}\n".encode()
    return mine if not taken and files.put(_file(*mine), noted) else None


def release(of: Claim) -> None:
    """The job of a claim is over, and nothing goes on from it."""
    files.remove(_file(*of))


def moments(folder: str, kind: str) -> dict[int, float]:
    """When each job of a folder was started (FOLDER) or drained (DRAINED), by its number."""
    inside, result = files.join(folder, kind), {}
    for name in files.names(inside):
        content = files.read(files.join(inside, name)) if name.isdigit() else None
        if content:
            result[int(name)] = _moment(content)
    return result


@in_words
def _moment(content: bytes) -> float:
    return float(content.split()[0])


def note_drain(of: Claim) -> bool:
    """A job is being drained: the savepoint that it leaves is of a stream that is over.

    Returns:
      Whether nobody had noted it before.
    """
    inside = files.join(of.folder, DRAINED)
    return files.put(files.join(inside, f"{of.epoch:06d}"), f"{time.time()}\n".encode())


def failure(of: Claim) -> str | None:
    """Why a job ended, if it ended by a fatal error."""
    noted = files.read(files.join(files.join(of.folder, FAILED), f"{of.epoch:06d}"))
    return None if noted is None else noted.decode(errors="replace").partition(" ")[2].strip()


def forget_drain(of: Claim) -> None:
    """The drain failed, and the job goes on."""
    files.remove(files.join(files.join(of.folder, DRAINED), f"{of.epoch:06d}"))


@dataclass(frozen=True)
class Fence:
    """What a job has claimed; none of it for a job that nobody can replace.

    Attributes:
      state: in the folder of the state, which is for operators only. others: elsewhere.
      stop: asks the cluster to end this job; must not fail.
      over: from now on looks whether the stream is over, and then ends the job; must not fail.
    """

    state: Claim | None = None
    others: tuple[Claim, ...] = ()
    stop: Callable[[], None] | None = None
    over: Callable[[], None] | None = None

    @property
    def inner(self) -> Fence:
        """As steps need it that do not look for the end; the plan behind ``over`` may be large."""
        return replace(self, over=None)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All of them."""
        return self.others if self.state is None else (self.state, *self.others)

    def check(self) -> None:
        """Looks now.

        Raises:
          Fenced: another job was started since. Removed: what was claimed is not there any more.
        """
        for claim in self.claims:
            folder, epoch = claim
            if files.exists(_file(folder, epoch + 1)):
                if self.stop is not None:
                    self.stop()
                raise Fenced(
                    f"a newer job goes on with this stream (start {epoch + 1} noted in {folder}, "
                    f"this one is start {epoch}): this one acknowledges and writes nothing more."
                )
            known = claim != self.state or self.reachable is not None
            if known and not files.exists(_file(folder, epoch)):
                self.fail(Removed(folder, f"{FOLDER}/{epoch:06d}"))
        _looked[self.claims] = time.monotonic()

    def look(self) -> None:
        """Looks if nobody in this process has for a while. Raises as ``check``.

        A folder that cannot be looked into for a moment ends no job.
        """
        if time.monotonic() - _looked.get(self.claims, -LOOK) >= LOOK:
            with contextlib.suppress(OSError):
                self.check()

    @property
    def reachable(self) -> str | None:
        """The folder of the state, if this worker can see what was claimed there."""
        if self.state is None:
            return None
        if self.state not in _seen:
            _seen[self.state] = files.exists(_file(*self.state))
            if not _seen[self.state]:
                _log.warning(
                    "%s is not in reach of this worker: it notes there neither what is "
                    "acknowledged nor its counts. Let workers reach engine.checkpoints.",
                    self.state.folder,
                )
        return self.state.folder if _seen[self.state] else None

    def fail(self, error: Fatal) -> NoReturn:
        """Ends the job: a runner would only restart it. The cause is noted, and then raised."""
        if self.state is not None and self.reachable is not None:
            if files.exists(_file(*self.state)):
                inside = files.join(self.state.folder, FAILED)
                noted = f"{time.time()} {error}\n".encode()
                files.put(files.join(inside, f"{self.state.epoch:06d}"), noted)
            if self.stop is not None:
                self.stop()
        raise error

    def drains(self) -> None:
        """The job is being drained."""
        if self.state is not None and self.reachable is not None:
            note_drain(self.state)

    def goes_on(self) -> None:
        """The job is not being drained, or not any more."""
        if self.state is not None and self.reachable is not None:
            forget_drain(self.state)

    def ends(self) -> None:
        """A reader has come to the end of its stream."""
        if self.over is not None:
            self.over()


_looked: dict[tuple[Claim, ...], float] = {}
_seen: dict[Claim, bool] = {}
OPEN = Fence()
_standing: ContextVar[Fence] = ContextVar("fence", default=OPEN)


@contextlib.contextmanager
def standing(fence: Fence) -> Iterator[None]:
    """Steps that are made inside take this fence with them to their workers."""
    token = _standing.set(fence)
    try:
        yield
    finally:
        _standing.reset(token)


def current() -> Fence:
    """The fence around what is being built."""
    return _standing.get()
