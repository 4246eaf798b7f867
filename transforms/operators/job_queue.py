"""A lane: the jobs of one block, one after the other in slices. The part of Train without Beam."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import State, arrays_of, concatenate
from weir.dpcore.errors import CodecError, in_words
from weir.dpcore.training import Job, Models, Training
from weir.transforms.operators import jobs
from weir.transforms.operators.jobs import Fitted, Numbered
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.runtime.codec import (
    NO_MARK,
    header_of,
    pack,
    pack_names,
    restore,
    unpack,
    unpack_names,
)

KEPT, RUN = b"K", b"C"
"""Kinds of stored bytes: rows that are kept, and how far the lane is."""

_STAMP = struct.Struct("<q")


class Running(NamedTuple):
    """A job that was begun.

    Attributes:
      sent: the job, without its rows: those are kept. carry: where it is.
      stamp: microseconds, event time of the job: what comes of it has the same.
    """

    sent: Numbered
    carry: State
    stamp: int


class Done(NamedTuple):
    """Models of a finished job, and its event time in microseconds."""

    fitted: Fitted
    stamp: int


class JobQueue:
    """What is stored of a block's jobs, read as it is needed, and what is to be stored again.

    Jobs run in order of their numbers, whatever the order in which they come. One that was begun
    has given its rows to those that are kept; one that waits has not.

    Args:
      training: of the program. noise: where noise comes from. layout: 32 bytes that name the plan
        and its blocks. blocks: how many are fitted side by side.
      run, kept, waiting: read what is stored. ``run`` is small; ``kept`` holds rows; ``waiting``
        those of jobs that are not begun.

    Raises:
      CodecError: stored bytes of another plan or layout, or of other secrets.
    """

    def __init__(
        self,
        training: Training,
        noise: NoiseSource,
        layout: bytes,
        blocks: int,
        run: Callable[[], bytes | None],
        kept: Callable[[], bytes | None],
        waiting: Callable[[], Iterable[bytes]],
    ) -> None:
        self._training, self._noise, self._layout = training, noise, layout
        self._blocks, self._read_kept, self._read_waiting = blocks, kept, waiting
        self._next, self._last, self._waiting = 0, -1, 0
        self._keys: tuple[bytes, ...] = ()
        self._models: Models = training.models(0)
        self._running: Running | None = None
        self._kept: State | None = None
        self._queue: dict[int, bytes] | None = None
        self._fresh: dict[int, bytes] = {}
        self.admitted = False
        """Whether other rows are kept than before."""
        self.failed = 0
        """Fits of these slices whose answer was not certified."""
        data = run()
        if data is not None:
            self._load(data)

    # ---- what is stored

    @in_words
    def _load(self, data: bytes) -> None:
        head, offsets, joined, *arrays = unpack(RUN, data, self._layout)
        self._next, self._last, self._waiting, busy, block, stamp = head.tolist()
        self._check(data, self._last)
        self._keys = tuple(unpack_names(offsets, joined))
        template = self._training.models(1)
        self._models = restore(template, arrays[: len(template)])
        if not busy:
            return
        digests, numbers, *carry = arrays[len(template) :]
        nothing = self._training.no_rows(0)
        sent = Numbered(
            block, self._next - 1, self._keys, Job(self._last, digests, numbers, nothing)
        )
        self._running = Running(sent, restore(self._training.carry(1), carry), stamp)

    def _check(self, data: bytes, tick: int) -> None:
        mark = header_of(data).mark
        if mark not in (NO_MARK, self._noise.mark(tick + 1)):
            raise CodecError(
                f"a stored fit of tick {tick} was made with other secrets than those given: go on "
                "with the secret of that run."
            )

    @property
    def run(self) -> bytes:
        """How far the lane is, to store."""
        running = self._running
        block, stamp = (0, 0) if running is None else (running.sent.block, running.stamp)
        numbers = [self._next, self._last, self.waits, running is not None, block, stamp]
        arrays = [np.array(numbers, dtype=np.int64), *pack_names(self._keys), *self._models]
        if running is not None:
            job = running.sent.job
            arrays += [job.digests, job.numbers, *arrays_of(running.carry)]
        return pack(RUN, arrays, self._layout, self._noise.mark(self._last + 1))

    @property
    def kept(self) -> bytes:
        """Rows that are kept, to store where ``admitted`` says so."""
        mark = self._noise.mark(self._last + 1)
        return pack(KEPT, arrays_of(self._rows()), self._layout, mark)

    @property
    def queue(self) -> list[bytes] | None:
        """All that waits, to store in place of what is stored; None: ``fresh`` is to be added."""
        return None if self._queue is None else [*self._queue.values(), *self._fresh.values()]

    @property
    def fresh(self) -> list[bytes]:
        """What came and waits."""
        return list(self._fresh.values())

    @property
    def waits(self) -> int:
        """How many jobs wait."""
        return len(self._fresh) + (self._waiting if self._queue is None else len(self._queue))

    @property
    def stamp(self) -> int | None:
        """Event time of the job that was begun; None where none is."""
        return None if self._running is None else self._running.stamp

    # ---- what is done

    def add(self, payload: bytes, stamp: int) -> None:
        """Takes a job."""
        self._fresh[jobs.number_of(payload, self._layout)] = _STAMP.pack(stamp) + payload

    def advance(self, slices: int) -> Iterator[Done]:
        """Goes on for so many slices' iterations, from job to job; 0 only begins the next."""
        left: int | None = None
        while (running := self._running or self._begin()) is not None:
            sent, carry, stamp = running
            if left is None:
                left = slices * self._training.iterations(len(self._keys), self._blocks)
            if left <= 0:
                return
            job = sent.job
            noise = self._noise.noise_of(self._keys, job.tick)
            done = self._training.train_step(job, self._rows(), carry, noise, left)
            left = min(done.left, left - 1)  # to begin a job is work too
            self.failed += done.failed
            if done.models is None:
                self._running = Running(sent, done.carry, stamp)
                continue
            self._running, self._models = None, done.models
            yield Done(Fitted(sent.block, job.tick, done.models), stamp)

    def _begin(self) -> Running | None:
        """Begins the job that is next, if it is there."""
        result = self._take(self._next)
        if result is None:
            return None
        (stamp,), payload = _STAMP.unpack_from(result), result[_STAMP.size :]
        sent = jobs.decode(payload, self._training, self._layout)
        self._check(payload, sent.job.tick)
        born = len(sent.keys) - len(self._keys)
        rows = self._rows()
        if born:
            rows = concatenate([rows, self._training.no_rows(born)])
            self._models = concatenate([self._models, self._training.models(born)])
        self._kept, self.admitted = self._training.admit(rows, sent.job), True
        self._keys, self._next, self._last = sent.keys, self._next + 1, sent.job.tick
        noise = self._noise.noise_of(self._keys, sent.job.tick)
        carry = self._training.begin(sent.job, self._kept, self._models, noise)
        job = sent.job._replace(rows=self._training.no_rows(0))
        self._running = Running(sent._replace(job=job), carry, stamp)
        return self._running

    def _take(self, number: int) -> bytes | None:
        if number in self._fresh:
            return self._fresh.pop(number)
        if self._queue is None and self._waiting:
            result = list(self._read_waiting())
            self._queue = {
                jobs.number_of(data[_STAMP.size :], self._layout): data for data in result
            }
        return None if self._queue is None else self._queue.pop(number, None)

    def _rows(self) -> State:
        """Rows that are kept of all keys that the lane knows."""
        if self._kept is None:
            data = self._read_kept()
            empty = self._training.no_rows(0)
            self._kept = empty if data is None else self._stored(data)
        return self._kept

    def _stored(self, data: bytes) -> State:
        self._check(data, self._last)
        return restore(self._training.no_rows(1), unpack(KEPT, data, self._layout))
