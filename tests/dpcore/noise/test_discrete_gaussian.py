from __future__ import annotations

import ast
import collections
import inspect
import re
import sys
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri, ndtri_exp

from weir.dpcore import native
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise import discrete_gaussian as module
from weir.dpcore.noise.acceptance import (
    HEIGHT_BITS,
    MARGIN,
    Constants,
    acceptance,
    envelope,
    exp_bounds,
    settle,
)
from weir.dpcore.noise.discrete_gaussian import WIDER
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.streams import Streams

SPREAD = [1, 2, 3, 4, 7, 10, 100, 1000, 10**6, 10**12 + 7, 2**62, 2**80]


def probability(variance: int, bucket: int, magnitude: int) -> Decimal:
    """Acceptance of one attempt to 100 digits."""
    shape = envelope(variance)
    with localcontext() as context:
        context.prec = 100
        power = (-(Decimal(magnitude) ** 2) / (2 * Decimal(variance))).exp()
        return power * shape.height * Decimal(2) ** (bucket - HEIGHT_BITS)


def word(shift: int, offset: int, sign: int, bucket: int) -> int:
    return offset | sign << shift | 1 << (shift + 1 + bucket)


def never(number: int) -> tuple[int, int]:
    raise AssertionError("asked for more bits")


@pytest.mark.parametrize("variance", SPREAD)
def test_envelope_is_above_and_close(variance):
    shape = envelope(variance)
    assert Fraction(9, 25) * variance < 4**shape.shift <= Fraction(36, 25) * variance
    touched = False
    for bucket in range(12):
        chance = probability(variance, bucket, bucket << shape.shift)
        assert chance <= 1
        touched |= chance > 1 - Decimal(2) ** -60
    assert touched


