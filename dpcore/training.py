"""Private models that are fitted to rows off the path of ticks: what a program says of them.

A program whose releases are fitted models takes three parts. ``jobs`` is what Tick does at every
tick: it gathers rows and cuts them into jobs. ``train_step`` is what Train does, in slices, with
the rows in its hands. ``assemble`` carries the newest models forward, so that every key releases at
every tick; it sees no rows and no secret. All three are pure. Together they are ``step`` (see
``whole_step``), which is how ``simulate`` runs them: however a pipeline spreads jobs, cuts them
into slices or delays them, the bits are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints, State
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.noise.noise import NoiseOf

Models = tuple[Floats, ...]
"""Released models of K keys: arrays (K, ...)."""


class Job(NamedTuple):
    """All that is fitted for the keys of a block at one tick; K keys.

    What it names fixes its noise: with the plan, the tick and the user keys, ``digests`` say which
    data the noise is for. Several fits of a tick are stages of one job.

    Attributes:
      tick: whose releases wait for the models.
      digests: (K, 2) uint64, keyed digest of all data of each key that the models depend on.
      numbers: (K, m) int64, public numbers of each key.
      rows: what the jobs before this one did not bring: a NamedTuple of arrays as of ``no_rows``.
    """

    tick: int
    digests: Digests
    numbers: Ints
    rows: State


class Slice(NamedTuple):
    """What a slice of a job came to.

    Attributes:
      carry: what the next slice goes on from. models: the released models when the job is done.
      left: iterations of those allowed that were not needed.
      failed: fits whose answer was not what is paid for, and was not released: a defect, for the
        operator to see.
    """

    carry: State
    models: Models | None
    left: int
    failed: int = 0


class Training(Protocol):
    """How a program fits. Jobs of a block run one after the other, in order of ticks: each may
    start from the released models of the one before. K = keys of the block.

    **Formal guarantees**: a job's models are a function of public numbers, of its rows and those
    that jobs before it left, and of noise that is keyed with its tick and digests. Nothing else
    enters: not how it is cut into slices, nor when, where or next to what it runs. Slices end after
    a number of iterations that follows from public numbers, never from a clock or from data.

    Attributes:
      form: names the encoding of rows in a job, for what stores jobs: 1 is rows of whole numbers,
        key after key, with the keyed hash of each row's event; 2, with the block of each; 3, of
        users; 4, as 2 and packed without zeros. A new kind of rows is a new form.
    """

    @property
    def form(self) -> int: ...

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks of [first, stop) that have a job, in order. Public."""

    def gathered(self, n_keys: int) -> State:
        """What Tick holds before the first tick."""

    def jobs(
        self, state: State, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[State, tuple[Job, ...]]:
        """A stride, one leaf a tick: new state, and a job for each tick that is due."""

    def no_rows(self, n_keys: int) -> State:
        """Rows of keys without any: the kind of what jobs bring and of what Train keeps."""

    def admit(self, kept: State, job: Job) -> State:
        """Rows kept for this job and later ones: those kept so far and the job's own, without
        those that no job from here on reads."""

    def models(self, n_keys: int) -> Models:
        """What is released before any job."""

    def carry(self, n_keys: int) -> State:
        """A carry of the shape of any: what stored ones are held against."""

    def begin(self, job: Job, kept: State, before: Models, noise: NoiseOf) -> State:
        """Carry of a job of which nothing is done. before: models of the job before."""

    def train_step(
        self, job: Job, kept: State, carry: State, noise: NoiseOf, iterations: int
    ) -> Slice:
        """At most so many iterations more. noise: of the job's tick."""

    def iterations(self, n_keys: int, blocks: int) -> int:
        """Iterations of a slice where so many blocks are fitted side by side. Public."""

    def assemble(
        self, before: Models, fitted: Mapping[int, Models], first: int, ticks: int
    ) -> tuple[Models, tuple[Floats, ...]]:
        """Releases of ticks [first, first + ticks): the newest models after them, and arrays
        (ticks, K, ...). fitted: tick -> models, of every tick among them that is due."""


WHOLE = 1 << 62
"""Iterations that no job has: a slice of so many is all of it."""


def fit(
    training: Training,
    job: Job,
    kept: State,
    before: Models,
    noise: NoiseOf,
    iterations: int = WHOLE,
) -> Models:
    """Runs one job from beginning to end. kept: with its rows. iterations: of each slice."""
    carry = training.begin(job, kept, before, noise)
    while True:
        done = training.train_step(job, kept, carry, noise, iterations)
        if done.models is not None:
            return done.models
        carry = done.carry


class Whole(NamedTuple):
    """State of K keys where one hand does it all.

    Attributes:
      gathered: of Tick. kept: rows that later jobs read. models: released last.
    """

    gathered: State
    kept: State
    models: Models


def whole_init(training: Training, n_keys: int) -> Whole:
    """State before the first tick."""
    return Whole(training.gathered(n_keys), training.no_rows(n_keys), training.models(n_keys))


def whole_step(
    training: Training, state: Whole, leaves: tuple[RowLeaf, ...], noise: NoiseOf
) -> tuple[Whole, tuple[Floats, ...]]:
    """A stride: jobs, all of each, and what is released at each tick."""
    first = noise(0).first_tick
    gathered, jobs = training.jobs(state.gathered, leaves, noise)
    retained, models, fitted = state.kept, state.models, {}
    for job in jobs:
        retained = training.admit(retained, job)
        models = fit(training, job, retained, models, at_tick(noise, job.tick))
        fitted[job.tick] = models
    last, released = training.assemble(state.models, fitted, first, len(leaves))
    return Whole(gathered, retained, last), released


def at_tick(noise: NoiseOf, tick: int) -> NoiseOf:
    """Noise of a stride, for one of its ticks."""
    return lambda part: noise(part).at(tick)


def carried(
    before: Models, fitted: Mapping[int, Models], first: int, ticks: int
) -> tuple[Models, tuple[NDArray[Any], ...]]:
    """The newest model at each tick: what ``assemble`` is where a model is released as it is."""
    out = tuple(np.empty((ticks, *array.shape)) for array in before)
    for i in range(ticks):
        before = fitted.get(first + i, before)
        for array, model in zip(out, before, strict=True):
            array[i] = model
    return tuple(model.copy() for model in before), out
