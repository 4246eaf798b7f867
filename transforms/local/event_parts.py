"""Events of a run, part by part: in parallel where no matter which came first, else in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from weir.transforms.decode.counted import counted
from weir.transforms.local.memory import refuse_full
from weir.transforms.runtime.dead_letters import Reject
from weir.transforms.runtime.prefetch import in_turn
from weir.transforms.sinks.dead_letters import WriteDead
from weir.transforms.sources.opened import BoundedEvents

LOOK = 16
"""Batches between two looks at the memory that is left."""

Part = Callable[[Reject], Iterator[pa.RecordBatch]]
"""Reads some of the events, canonical batches; their dead letters go to what it is given."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class EventParts:
    """Parts of the events, and where their dead letters go.

    Attributes:
      parts: all of them. together: whether several are read at a time.
      reject: takes dead letters, where there is no ``dead``.
      dead: takes them of a part after those of the parts before, so that a run that is repeated
        writes the same files; but what a part has too many of is written as it comes.
    """

    parts: Iterable[Part]
    reject: Reject = lambda _: None
    dead: WriteDead | None = None
    together: bool = False

    @classmethod
    def of(cls, opened: BoundedEvents, dead: WriteDead | None, in_any_order: bool) -> EventParts:
        """All that is open; ``in_any_order``: no matter which event comes first."""
        splits = opened.splits()
        some = list(itertools.islice(splits, 2 if in_any_order and opened.apart else 0))
        every = itertools.chain(some, splits)
        if len(some) < 2:
            return cls([partial(read, opened, splits=every)], dead=dead)
        part = partial(read, opened, alone=False, numbers=itertools.count())
        return cls(
            (partial(part, splits=(split,)) for split in every),
            dead=dead,
            together=True,
        )

    def as_one(self) -> EventParts:
        """All of it as a single part, in order."""

        def whole(reject: Reject) -> Iterator[pa.RecordBatch]:
            return itertools.chain.from_iterable(part(reject) for part in self.parts)

        return replace(self, parts=[whole], together=False)

    def each(self, work: Callable[[Iterator[pa.RecordBatch], Reject], Sequence[R]]) -> Iterator[R]:
        """What work makes of the events of each part, in order of the parts."""

        def one(part: Part) -> tuple[Sequence[R], list[pa.RecordBatch]]:
            if self.dead is None:
                return work(part(self.reject), self.reject), []
            own = self.dead.apart()
            return work(part(own.process), own.process), own.rest()

        for items, letters in (in_turn if self.together else map)(one, self.parts):
            for some in letters:
                self.dead.process(some)  # type: ignore[union-attr]  # there are none without it
            yield from items


def read(
    opened: BoundedEvents,
    reject: Reject,
    splits: Iterable[Any] | None = None,
    alone: bool = True,
    numbers: Iterator[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Canonical batches of all events, in order; counts them.

    Args:
      splits: which; None: all. alone: no other part is read meanwhile.
      numbers: of batches, those of parts that are read meanwhile too; None: from 0 on.

    Raises:
      MemoryFull: what is read would not fit into memory.
    """
    splits = opened.splits() if splits is None else splits
    decoded = (part for split in splits for part in opened.decode(split, alone))
    batches = located("Read", lambda: counted(decoded, reject))
    for batch, number in zip(batches, numbers or itertools.count(), strict=False):
        if number % LOOK == 0:
            refuse_full()
        yield batch


def located(step: str, make: Callable[[], Iterable[T]]) -> Iterator[T]:
    """What is made; what raises on the way names the step."""
    try:
        yield from make()
    except Exception as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(f"while running '{step}'")
        raise


__all__ = ["LOOK", "Part", "EventParts", "located", "read"]