@pytest.mark.parametrize("variance", [1, 2, 10, 1000, 2**80])
def test_settle_accepts_with_exactly_the_right_probability(variance):
    """The largest accepted uniform, found by bisection, is floor(2^64 p) - 1 or its neighbour."""
    shape = envelope(variance)
    top = (1 << shape.shift) - 1
    for bucket in range(5):
        for offset in {0, top // 3, top}:
            for sign in (0, 1):
                y = offset + (bucket << shape.shift)
                expected = -1 - y if sign else y
                low = word(shape.shift, offset, sign, bucket)
                threshold = probability(variance, bucket, abs(expected)) * 2**64
                at = int(threshold)
                if at:
                    assert settle(shape, low, at - 1, never) == expected
                if at + 1 < 2**64:
                    assert settle(shape, low, at + 1, never) is None


@pytest.mark.parametrize("variance", [1, 2, 5, 40])
def test_every_integer_has_one_way_to_be_drawn_and_its_exact_weight(variance):
    """Enumerates (offset, sign, bucket): P(x) / P(0) equals exp(-x^2 / 2 S) to 60 digits."""
    shape = envelope(variance)
    weight: dict[int, Decimal] = {}
    for bucket in range(10):
        for offset in range(1 << shape.shift):
            for sign in (0, 1):
                y = offset + (bucket << shape.shift)
                x = -1 - y if sign else y
                assert x not in weight
                with localcontext() as context:
                    context.prec = 100
                    weight[x] = probability(variance, bucket, abs(x)) / 2 ** (bucket + 1)
    reach = 10 << shape.shift
    assert sorted(weight) == list(range(-reach, reach))
    with localcontext() as context:
        context.prec = 80
        for x, mass in weight.items():
            exact = (-(Decimal(x) ** 2) / (2 * Decimal(variance))).exp()
            assert abs(mass / weight[0] / exact - 1) < Decimal(10) ** -60


def test_an_undecided_uniform_is_extended():
    shape = envelope(1000)
    low = word(shape.shift, 5, 0, 0)
    with localcontext() as context:
        context.prec = 100
        scaled = probability(1000, 0, 5) * Decimal(2) ** 128
        first, rest = divmod(int(scaled), 2**64)
    asked: list[int] = []

    def extend(with_bits: int) -> object:
        def more(number: int) -> tuple[int, int]:
            asked.append(number)
            return 0, with_bits

        return more

    assert settle(shape, low, first, extend(rest - 1)) == 5
    assert settle(shape, low, first, extend(rest + 1)) is None
    assert asked == [1, 1]


def test_trailing_zeros_go_on_in_the_extension():
    shape = envelope(1)
    asked: list[int] = []

    def extend(number: int) -> tuple[int, int]:
        asked.append(number)
        return (0, 0) if number < 3 else (4, 0)

    assert settle(shape, 0, 2**63, extend) is None
    assert asked == [1, 2, 3]


@pytest.mark.parametrize("variance", SPREAD)
def test_fast_decisions_are_the_exact_ones(variance):
    """Random blocks, and blocks at the very ends of what is left to ``settle``."""
    shape = envelope(variance)
    random = np.random.default_rng(variance % 1000)
    words = random.integers(0, 2**64, (5, 200, 2), dtype=np.uint64)
    constants = Constants.of([variance])
    bucket = np.minimum(random.geometric(0.5, 200) - 1, 6).astype(np.uint64)
    keep = np.uint64((1 << (shape.shift + 1)) - 1)
    edge = (words[1, :, 0] & keep) | np.uint64(1) << (np.uint64(shape.shift + 1) + bucket)
    words[1:, :, 0] = edge
    low = [int(word) for word in edge]
    reach = [(word & (2**shape.shift - 1)) + (word >> shape.shift & 1) for word in low]
    chance = acceptance(np.array(reach, dtype=np.uint64), bucket, constants).astype(object)
    for row, end in enumerate((chance * 2**32 - 1, chance * 2**32), 1):
        words[row, :, 1] = np.maximum(end, 0).astype(np.uint64)
    for row, end in enumerate((-1, 0), 3):
        beyond = (chance + MARGIN) * 2**32 + end
        words[row, :, 1] = np.minimum(beyond, 2**64 - 1).astype(np.uint64)
    values, accepted, hard = module._attempt(words, constants)
    inside = chance > 0
    room = chance + MARGIN < 2**32
    assert not hard[0].any()
    assert (accepted[1] & ~hard[1])[inside].all()
    assert hard[2].all() and hard[3].all()
    assert not (accepted[4] | hard[4])[room].any()
    for row in range(5):
        for i in range(200):
            if hard[row, i]:
                continue
            exact = settle(shape, int(words[row, i, 0]), int(words[row, i, 1]), never)
            assert (exact is not None) == accepted[row, i]
            assert exact is None or exact == values[row, i]


class Watched(np.ndarray):
    """Keeps the kinds of everything that a ufunc reads or makes."""

    kinds: ClassVar[collections.Counter[str]] = collections.Counter()

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: Any
    ) -> object:
        given = [np.asarray(one) for one in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(one) for one in options["out"])
        made = getattr(ufunc, method)(*given, **options)
        results = made if isinstance(made, tuple) else (made,)
        self.kinds.update(one.dtype.kind for one in (*given, *map(np.asarray, results)))
        return made.view(Watched) if isinstance(made, np.ndarray) else made


def test_only_integers_between_random_bits_and_samples(draw, monkeypatch):
    expected = draw("discrete_gaussian", [1, 10**6, 2**80], rows=2, keys=50)
    monkeypatch.setattr(module, "ciphers", None)
    original = Streams.encrypt

    def encrypt(self: Streams, source: np.ndarray, out: np.ndarray) -> np.ndarray:
        return original(self, source, out).view(Watched)

    monkeypatch.setattr(Streams, "encrypt", encrypt)
    Watched.kinds.clear()
    assert np.array_equal(draw("discrete_gaussian", [1, 10**6, 2**80], rows=2, keys=50), expected)
    assert set(Watched.kinds) == {"u", "b"}
    assert Watched.kinds["u"] > 60


