from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.dpcore.noise.reference import PLAN, SECRET, Reference
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey

KEYS = tuple(b"user %d" % i for i in range(40))
METHODS = (
    ("gaussian", 5),
    ("k_norm", 3),
    ("gumbel", 4),
    ("laplace", 3),
    ("bits", 3),
    ("discrete_gaussian", [1, 0, 50, 10**12]),
)
LABELS = label(np.array([0, 3, 3, 2**40 - 1]), np.array([0, 7, 8, 2**63]))


def digests_of(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (*shape, 2), dtype=np.uint64)


def test_known_answers(root):
    """These change only together with ``prf.VERSION``."""
    assert root.tag(b"north").hex() == "38689fcddbf3502acf1308a59aefc236"
    noise = KeyedNoise(root, 2, (b"north", b""), 7)
    digests = noise.leaf_digests(np.array([[[1, -2, 3], [0, 0, 0]]]))
    assert digests[0, 0].tobytes().hex() == "94c85d424b86d6c9487bf1c37a1078ee"
    at = label(4, 9)
    assert [f"{word:016x}" for word in noise.bits(at, digests, 2)[0, 0]] == [
        "9c17101a1b25a6a7",
        "a5450c206fe759ca",
    ]
    assert [x.hex() for x in noise.gaussian(at, digests, 3)[0, 0].tolist()] == [
        "0x1.c6ce1f6af3528p-1",
        "0x1.1a1da471003fap-1",
        "-0x1.89fa2c10e3fdep+0",
    ]
    assert [x.hex() for x in noise.k_norm(at, digests, 2)[0, 1].tolist()] == [
        "0x1.68e09e8f73db6p-2",
        "0x1.b88d835ddf015p-2",
    ]
    assert [x.hex() for x in noise.gumbel(at, digests, 1)[0, 1].tolist()] == [
        "-0x1.4ab24c07daf00p+0"
    ]
    discrete = noise.discrete_gaussian(at, digests, [1, 1000, 10**12, 2**80])[0, 0]
    assert discrete.tolist() == [-2, 5, 792331, -3356910358333]


def test_agrees_with_a_reference_one_block_at_a_time(root):
    reference = Reference(SECRET, "shop", PLAN)
    noise = KeyedNoise(root, 3, KEYS, 11)
    for dimension in (1, 2, 5):
        leaves = np.random.default_rng(dimension).integers(-(2**62), 2**62, (2, 40, dimension))
        leaves[1, 3] = 0
        leaves[0, 4, 0] = 0
        digests = noise.leaf_digests(leaves)
        for t, k in ((0, 0), (1, 3), (0, 4), (1, 39)):
            expected = reference.leaf(3, 11 + t, leaves[t, k].tolist())
            assert digests[t, k].tobytes() == expected
    assert root.tag(b"x" * 300) == reference.tag(b"x" * 300)
    digests = digests_of(0, 4, 40)
    bits = noise.bits(LABELS, digests, 5)
    for m, k in ((0, 0), (1, 39), (3, 8)):
        level, index = (int(word) for word in LABELS[m])
        seed = reference.seed(5, 3, level, index, KEYS[k], digests[m, k].tobytes())
        assert bits[m, k].tolist() == reference.words(seed, 5)


@pytest.mark.parametrize(("method", "argument"), METHODS)
def test_a_draw_does_not_depend_on_its_block(root, method, argument):
    digests = digests_of(1, 4, 40)
    whole = getattr(KeyedNoise(root, 1, KEYS, 0), method)(LABELS, digests, argument)
    order = np.random.default_rng(2).permutation(40)[:13]
    some = KeyedNoise(root, 1, [KEYS[i] for i in order], 5)
    part = getattr(some, method)(LABELS[[2, 0]], digests[[2, 0]][:, order], argument)
    assert np.array_equal(part, whole[[2, 0]][:, order])
    one = KeyedNoise(root, 1, KEYS[7:8], 0)
    assert np.array_equal(
        getattr(one, method)(LABELS[3:], digests[3:, 7:8], argument), whole[3:, 7:8]
    )


@pytest.mark.parametrize(("method", "argument"), METHODS)
def test_a_draw_does_not_depend_on_how_it_is_cut_up(root, method, argument):
    """Calls larger than one piece of work, by labels and by keys."""
    keys = tuple(b"%d" % i for i in range(9000))
    digests = digests_of(3, 3, 9000)
    noise = KeyedNoise(root, 0, keys, 0)
    whole = getattr(noise, method)(LABELS[:3], digests, argument)
    for m, k in ((0, 0), (1, 8999), (2, 4500)):
        alone = KeyedNoise(root, 0, keys[k : k + 1], 0)
        draw = getattr(alone, method)(LABELS[m : m + 1], digests[m : m + 1, k : k + 1], argument)
        assert np.array_equal(draw[0, 0], whole[m, k])


