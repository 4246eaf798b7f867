"""Jobs of incremental ERM: cut into slices and stored between them, they give the same bits."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tests.dpcore.models.erm.test_incremental import CASES, ROOT, TICKS, case, names, stream
from weir.dpcore.arrays import arrays_of, concatenate
from weir.dpcore.models.erm.incremental import FEWEST
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.training import Job, fit, whole_init, whole_step
from weir.transforms.runtime.codec import pack, restore, unpack

K = 3


def jobs_of(name: str) -> tuple[Any, tuple[Job, ...]]:
    """The training of a case, and all its jobs."""
    training = case(name).training
    keyed = KeyedNoise(ROOT, 0, names(K), 0)
    _, jobs = training.jobs(training.gathered(K), stream(TICKS, K), lambda part: keyed)
    return training, jobs


def noise_at(tick: int) -> Any:
    return lambda part: KeyedNoise(ROOT, part, names(K), tick)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_slices_change_no_bit_and_survive_storage(name: str) -> None:
    training, jobs = jobs_of(name)
    kept, before, moved = training.no_rows(K), training.models(K), False
    assert [job.tick for job in jobs] == list(training.due(0, TICKS)) and len(jobs) > 1
    for job in jobs:
        kept, noise = training.admit(kept, job), noise_at(job.tick)
        if job.tick < jobs[-4:][0].tick:  # the first runs of some are too poor to take a step
            continue
        whole = fit(training, job, kept, before, noise)
        for iterations in (1, 7):
            carry, slices = training.begin(job, kept, before, noise), 0
            while True:
                stored = unpack(b"T", pack(b"T", arrays_of(carry)))
                copied: Any = pickle.loads(pickle.dumps(training))
                carry = restore(training.carry(1), stored)
                done = copied.train_step(job, kept, carry, noise, iterations)
                slices += 1
                if done.models is not None:
                    break
                assert done.left == 0
                carry = done.carry
            assert done.models[0].tobytes() == whole[0].tobytes()
            moved |= slices > 1
        before = whole
    assert moved  # some were really cut


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gradient", "sgd", "limit"])
def test_a_job_at_a_time_is_the_whole_program(name: str) -> None:
    training, jobs = jobs_of(name)
    data, keyed = stream(TICKS, K), KeyedNoise(ROOT, 0, names(K), 0)
    _, (theta,) = whole_step(training, whole_init(training, K), data, lambda part: keyed)
    kept, models = training.no_rows(K), training.models(K)
    for job in jobs:
        kept = training.admit(kept, job)
        models = fit(training, job, kept, models, noise_at(job.tick), 3)
        assert (theta[job.tick] == models[0]).all()


def test_a_job_brings_its_own_rows_only_and_each_row_once() -> None:
    training, jobs = jobs_of("gradient")
    data = stream(TICKS, K)
    last = max(job.tick for job in jobs)
    brought = sum(len(job.rows.rows) for job in jobs)
    assert brought == sum(len(leaf.rows) for leaf in data[: last + 1])
    kept = training.no_rows(K)
    for job in jobs:
        kept = training.admit(kept, job)
    assert len(kept.rows) == brought


def test_a_key_that_is_born_later_joins_between_jobs() -> None:
    training, jobs = jobs_of("gradient")
    kept = training.admit(training.no_rows(K), jobs[0])
    wider = concatenate([kept, training.no_rows(1)])
    grown = jobs[1]._replace(
        digests=np.concatenate([jobs[1].digests, np.ones((1, 2), np.uint64)]),
        numbers=np.concatenate([jobs[1].numbers, [[1]]]),
        rows=concatenate([jobs[1].rows, training.no_rows(1)]),
    )
    models = fit(training, jobs[0], kept, training.models(K), noise_at(jobs[0].tick))
    alone = fit(training, jobs[1], training.admit(kept, jobs[1]), models, noise_at(jobs[1].tick))
    joined = concatenate([models, training.models(1)])
    keyed = KeyedNoise(ROOT, 0, (*names(K), b"late"), jobs[1].tick)
    both = fit(training, grown, training.admit(wider, grown), joined, lambda part: keyed)
    assert (both[0][:K] == alone[0]).all()


def test_slices_follow_from_public_numbers() -> None:
    training, _ = jobs_of("gradient")
    assert training.iterations(1, 1) > training.iterations(4, 1) > training.iterations(4, 16)
    assert training.iterations(1, 1) == training.iterations(1, 4) > training.iterations(1, 5)
    assert training.iterations(4, 16) > training.iterations(1 << 40, 1) == FEWEST


def test_models_are_carried_forward() -> None:
    training, _ = jobs_of("gradient")
    start, new = training.models(2), (np.ones((2, 3)),)
    last, (theta,) = training.assemble(start, {6: new}, 5, 4)
    assert (theta[0] == start[0]).all() and (theta[1:] == 1).all() and (last[0] == 1).all()
    again, (theta,) = training.assemble(last, {}, 9, 2)
    assert (theta == 1).all() and (again[0] == 1).all()
