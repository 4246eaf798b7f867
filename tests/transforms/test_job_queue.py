"""Lanes and assemblies: order whatever comes first, storage, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.blocks import Block
from tests.transforms.cells import Bag, One
from tests.transforms.test_erm_pipeline import plan
from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm import incremental as erm_training
from weir.dpcore.training import WHOLE, whole_init, whole_step
from weir.transforms.beam.assemble import AssembleDoFn
from weir.transforms.operators import jobs
from weir.transforms.operators import partial_rows as row_leaf
from weir.transforms.operators.assembly import Assembly, outline
from weir.transforms.operators.job_queue import JobQueue
from weir.transforms.operators.jobs import Fitted, Numbered, decode_fitted, encode_fitted
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime.secret import SecretRef

STOP = 12
PLAN: Any = plan("{column: k, declared: [a, b]}", more="every: 3\n  iterations: 4", blocks=1)
LAYOUT = bytes.fromhex(PLAN.layout)
TRAINING = PLAN.program.training
KEYS = (b"a", b"b")


def source(folder: Path, value: int = 1, *rotate: tuple[int, int]) -> KeyedNoiseSource:
    def made(value: int) -> SecretRef:
        file = folder / f"{value}.key"
        file.write_text(f"{value:02x}" * 32)
        file.chmod(0o600)
        return SecretRef(file=str(file))

    later = tuple((tick, made(other)) for tick, other in rotate)
    return KeyedNoiseSource(made(value), PLAN.name, PLAN.digest, later)


@pytest.fixture
def noise(tmp_path: Path) -> KeyedNoiseSource:
    return source(tmp_path)


def leaves() -> list[RowLeaf]:
    """Key b has no rows; no rows at all in tick 4."""
    rng, found = np.random.default_rng(2), []
    for tick in range(STOP):
        n = 0 if tick == 4 else 40
        rows = np.rint(rng.uniform(-1, 1, (n, 3)) * 2**20) * 2.0**-20
        hashes = rng.integers(0, 1 << 62, (n, 2)).astype(np.uint64)
        found.append(
            RowLeaf.from_events(np.zeros(n, dtype=np.int64), rows, np.arange(n), hashes, 2)
        )
    return found


def block_of(noise: Any, cells: Any = None) -> Block:
    return Block(PLAN, noise, cells)


def sent(noise: Any) -> tuple[list[bytes], list[NoisyStride]]:
    """What Tick sends to Train, and to Assemble."""
    one = block_of(noise)
    payloads = [row_leaf.encode(tick, leaf, ()) for tick, leaf in enumerate(leaves())]
    found, strides = [], []
    for stop in range(2, STOP + 1, 2):
        for item in one.advance(payloads[stop - 2 : stop], stop - 2, stop):
            if isinstance(item, NoisyStride):
                strides.append(item)
            elif isinstance(item, Numbered):
                found.append(one.state.send(item))
        one = block_of(noise, one.cells)
    return found, strides


def expected(noise: Any) -> Any:
    keyed = noise.noise_of(KEYS, 0)
    _, (theta,) = whole_step(TRAINING, whole_init(TRAINING, 2), tuple(leaves()), keyed)
    return theta


@dataclass
class Cells:
    """What a runner stores of a lane."""

    noise: Any
    run: bytes | None = None
    kept: bytes | None = None
    waiting: list[bytes] = field(default_factory=list)
    reads: int = 0

    def lane(self) -> JobQueue:
        def read() -> list[bytes]:
            self.reads += 1
            return self.waiting

        return JobQueue(TRAINING, self.noise, LAYOUT, 1, lambda: self.run, lambda: self.kept, read)

    def go(self, slices: int, *added: tuple[bytes, int]) -> Iterator[Any]:
        lane = self.lane()
        for payload, stamp in added:
            lane.add(payload, stamp)
        yield from lane.advance(slices)
        if lane.admitted:
            self.kept = lane.kept
        self.waiting = [*self.waiting, *lane.fresh] if lane.queue is None else lane.queue
        self.run = lane.run


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3])
def test_jobs_run_in_order_in_whatever_order_they_come(
    order: tuple[int, ...], noise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erm_training, "WORK", 1)
    monkeypatch.setattr(erm_training, "FEWEST", 1)
    payloads, _ = sent(noise)
    assert len(payloads) == 4
    cells, found = Cells(noise), []
    for number in order:
        found += cells.go(0, (payloads[number], 100 + number))
    for _ in range(40):
        found += cells.go(1)
    assert cells.lane().stamp is None and cells.waiting == []
    theta = expected(noise)
    assert [done.fitted.tick for done in found] == [2, 5, 8, 11]
    assert [done.stamp for done in found] == [100, 101, 102, 103]
    for done in found:
        assert (done.fitted.models[0] == theta[done.fitted.tick]).all()
    assert (theta[11, 0] != theta[0, 0]).any()


def test_what_waits_is_not_read_while_a_job_runs(noise: Any) -> None:
    payloads, _ = sent(noise)
    cells = Cells(noise)
    for number, payload in enumerate(payloads):
        list(cells.go(0, (payload, number)))
    assert cells.reads == 0 and len(cells.waiting) == 3
    assert cells.lane().stamp == 0  # the first was begun and holds the watermark
    found = list(cells.go(WHOLE))
    assert cells.reads == 1 and len(found) == 4 and cells.waiting == []


def test_several_small_fits_share_a_slice(noise: Any) -> None:
    payloads, _ = sent(noise)
    assert TRAINING.iterations(2, 1) > 4 * 4
    cells = Cells(noise)
    found = list(cells.go(1, *((payload, 0) for payload in payloads)))
    assert len(found) == 4


def test_jobs_and_models_survive_as_bytes(noise: Any) -> None:
    payloads, _ = sent(noise)
    for number, payload in enumerate(payloads):
        one = jobs.decode(payload, TRAINING, LAYOUT)
        assert (one.block, one.number, one.keys) == (0, number, KEYS)
        assert jobs.number_of(payload, LAYOUT) == number
        again = jobs.encode(one, 1, LAYOUT, noise.mark(one.job.tick + 1))
        assert again == payload
    fitted = Fitted(3, 7, (np.arange(6.0).reshape(2, 3),))
    back = decode_fitted(encode_fitted(fitted))
    assert back[:2] == fitted[:2] and (back.models[0] == fitted.models[0]).all()


def test_rows_in_an_unknown_form_and_other_layouts_are_refused(noise: Any) -> None:
    payloads, _ = sent(noise)
    one = jobs.decode(payloads[0], TRAINING, LAYOUT)
    with pytest.raises(CodecError, match="rows of form 2.*form 1"):
        jobs.decode(jobs.encode(one, 2, LAYOUT, bytes(16)), TRAINING, LAYOUT)
    with pytest.raises(CodecError, match="plan"):
        jobs.decode(payloads[0], TRAINING, bytes(32))


def test_what_was_made_with_another_secret_is_refused(noise: Any, tmp_path: Path) -> None:
    payloads, _ = sent(noise)
    other = source(tmp_path, 2)
    with pytest.raises(CodecError, match="other secrets"):
        list(Cells(other).go(1, (payloads[0], 0)))
    cells = Cells(noise)
    list(cells.go(1, (payloads[0], 0)))
    with pytest.raises(CodecError, match="other secrets"):
        replace(cells, noise=other).lane()
    ahead, behind = source(tmp_path, 1, (3, 2)), source(tmp_path, 1, (2, 2))
    replace(cells, noise=ahead).lane()  # the job of tick 2 had the first secret
    with pytest.raises(CodecError, match="other secrets"):
        replace(cells, noise=behind).lane()


@pytest.mark.parametrize("seed", range(4))
def test_an_assembly_releases_in_order_whatever_comes_first(seed: int, noise: Any) -> None:
    payloads, strides = sent(noise)
    theta = expected(noise)
    models = [
        encode_fitted(done.fitted)
        for done in Cells(noise).go(WHOLE, *((payload, 0) for payload in payloads))
    ]
    pieces = [*(outline(stride)[1] for stride in strides), *models]
    stored, found = None, []
    for i in np.random.default_rng(seed).permutation(len(pieces)).tolist():
        one = Assembly(TRAINING, LAYOUT, 0, stored)
        found += one.take(pieces[i])
        stored = one.dump()
    ticks = [stride.first_tick + i for stride in found for i in range(stride.ticks)]
    assert ticks == list(range(STOP))
    assert all(stride.keys == KEYS and stride.block == 0 for stride in found)
    assert (np.concatenate([stride.arrays[0] for stride in found]) == theta).all()
    small = Assembly(TRAINING, LAYOUT, 0, stored)
    for first in range(STOP, 3 * STOP, 2):  # nothing piles up where nothing waits
        models = [Fitted(0, t, (theta[0],)) for t in TRAINING.due(first, first + 2)]
        for payload in (
            outline(NoisyStride(0, first, 2, KEYS, ()))[1],
            *map(encode_fitted, models),
        ):
            assert len(list(small.take(payload))) < 3
    assert stored is not None and len(small.dump()) == len(stored)


@pytest.mark.parametrize("models_first", [True, False])
def test_models_are_stored_as_they_came_until_a_stride_does(models_first: bool, noise: Any) -> None:
    payloads, strides = sent(noise)
    outlines = [outline(stride)[1] for stride in strides]
    models = [
        encode_fitted(done.fitted)
        for done in Cells(noise).go(WHOLE, *((payload, 0) for payload in payloads))
    ]
    held, early, found = One(), Bag(), list[NoisyStride]()
    for payload in [*models, *outlines] if models_first else [*outlines, *models]:
        found += AssembleDoFn(TRAINING, PLAN.layout).process((0, payload), held, early)
        assert early.values == ([] if held.values else models[: len(early.values)])
    assert bool(held.values) and not early.values
    assert (np.concatenate([stride.arrays[0] for stride in found]) == expected(noise)).all()


def test_an_assembly_waits_only_from_the_tick_that_is_fitted() -> None:
    one = Assembly(TRAINING, LAYOUT, 5, None)
    (early,) = one.take(outline(NoisyStride(5, 0, 6, KEYS, ()))[1])
    assert (early.first_tick, early.ticks) == (0, 2)
    model = Fitted(5, 2, (np.full((2, 3), 0.5),))
    (then,) = one.take(encode_fitted(model))
    assert (then.first_tick, then.ticks) == (2, 3) and (then.arrays[0] == 0.5).all()
    assert list(one.take(outline(NoisyStride(5, 6, 2, KEYS, ()))[1])) == []
    released = list(one.take(encode_fitted(model._replace(tick=5))))
    assert [(stride.first_tick, stride.ticks) for stride in released] == [(5, 1), (6, 2)]


def test_a_block_without_keys_waits_for_nothing_and_keys_join() -> None:
    one = Assembly(TRAINING, LAYOUT, 1, None)
    (empty,) = one.take(outline(NoisyStride(1, 0, 7, (), ()))[1])
    assert (empty.ticks, empty.keys, empty.arrays) == (7, (), ())
    (first,) = one.take(outline(NoisyStride(1, 7, 1, KEYS[:1], ()))[1])
    assert first.keys == KEYS[:1] and first.arrays[0].shape == (1, 1, 3)
    assert list(one.take(outline(NoisyStride(1, 8, 1, KEYS, ()))[1])) == []
    (both,) = one.take(encode_fitted(Fitted(1, 8, (np.ones((2, 3)),))))
    assert both.keys == KEYS and (both.arrays[0] == 1).all()