@pytest.mark.parametrize(("method", "argument"), METHODS)
def test_longer_draws_begin_like_shorter_ones_or_not_by_design(root, method, argument):
    """A view of inputs that is not contiguous gives the same values; empty calls work."""
    digests = digests_of(4, 40, 4).transpose(1, 0, 2)
    noise = KeyedNoise(root, 1, KEYS, 0)
    one = getattr(noise, method)(LABELS, digests, argument)
    two = getattr(noise, method)(LABELS, np.ascontiguousarray(digests), argument)
    assert np.array_equal(one, two)
    none = getattr(noise, method)(LABELS[:0], digests[:0], argument)
    assert none.shape == (0, *one.shape[1:])
    nobody = KeyedNoise(root, 1, (), 0)
    assert getattr(nobody, method)(LABELS, digests[:, :0], argument).shape[:2] == (4, 0)


def test_leaf_digests_of_a_stride_are_those_of_its_ticks(root):
    leaves = np.random.default_rng(5).integers(-1, 2, (6, 40, 2))
    whole = KeyedNoise(root, 0, KEYS, 100).leaf_digests(leaves)
    ticks = [KeyedNoise(root, 0, KEYS, 100 + t).leaf_digests(leaves[t : t + 1]) for t in range(6)]
    assert np.array_equal(whole, np.concatenate(ticks))
    assert np.array_equal(whole.any(axis=2), leaves.any(axis=2))
    strided = np.ascontiguousarray(leaves.transpose(2, 1, 0)).transpose(2, 1, 0)
    assert np.array_equal(KeyedNoise(root, 0, KEYS, 100).leaf_digests(strided), whole)


def test_leaf_digests_tell_tick_value_dimension_and_part_apart(root):
    def digest(leaf: list[int], tick: int = 0, part: int = 0) -> bytes:
        noise = KeyedNoise(root, part, (b"",), tick)
        return noise.leaf_digests(np.array([[leaf]])).tobytes()

    variants = [
        digest([1, 0]), digest([1]), digest([1, 0, 0]), digest([0, 1]), digest([-1, 0]),
        digest([1, 0], tick=1), digest([1, 0], tick=2**40), digest([1, 0], part=1),
    ]  # fmt: skip
    assert len(set(variants)) == len(variants)


def test_whatever_names_a_draw_makes_it_independent(root):
    """Correlations over 40,000 normals are below 5 / sqrt(n), and no value is shared."""
    keys = tuple(b"%d" % i for i in range(1000))
    at, digests = label(1, np.arange(10)), digests_of(6, 10, 1000)

    def draw(
        root: RootKey = root, part: int = 0, level: int = 1, shift: int = 0, flip: int = 0,
        keys: tuple[bytes, ...] = keys,
    ) -> np.ndarray:  # fmt: skip
        noise = KeyedNoise(root, part, keys, 0)
        labels = label(level, np.arange(10) + shift)
        return noise.gaussian(labels, digests ^ np.uint64(flip), 4).reshape(-1)

    base = draw()
    others = {
        "part": draw(part=1),
        "level": draw(level=2),
        "index": draw(shift=10),
        "digest": draw(flip=1),
        "user": draw(keys=tuple(key + b"'" for key in keys)),
        "secret": draw(RootKey.derive(bytes(32), "shop", PLAN)),
        "release": draw(RootKey.derive(SECRET, "shoq", PLAN)),
        "plan": draw(RootKey.derive(SECRET, "shop", bytes(32))),
        "K-norm": KeyedNoise(root, 0, keys, 0).k_norm(at, digests, 4).reshape(-1),
        "Gumbel": KeyedNoise(root, 0, keys, 0).gumbel(at, digests, 4).reshape(-1),
        "Laplace": KeyedNoise(root, 0, keys, 0).laplace(at, digests, 4).reshape(-1),
    }
    sample = KeyedNoise(root, 0, keys, 0).bits(at, digests, 4).reshape(-1)
    others["sample"] = sample.astype(np.float64)
    wide = KeyedNoise(root, 0, keys, 0).discrete_gaussian(at, digests, [2**60] * 4)
    others["discrete"] = wide.reshape(-1).astype(np.float64)
    for name, other in others.items():
        assert abs(np.corrcoef(base, other)[0, 1]) < 5 / np.sqrt(base.size), name
        assert not np.isin(base, other).any(), name
    assert np.array_equal(base, draw())
    coordinates = base.reshape(-1, 4)
    assert np.abs(np.corrcoef(coordinates.T) - np.eye(4)).max() < 5 / np.sqrt(len(coordinates))


