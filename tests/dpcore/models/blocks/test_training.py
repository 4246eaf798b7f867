"""Jobs of blocks: cut into slices they give the same bits, and a solver that lies is caught."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.arrays import arrays_of, concatenate
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.training import fit, whole_init, whole_step
from weir.transforms.runtime.codec import pack, restore, unpack

ROOT = RootKey.derive(bytes(range(32)), "blocks", bytes(32))
K, TICKS = 3, 20
KEYS = (b"a", b"b", b"c")
CONFIG = """
name: blocks
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h}}
privacy: {{epsilon: 2.0, delta: 0, protect_for: all}}
expect: {{events: 5}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [-1, 1], v: [-1, 1]}}
  classes: [no, yes]
  block: {block}
  {more}
"""


@cache
def program(algorithm: str = "erm.sliding_window", block: Any = 6, more: str = "") -> BlockProgram:
    if "solver" not in more and algorithm != "erm.sampled":
        more = f"solver: output\n  {more}"
    made = Plan.from_yaml(CONFIG.format(algorithm=algorithm, block=block, more=more)).program
    assert isinstance(made, BlockProgram)
    return made


CASES: dict[str, tuple[Any, ...]] = {
    "records": ("erm.sliding_window", 6, "window: 3"),
    "ticks": ("erm.sliding_window", "3h", "window: 3"),
    "each": ("erm.independent_batches", 6, ""),
    "first": ("erm.output_perturbation", "2h", ""),
}


def stream(seed: int = 1, ticks: int = TICKS) -> tuple[RowLeaf, ...]:
    """Leaves of K keys: no rows in some, many in others, void ones among them."""
    rng, out = np.random.default_rng(seed), []
    for tick in range(ticks):
        n = int(rng.integers(0, 30))
        rows = np.rint(rng.uniform(-0.6, 0.6, (n, 3)) * 2**20) / 2**20
        rows[:, 2] = rng.choice([-1.0, 1.0], n)
        rows[::9] = (0.0, 0.0, np.nan)
        times, hashes = rng.integers(0, 99, n), rng.integers(0, 2**63, (n, 2)).astype(np.uint64)
        out.append(RowLeaf.from_events(rng.integers(0, K, n), rows, times + tick, hashes, K))
    return tuple(out)


def noise_at(tick: int) -> Any:
    return lambda part: KeyedNoise(ROOT, part, KEYS, tick)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_slices_change_no_bit_and_survive_storage(name: str) -> None:
    training = program(*CASES[name]).training
    _, jobs = training.jobs(training.gathered(K), stream(), noise_at(0))
    assert [job.tick for job in jobs] == list(training.due(0, TICKS))
    kept, before, most = training.no_rows(K), training.models(K), 0
    for job in jobs:
        kept, noise = training.admit(kept, job), noise_at(job.tick)
        whole = fit(training, job, kept, before, noise)
        for iterations in (1, 17):
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
            assert all(a.tobytes() == b.tobytes() for a, b in zip(done.models, whole, strict=True))
            most = max(most, slices)
        before = whole
    assert most > 10


@pytest.mark.parametrize("name", CASES)
def test_strides_and_other_keys_do_not_matter(name: str) -> None:
    training, data = program(*CASES[name]).training, stream()
    _, whole = whole_step(training, whole_init(training, K), data, noise_at(0))
    state, pieces = whole_init(training, K), []
    for first, stop in ((0, 1), (1, 8), (8, 9), (9, TICKS)):
        state, released = whole_step(training, state, data[first:stop], noise_at(first))
        pieces.append(released)
    for i, array in enumerate(whole):
        assert np.concatenate([one[i] for one in pieces]).tobytes() == array.tobytes()
    mine = tuple(
        RowLeaf.from_events(
            np.zeros(len(leaf.of(1)), dtype=np.int64),
            leaf.of(1),
            leaf.event_time[leaf.keys == 1],
            leaf.id_hash[leaf.keys == 1],
            1,
        )
        for leaf in data
    )
    alone = whole_step(
        training, whole_init(training, 1), mine, lambda part: KeyedNoise(ROOT, part, KEYS[1:2], 0)
    )[1]
    assert all(a.tobytes() == b[:, 1:2].tobytes() for a, b in zip(alone, whole, strict=True))


def test_rows_are_kept_while_a_fit_may_read_them_and_no_longer() -> None:
    made = program(*CASES["records"])
    training, kept = made.training, None
    _, jobs = training.jobs(training.gathered(K), stream(ticks=60), noise_at(0))
    kept = training.no_rows(K)
    brought = np.zeros(K, dtype=np.int64)
    for job in jobs:
        kept = training.admit(kept, job)
        brought += job.rows.counts
        for key, (before, after) in enumerate(job.numbers.tolist()):
            blocks = kept.blocks[kept.keys == key]
            assert brought[key] == 6 * after
            oldest = training.schedule.oldest(before + 1)
            assert sorted(set(blocks.tolist())) == list(range(oldest, after))
    assert brought.min() > 100
    joined = concatenate([kept, training.no_rows(2)])
    assert len(joined.counts) == K + 2 and len(joined.rows) == len(kept.rows)


def test_content_moves_no_record_to_another_block() -> None:
    """Under replace_one: one record's content, time within the tick included, may be anything."""
    made, data = program(*CASES["records"]), stream()
    cells = [(t, i) for t, leaf in enumerate(data) for i in range(len(leaf.rows))]
    base = blocks_of(made, data)
    for tick, i in cells[::7]:
        leaf = data[tick]
        for values, shift in (((0.5, 0.5, -1.0), 50), ((0.0, 0.0, np.nan), -50)):
            rows, times = leaf.rows.copy(), leaf.event_time.copy()
            rows[i], times[i] = values, times[i] + shift
            changed = RowLeaf.from_events(leaf.keys, rows, times, leaf.id_hash, K)
            found = blocks_of(made, (*data[:tick], changed, *data[tick + 1 :]))
            differ = [a != b for a, b in zip(base, found, strict=True)]
            assert sum(differ) <= 1


def blocks_of(made: BlockProgram, data: tuple[RowLeaf, ...]) -> list[tuple[Any, ...]]:
    """(key, block, row) of all complete blocks, in order."""
    training = made.training
    _, jobs = training.jobs(training.gathered(K), data, noise_at(0))
    found = []
    for job in jobs:
        rows = job.rows
        found += list(
            zip(rows.keys.tolist(), rows.blocks.tolist(), map(tuple, rows.rows), strict=True)
        )
    return found


@dataclass(frozen=True)
class Liar:
    """A minimiser that goes anywhere and says that it is done."""

    steps: int

    def step(self, at: int, x: Any, y: Any, gradient: Any) -> tuple[Any, Any]:
        return x + 1.0, y


def test_a_minimiser_that_lies_is_caught_and_what_it_follows_is_released() -> None:
    honest = program(*CASES["records"])
    lying = replace(honest, levels=tuple(replace(one, minimiser=Liar(3)) for one in honest.levels))
    failed = []
    for made in (honest, lying):
        training, data = made.training, stream()
        _, jobs = training.jobs(training.gathered(K), data, noise_at(0))
        kept, models, count = training.no_rows(K), training.models(K), 0
        for job in jobs:
            kept = training.admit(kept, job)
            carry = training.begin(job, kept, models, noise_at(job.tick))
            done = training.train_step(job, kept, carry, lambda part: NoNoise(0), 1 << 40)
            assert done.models is not None
            models, count = done.models, count + done.failed
        failed.append(count)
        assert np.isfinite(models[0]).all() and (models[0].any() == (made is honest))
    assert failed[0] == 0 and failed[1] > 10