def test_no_floating_point_in_the_source():
    """Neither a literal, nor a true division, nor the name of a type or of a function with one."""
    for one in (module, sys.modules[acceptance.__module__], sys.modules[settle.__module__],
                sys.modules[exp_bounds.__module__]):  # fmt: skip
        for node in ast.walk(ast.parse(inspect.getsource(one))):
            assert not isinstance(node, ast.Div)
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
            if isinstance(node, ast.Attribute | ast.Name):
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                assert "float" not in name.lower()
                assert name not in {"exp", "log", "log2", "sqrt", "double"}
    kernel = (Path(native.__file__).parent / "discrete.c").read_text()
    assert not re.search(r"float|double|sqrt|\d\.|\.\d|\de\d", kernel.replace(".py", ""))


def mass(variance: float, edges: np.ndarray) -> np.ndarray:
    """P(x in [edges[i], edges[i + 1])), tails included."""
    if variance <= 2 * 10**6:
        reach = np.arange(-12 * int(variance**0.5) - 12, 12 * int(variance**0.5) + 13)
        weights = np.exp(-(reach.astype(float) ** 2) / (2 * variance))
        return np.histogram(reach, edges, weights=weights / weights.sum())[0]
    return np.diff(stats.norm.cdf(edges - 0.5, scale=variance**0.5))


@pytest.mark.slow
@pytest.mark.parametrize("variance", [1, 2, 10, 1000, 10**6, 10**12])
def test_right_scale_passes_and_wrong_ones_fail(draw, variance):
    sample = draw("discrete_gaussian", [variance] * 4).reshape(-1)
    assert sample.size == 200_000
    sigma = variance**0.5
    if variance <= 10:
        edges = np.arange(-int(4 * sigma), int(4 * sigma) + 2).astype(float)
    else:
        edges = np.unique(np.round(stats.norm.ppf(np.linspace(0, 1, 102)[1:-1]) * sigma))
    edges = np.concatenate([[-1e15], edges, [1e15]])
    counts = np.histogram(sample.astype(float), edges)[0]

    def p_value(scale: float) -> float:
        expected = mass(variance * scale**2, edges)
        return float(stats.chisquare(counts, expected / expected.sum() * sample.size).pvalue)

    assert p_value(1.0) > 1e-3
    assert p_value(1.05) < 1e-9
    assert p_value(0.95) < 1e-9
    assert abs(sample.mean()) < 5 * sigma / sample.size**0.5


def test_offsets_inside_a_bucket_are_uniform(draw):
    sample = draw("discrete_gaussian", [2**80] * 4)
    low = np.bincount((sample.reshape(-1) & 63), minlength=64)
    assert stats.chisquare(low).pvalue > 1e-3


def test_coordinates_are_independent_and_need_not_be_alike(draw):
    sample = draw("discrete_gaussian", [100, 0, 10**8, 2**80], rows=20)
    assert not sample[..., 1].any()
    x = sample[..., [0, 2, 3]].reshape(-1, 3).astype(float) / [10, 1e4, 2.0**40]
    assert np.abs(x.std(axis=0) - 1).max() < 0.03
    assert np.abs(np.corrcoef(x.T) - np.eye(3)).max() < 5 / np.sqrt(len(x))
    alone = draw("discrete_gaussian", [0, 0, 10**8], rows=20)
    assert np.array_equal(alone[..., 2], sample[..., 2])


def test_all_zero_variances(draw):
    assert draw("discrete_gaussian", [0, 0], rows=2, keys=3).tolist() == [[[0, 0]] * 3] * 2
    assert draw("discrete_gaussian", [], rows=2, keys=3).shape == (2, 3, 0)


@pytest.mark.parametrize("variance", [-1, 2**80 + 1])
def test_refused_variances(draw, variance):
    with pytest.raises(ConfigError, match="variance"):
        draw("discrete_gaussian", [variance], rows=1, keys=1)
    with pytest.raises(TypeError):
        draw("discrete_gaussian", [1.5], rows=1, keys=1)