def test_a_leaf_changes_only_its_own_keys_noise(root):
    leaves = np.ones((1, 40, 2), dtype=np.int64)
    changed = leaves.copy()
    changed[0, 7, 1] = 2
    noise = KeyedNoise(root, 0, KEYS, 0)
    draws = [noise.gaussian(label(0, 0), noise.leaf_digests(x), 2) for x in (leaves, changed)]
    differs = (draws[0] != draws[1]).any(axis=(0, 2))
    assert np.flatnonzero(differs).tolist() == [7]


def test_the_secret_shows_nowhere(root):
    shown = repr(root) + repr(KeyedNoise(root, 0, KEYS, 0))
    assert "hidden" in shown
    for key in (SECRET, root._leaf, root._mac, root._stream, root._tag):
        assert repr(key)[2:-1] not in shown
        assert key.hex() not in shown
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never pickled"):
            leak(root)


def test_short_secrets_are_refused_without_being_shown():
    with pytest.raises(ConfigError) as caught:
        RootKey.derive(b"hunter2" * 4, "shop", PLAN)
    assert "28 bytes" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    RootKey.derive(bytes(48), "shop", PLAN)


def test_bad_arguments(root):
    noise = KeyedNoise(root, 0, KEYS, 0)
    good = digests_of(7, 4, 40)
    with pytest.raises(ValueError, match="32 bytes, got 3"):
        RootKey.derive(SECRET, "shop", b"abc")
    with pytest.raises(ValueError, match="distinct"):
        KeyedNoise(root, 0, (b"a", b"a"), 0)
    with pytest.raises(ValueError, match="first_tick"):
        KeyedNoise(root, 0, KEYS, -1)
    with pytest.raises(ValueError, match="part"):
        KeyedNoise(root, 1 << 16, KEYS, 0)
    with pytest.raises(ValueError, match="labels must be"):
        noise.gaussian(LABELS[:3], good, 1)
    with pytest.raises(ValueError, match="uint64"):
        noise.gaussian(LABELS, good.astype(np.int64), 1)
    with pytest.raises(ValueError, match="level"):
        noise.gaussian(label(1 << 40, np.arange(4)), good, 1)


SCRIPT = """
import hashlib, numpy as np
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey
keys = [b"%d" % i for i in range(3000)]
noise = KeyedNoise(RootKey.derive(bytes(32), "r", bytes(32)), 0, keys, 0)
at, digests = label(0, np.arange(3)), np.zeros((3, 3000, 2), dtype=np.uint64)
total = hashlib.sha256()
for draw in (noise.gaussian(at, digests, 5), noise.k_norm(at, digests, 5),
             noise.gumbel(at, digests, 5), noise.discrete_gaussian(at, digests, [1, 10**6, 2**80])):
    total.update(draw.tobytes())
print(total.hexdigest())
"""


@pytest.mark.slow
def test_same_bits_without_the_cpus_vector_features():
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    has = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    repository = str(Path(__file__).parents[3])
    printed = set()
    for disabled in ("", " ".join(has)):
        environment = {**os.environ, "PYTHONPATH": repository, "NPY_DISABLE_CPU_FEATURES": disabled}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1


@pytest.mark.parametrize("dimension", [15, 16, 17, 201])
def test_wide_leaves_have_the_digests_of_many_leaves(dimension: int) -> None:
    """Few wide leaves go another way through AES than many: the digests are the same."""
    keys = [b"key %d" % i for i in range(300)]
    leaves = np.random.default_rng(0).integers(-9, 9, (1, len(keys), dimension))
    root = RootKey.derive(SECRET, "shop", PLAN)
    noise = KeyedNoise(root, 0, keys, 5)
    together = noise.leaf_digests(leaves)
    for row in (0, 7):
        alone = KeyedNoise(root, 0, [keys[row]], 5)
        found = alone.leaf_digests(np.ascontiguousarray(leaves[:, row : row + 1]))
        np.testing.assert_array_equal(found[0, 0], together[0, row])
