"""A job that was stopped goes on under this version of the code with the same releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms import stored_state as stored
from tests.transforms.blocks import Block, bytes_of, copied
from weir.dpcore.arrays import arrays_of
from weir.dpcore.errors import CodecError
from weir.transforms.operators import block_cells as tick_cells
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators import sliding_history as past
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.runtime import codec as coders
from weir.transforms.runtime.codec import NO_MARK, header_of, pack, unpack
from weir.transforms.runtime.secret import SecretRef


@pytest.fixture
def secret(tmp_path: Path) -> SecretRef:
    return key_file(tmp_path / "one.key", stored.SECRET)


def key_file(path: Path, value: bytes) -> SecretRef:
    path.write_text(value.hex())
    path.chmod(0o600)
    return SecretRef(file=str(path))


def noise_of(plan: Any, secret: SecretRef, *rotate: tuple[int, SecretRef]) -> KeyedNoiseSource:
    return KeyedNoiseSource(secret, plan.name, plan.digest, rotate)


@pytest.mark.parametrize("name", stored.JOBS)
def test_what_was_stored_goes_on_with_the_same_releases(name: str, secret: SecretRef) -> None:
    plan, expected = stored.plan_of(name), json.loads((stored.FOLDER / f"{name}.json").read_text())
    cells, bag = stored.split_cells(name)
    resumed = Block(plan, noise_of(plan, secret), cells)
    rest = stored.digest_of(resumed.advance(bag, stored.STOPPED, stored.END))
    assert len(rest) == stored.END - stored.STOPPED
    assert rest == {tick: expected[tick] for tick in rest}
    now = Block(plan, noise_of(plan, secret))
    whole = stored.digest_of(now.advance(stored.leaves_of(plan), 0, stored.END))
    assert whole == expected
    assert contents(resumed) == contents(now)


def test_a_build_that_writes_another_codec_goes_on_from_what_this_one_stored(
    secret: SecretRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codec 2, which nobody has: the same header, with its kind in the other case."""

    def read_2(data: bytes) -> Any:
        header = coders.READERS[1](data)
        return header._replace(kind=header.kind.swapcase())

    name = "sums-past"
    plan, expected = stored.plan_of(name), json.loads((stored.FOLDER / f"{name}.json").read_text())
    cells, bag = stored.split_cells(name)
    monkeypatch.setitem(coders.READERS, 2, read_2)
    monkeypatch.setattr(coders, "VERSION", 2)
    pack = coders.pack
    for module in (tick_cells, past):
        monkeypatch.setattr(module, "pack", lambda kind, *more: pack(kind.swapcase(), *more))
    resumed = Block(plan, noise_of(plan, secret), cells)
    rest = stored.digest_of(resumed.advance(bag, stored.STOPPED, stored.END))
    assert rest == {tick: expected[tick] for tick in rest}
    machine = cells.machine.read()
    assert machine is not None and (machine[4], machine[5:6]) == (2, tick_cells.KIND.swapcase())
    forgotten = Block(plan, noise_of(plan, secret), cells, forgets=True)
    assert forgotten.read(stored.END).keys == resumed.read(stored.END).keys


def contents(block: Block) -> Any:
    """What is stored at the end, however it got there."""
    keys, state, sent = Block(block.plan, block.noise, block.cells, forgets=True).read(stored.END)
    return keys, [array.tobytes() for array in arrays_of(state)], sent


@pytest.mark.parametrize("name", ["sums-blt", "sums-past", "learner"])
def test_a_flipped_bit_anywhere_is_refused(name: str, secret: SecretRef) -> None:
    plan = stored.plan_of(name)
    one = Block(plan, noise_of(plan, secret))
    bag = [x for x in one.advance(stored.leaves_of(plan), 0, 8) if isinstance(x, bytes)]
    bag = bag or [x for x in stored.leaves_of(plan) if isinstance(x, bytes)]
    rng = np.random.default_rng(5)
    head = range(8 * 72)  # every bit of the header, then some of the rest
    parts = {part: found[0] for part, found in bytes_of(one.cells).items() if found}
    for part, data in parts.items():
        for bit in [*head, *rng.integers(8 * 72, 8 * len(data), 400).tolist()]:
            cells = copied(one.cells)
            cell = {"machine": cells.machine, "names": cells.names, "past0": cells.past[0]}[part]
            cell.values[:] = [flipped(data, bit)]
            with pytest.raises(CodecError, match="damaged|version|not ours"):
                Block(plan, noise_of(plan, secret), cells).read(8)
    for bit in [*head, *rng.integers(8 * 72, 8 * len(bag[0]), 400).tolist()]:
        with pytest.raises(CodecError, match="damaged|version|not ours"):
            partial.tick_range(flipped(bag[0], bit))
    with pytest.raises(CodecError, match="damaged"):
        one.read(9)  # the cell next to it that says which tick is next


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_another_secret_is_refused_and_neither_is_shown(secret: SecretRef, tmp_path: Path) -> None:
    plan = stored.plan_of("sums-past")
    one = Block(plan, noise_of(plan, secret))
    list(one.advance([], 0, 8))
    other = key_file(tmp_path / "two.key", bytes(range(1, 33)))
    with pytest.raises(CodecError, match="other secrets") as caught:
        Block(plan, noise_of(plan, other), one.cells).read(8)
    cells = b"".join(data for parts in bytes_of(one.cells).values() for data in parts)
    for value in (stored.SECRET, other.resolve()):
        assert value not in cells and value.hex() not in str(caught.value)
    state = one.cells.machine.read()
    assert state is not None
    mark = header_of(state).mark
    assert mark != NO_MARK and mark.hex() not in str(caught.value)


def test_a_rotation_may_begin_ahead_of_stored_state_but_not_behind_it(
    secret: SecretRef, tmp_path: Path
) -> None:
    plan = stored.plan_of("sums-tree")
    one = Block(plan, noise_of(plan, secret))
    list(one.advance([], 0, 8))
    later = key_file(tmp_path / "two.key", bytes(range(1, 33)))
    Block(plan, noise_of(plan, secret, (8, later)), one.cells).read(8)
    with pytest.raises(CodecError, match="other secrets"):
        Block(plan, noise_of(plan, secret, (7, later)), one.cells).read(8)
    rotated = Block(plan, noise_of(plan, secret, (8, later)), one.cells)
    list(rotated.advance([], 8, 10))
    with pytest.raises(CodecError, match="other secrets"):
        Block(plan, noise_of(plan, secret), rotated.cells).read(10)


def test_what_is_cut_short_or_too_new_is_refused() -> None:
    data = pack(b"M", [np.arange(3)])
    with pytest.raises(CodecError, match="cut short"):
        header_of(data[:50])
    with pytest.raises(CodecError, match="codec version 3, this build reads versions 1:"):
        header_of(data[:4] + b"\x03" + data[5:])
    assert unpack(b"M", data)[0].tolist() == [0, 1, 2]