@pytest.fixture
def forced() -> Iterator[list[int]]:
    """Makes the bits for the bucket run out in every first attempt; counts the settled ones."""
    calls: list[int] = []
    original, settled = Streams.encrypt, module.settle

    def encrypt(self: Streams, source: np.ndarray, out: np.ndarray) -> np.ndarray:
        words = original(self, source, out)
        if len(source) > 1 and not calls:
            words[:, 0] = 0
        return words

    def count(*arguments: object) -> int | None:
        calls.append(1)
        return settled(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ciphers", None)
        patch.setattr(Streams, "encrypt", encrypt)
        patch.setattr(module, "settle", count)
        yield calls


def test_settled_attempts_fit_into_the_batch(draw, forced):
    sample = draw("discrete_gaussian", [10**4], rows=1, keys=300).reshape(-1)
    assert len(forced) == 300 * (module._ELEMENTS // 300)
    assert 80 < sample.std() < 120


def test_an_attempts_extensions_have_their_own_blocks(root):
    streams = Streams(
        root.mac(), root.stream(), root.heads((b"a",)), 3, 0, label(0, 0),
        np.zeros((1, 1, 2), dtype=np.uint64),
    )  # fmt: skip
    _, seeds = next(streams.chunks(1))
    seen = {
        module._extension(streams, seeds[0], coordinate, attempt, number)
        for coordinate in (0, 1)
        for attempt in (0, 1)
        for number in (1, 2)
    }
    assert len(seen) == 8
    with pytest.raises(OverflowError):
        module._extension(streams, seeds[0], 0, 1 << 24, 1)


def quantiles(s: float, reach: float = 3.0) -> tuple[Floats, Floats]:
    """m / s, and s times the normal quantiles of P[X >= m], for m = 1, 2, .. up to ``reach`` s^2:
    as far as the tail of s turns from a normal one to that of single steps."""
    top = int(reach * s * s) + 2
    weights = -((np.arange(top + int(40 * s) + 10) / s) ** 2) / 2
    tails = np.logaddexp.accumulate(weights[::-1])[::-1]
    tails -= np.logaddexp(tails[0], tails[1])
    return np.arange(1, top) / s, -ndtri_exp(tails[1:top]) * s


@pytest.mark.parametrize("s", [4.0, 16.0, 64.0])
def test_the_lemma_holds_at_every_step(s: float) -> None:
    """Both bounds of the proof, and how far off they are: the truth is 1 + 1 / (24 s^2)."""
    v, y = quantiles(s)
    more = np.append(np.diff(y) - 1, 2 * y[0] - 1)  # the last: of the step 0
    near = np.append(np.maximum(v[1:], 1) / s, 1 / s**2)
    assert (more[:-1] <= near[:-1]).all() and more[-1] <= near[-1]
    far = v[:-1] > 4
    w = v[:-1][far]
    assert (more[:-1][far] <= (1 + w**-2) / (1 - 2 / (s * w) - 2 * w**-4) - 1).all()
    assert (y / s <= v + 1e-12).all() and (y / s >= v - 2 / s - 2 / v**3)[v > 4].all()
    assert more.max() * 24 * s * s == pytest.approx(1, abs=0.01)
    assert float(WIDER - 1) >= 2.0**-17 and float(WIDER - 1) > 2.0**-19 + 2.0**-18 + 2.0**-33


@pytest.mark.parametrize("moved", [1, 3, 10])
def test_tests_of_two_neighbours_are_no_better_than_of_gaussians_and_a_smaller_price_is_rejected(
    moved: int,
) -> None:
    """The best tests of X against X + D, at a small s where the difference shows."""
    s = 2.0
    steps = np.arange(-400, 401)
    mass = np.exp(-(steps**2) / (2 * s * s))
    mass /= mass.sum()
    below = np.concatenate([[0.0], np.cumsum(mass)])  # P[X < m] for m = -400 .. 401
    first, second = 1 - below[moved:], below[: len(below) - moved]  # P[X >= m], P[X < m - D]
    some = (first > 1e-9) & (second > 1e-9)
    apart = -ndtri(first[some]) - ndtri(second[some])
    assert apart.max() <= moved / s * (1 + 1 / (24 * s * s) + 1e-3)
    assert apart.max() > moved / s * (1 + 1e-3), "a Gaussian's own price is a little too low here"
