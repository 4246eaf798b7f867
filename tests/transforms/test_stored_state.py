"""A job that was stopped goes on under this version of the code with the same releases."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore.errors import CodecError
from tests.transforms import stored_state as stored
from transforms.leaves import partial
from transforms.runtime.coders import NO_MARK, VERSION, header_of, pack, unpack
from transforms.runtime.secret import SecretRef
from transforms.tick.noise_source import KeyedNoiseSource


@pytest.fixture
def secret(tmp_path: Path) -> SecretRef:
    return key_file(tmp_path / "one.key", stored.SECRET)


def key_file(path: Path, value: bytes) -> SecretRef:
    path.write_text(value.hex())
    path.chmod(0o600)
    return SecretRef(file=str(path))


def cells(name: str, version: int) -> list[bytes]:
    """What Tick had stored: the machine, then the bag of partial leaves."""
    data, found = (stored.FOLDER / f"{name}.v{version}.bin").read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<q", data)
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    return found


def noise_of(plan: Any, secret: SecretRef, *rotate: tuple[int, SecretRef]) -> KeyedNoiseSource:
    return KeyedNoiseSource(secret, plan.name, plan.digest, rotate)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", stored.JOBS)
def test_earlier_versions_go_on_with_the_same_releases(
    name: str, version: int, secret: SecretRef
) -> None:
    plan, expected = stored.plan_of(name), json.loads((stored.FOLDER / f"{name}.json").read_text())
    machine, *bag = cells(name, version)
    assert {header_of(cell).version for cell in (machine, *bag)} == {version}
    resumed = stored.block_state_of(plan, noise_of(plan, secret))
    resumed.load(machine, stored.STOPPED)
    rest = stored.digest_of(resumed.advance(bag, stored.STOPPED, stored.END))
    assert len(rest) == stored.END - stored.STOPPED
    assert rest == {tick: expected[tick] for tick in rest}
    now = stored.block_state_of(plan, noise_of(plan, secret))
    now.load(None, 0)
    whole = stored.digest_of(now.advance(stored.leaves_of(plan), 0, stored.END))
    assert whole == expected
    assert header_of(resumed.dump(stored.END)).version == VERSION
    assert resumed.dump(stored.END) == now.dump(stored.END)


@pytest.mark.parametrize("name", ["sums-blt", "learner"])
def test_a_flipped_bit_anywhere_is_refused(name: str, secret: SecretRef) -> None:
    plan = stored.plan_of(name)
    one = stored.block_state_of(plan, noise_of(plan, secret))
    one.load(None, 0)
    bag = [x for x in one.advance(stored.leaves_of(plan), 0, 8) if isinstance(x, bytes)]
    machine, again = one.dump(8), stored.block_state_of(plan, noise_of(plan, secret))
    rng = np.random.default_rng(5)
    head = range(8 * 72)  # every bit of the header, then some of the rest
    for bit in [*head, *rng.integers(8 * 72, 8 * len(machine), 400).tolist()]:
        with pytest.raises(CodecError, match="damaged|version|not ours"):
            again.load(flipped(machine, bit), 8)
    for bit in [*head, *rng.integers(8 * 72, 8 * len(bag[0]), 400).tolist()]:
        with pytest.raises(CodecError, match="damaged|version|not ours"):
            partial.tick_range(flipped(bag[0], bit))
    with pytest.raises(CodecError, match="damaged"):
        again.load(machine, 9)  # the cell beside it that says which tick is next


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_no_flipped_bit_makes_a_version_without_a_checksum() -> None:
    assert VERSION not in (1, 2) and all(bin(VERSION ^ old).count("1") > 1 for old in (1, 2))


def test_another_secret_is_refused_and_neither_is_shown(secret: SecretRef, tmp_path: Path) -> None:
    plan = stored.plan_of("sums-tree")
    one = stored.block_state_of(plan, noise_of(plan, secret))
    one.load(None, 0)
    list(one.advance([], 0, 8))
    state = one.dump(8)
    other = key_file(tmp_path / "two.key", bytes(range(1, 33)))
    with pytest.raises(CodecError, match="other secrets") as caught:
        stored.block_state_of(plan, noise_of(plan, other)).load(state, 8)
    for value in (stored.SECRET, other.resolve()):
        assert value not in state and value.hex() not in str(caught.value)
    mark = header_of(state).mark
    assert mark != NO_MARK and mark.hex() not in str(caught.value)


def test_a_rotation_may_begin_ahead_of_stored_state_but_not_behind_it(
    secret: SecretRef, tmp_path: Path
) -> None:
    plan = stored.plan_of("sums-tree")
    one = stored.block_state_of(plan, noise_of(plan, secret))
    one.load(None, 0)
    list(one.advance([], 0, 8))
    state = one.dump(8)
    later = key_file(tmp_path / "two.key", bytes(range(1, 33)))
    stored.block_state_of(plan, noise_of(plan, secret, (8, later))).load(state, 8)
    with pytest.raises(CodecError, match="other secrets"):
        stored.block_state_of(plan, noise_of(plan, secret, (7, later))).load(state, 8)
    rotated = stored.block_state_of(plan, noise_of(plan, secret, (8, later)))
    rotated.load(state, 8)
    list(rotated.advance([], 8, 10))
    with pytest.raises(CodecError, match="other secrets"):
        stored.block_state_of(plan, noise_of(plan, secret)).load(rotated.dump(10), 10)


def test_what_is_cut_short_or_too_new_is_refused() -> None:
    data = pack(b"M", [np.arange(3)])
    with pytest.raises(CodecError, match="cut short"):
        header_of(data[:50])
    with pytest.raises(CodecError, match="versions 1, 2, 4"):
        header_of(data[:4] + b"\x03" + data[5:])
    assert unpack(b"M", data)[0].tolist() == [0, 1, 2]
