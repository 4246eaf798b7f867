"""Correlated noise in integers: its arithmetic, what roundings move, its size, and its refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dpcore.continual.test_blt import KEYS, noise
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Ints
from weir.dpcore.continual import blt, ended, exact, unit
from weir.dpcore.continual.base import ContinualSum, canonical_mechanism
from weir.dpcore.continual.blt import Blt
from weir.dpcore.continual.columns import between
from weir.dpcore.continual.ended import EndedSum
from weir.dpcore.continual.exact import FixedPoint, FixedState, filtered_units, times
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan

CLASSES = (Blt, EndedSum)


def make(cls: Any, n: int | None = 40, mu: float = 1.0, **more: Any) -> Any:
    request: dict[str, Any] = {"overs": (None,), "window": None, "scales": (1.0, 2.0**9), **more}
    return cls.calibrated(
        dimension=len(request["scales"]),
        sensitivity=1.0,
        horizon=n,
        budget=PrivacyLoss("gdp", mu),
        **{"exact": True, **request},
    )


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grids of few steps a standard deviation, on which roundings matter."""

    def at(bits: int) -> None:
        monkeypatch.setattr(exact, "BITS", bits)
        monkeypatch.setattr(unit, "BITS", bits)
        monkeypatch.setattr(exact, "MOST", 0.9)
        blt.fixed_of.cache_clear()
        ended.fixed_of.cache_clear()
        unit._fine_variance.cache_clear()

    yield at
    monkeypatch.undo()
    at(exact.BITS)


def test_a_product_is_rounded_once_whatever_its_size() -> None:
    rng = np.random.default_rng(1)
    ends = np.array([0, 1, -1, 2**52, -(2**52), 2**61 - 1, -(2**61) + 1])
    some = rng.integers(-(2**61), 2**61, 200) >> rng.integers(0, 60, 200)
    values = np.concatenate([ends, some])
    numbers = [0, 1, -1, 2**53, 2**52 + 1, -(2**52), 3**33, 2**59 - 1, 2**32, 2**32 - 1]
    for number in numbers:
        expected = [(v * number + 2**52) >> 53 for v in values.tolist()]
        small = [abs(v) < 2**61 for v in expected]
        assert (
            times(values, np.int64(number))[small].tolist()
            == np.array(expected, object)[small].tolist()
        )


def curves(mechanism: Any, n: int) -> Ints:
    r = np.ones(n + 1)
    if isinstance(mechanism, EndedSum):
        r = between(mechanism.knots, mechanism.scales_of_ticks, np.arange(n + 1))
    return exact.curves_of(r / r.max())


def sizes_of(mechanism: Any, n: int) -> Any:
    """(n,) sigma_t / sigma."""
    if not isinstance(mechanism, EndedSum):
        return np.ones(n)
    ticks = np.arange(n)
    r = between(mechanism.knots, mechanism.scales_of_ticks, ticks)
    return r / between(mechanism.knots, mechanism.gains, ticks)


def shifts(mechanism: Any, zeta: Ints, change: Ints, n: int) -> Any:
    """What a neighbour's noise is shifted by where releases on the fine grid are the same.

    Args:
      zeta: (n, 1, a) of one run. change: (n, a) of the leaves, in fine steps.

    Returns:
      (n, a) zeta' - zeta.
    """
    fixed, along = mechanism.fixed, curves(mechanism, n)
    states = [fixed.state(1, zeta.shape[2]) for _ in range(2)]
    sums, out = np.zeros(zeta.shape[2], dtype=np.int64), []
    for t in range(n):
        now = along[:, t : t + 1]
        pasts = [filtered_units(fixed, state, 0 * zeta[:1], now)[1][0, 0] for state in states]
        sums = sums + change[t]
        other = zeta[t, 0] + pasts[0] - pasts[1] - sums
        states = [
            filtered_units(fixed, state, drawn[None, None].copy(), now)[0]
            for state, drawn in zip(states, (zeta[t, 0], other), strict=True)
        ]
        out.append(other - zeta[t, 0])
    return np.asarray(out)


def attained(mechanism: Any, n: int, first: int, sizes: Any, seed: int) -> tuple[float, Any]:
    """mu of a change of a record at a tick, in shares of the scales; and the roundings of rows."""
    sigma, scales = mechanism.noise_scale, np.asarray(mechanism.scales)
    fine = scales * 2.0 ** np.array([unit.finer(sigma * s) for s in scales])
    deviation = sigma * fine * sizes_of(mechanism, n)[:, None]
    rng = np.random.default_rng(seed)
    zeta = np.rint(rng.normal(size=(n, len(scales))) * deviation).astype(np.int64)
    change = np.zeros((n, len(scales)), dtype=np.int64)
    change[first] = np.trunc(np.asarray(sizes) * fine)
    moved = shifts(mechanism, zeta[:, None], change, n) / deviation
    clean = np.linalg.solve(mechanism.materialize(n), np.cumsum(change / fine, axis=0)) / sigma
    return math.sqrt((moved**2).sum()), moved + clean


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("bits", [4, 8, 34])
def test_no_record_moves_rows_by_more_than_is_charged(cls: Any, bits: int, coarse: Any) -> None:
    """Two runs with the same releases: their noise differs by the change and by roundings."""
    coarse(bits)
    n, worst, most = 30, 0.0, 0.0
    mechanism = make(cls, n, mu=10.0, scales=(1.0, 0.25))
    for seed in range(3):
        first = seed * 7 % n
        for sizes in ((1, 0), (0, -1), (0.6, 0.8), (0.1, 0)):
            mu, rounding = attained(mechanism, n, first, sizes, seed)
            worst, most = max(worst, mu), max(most, float(np.abs(rounding).max()))
            assert mu <= mechanism.loss(n - first).value
    assert most <= mechanism.fixed.rounding
    assert most > mechanism.fixed.rounding / 40
    assert worst > 0.9 * mechanism.loss(n).value or bits < 34


@pytest.mark.parametrize("cls", CLASSES)
def test_roundings_that_are_not_charged_are_found(
    cls: Any, coarse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay above rejects a price of sums alone: roundings of 40 rows add to it."""
    coarse(3)
    monkeypatch.setattr(FixedPoint, "rounded", lambda *_: 0.0)
    mechanism = make(cls, 30, mu=0.63, scales=(0.5, 0.25))
    results = [attained(mechanism, 30, 0, (1, 0), seed)[0] for seed in range(3)]
    assert max(results) > 1.02 * mechanism.loss(30).value


@pytest.mark.parametrize("cls", CLASSES)
def test_budgets_are_kept_and_roundings_take_little(cls: Any) -> None:
    mechanism, wide = make(cls, 1000, mu=0.2), make(cls, 1000, mu=0.2, keys=200)
    plain = replace(mechanism, exact=None)
    assert 0.2 * (1 - 1e-6) < mechanism.loss(None).value <= 0.2
    assert 1 < mechanism.loss(None).value / plain.loss(None).value < 1 + 1e-5
    assert wide.noise_scale > mechanism.noise_scale
    assert mechanism.drawn_exactly and not plain.drawn_exactly
    assert mechanism.state_bytes() <= 2 * plain.state_bytes()


def test_a_user_is_charged_for_roundings_in_every_key() -> None:
    pattern = Pattern(40, 40, 6, 1, 5, 6, None, 30)
    for cls in CLASSES:
        few, many = make(cls, pattern=pattern), make(cls, pattern=pattern, keys=6000)
        assert few.exact.keys == 60 and few.loss(None).value <= 1
        alike = replace(many, exact=exact.Exact(60))
        assert many.loss(None).value > alike.loss(None).value
        assert few.loss_of_periods(2, None, 3).value > few.loss(None).value


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("n", [4, 30])
def test_the_size_of_a_tick_is_the_same_however_ticks_are_cut(cls: Any, n: int) -> None:
    """What is asked of the sampler: where sizes are close, most draws would be the same."""
    mechanism = make(cls, n, scales=(1.0, 2.0**20))
    data = np.zeros((n, 1, 2), dtype=np.int64)

    def asked(strides: list[int]) -> list[Any]:
        out: list[Any] = []

        class Asked:
            def __init__(self, first: int) -> None:
                self.inner, self.first_tick = noise(first, KEYS[:1]), first

            def leaf_digests(self, leaves: Ints) -> Any:
                return self.inner.leaf_digests(leaves)

            def discrete_gaussian(self, labels: Any, digests: Any, variances: Any) -> Ints:
                each = isinstance(variances[0], tuple)
                out.extend(variances if each else [variances] * len(labels))
                return self.inner.discrete_gaussian(labels, digests, variances)

        state, at = mechanism.init(1), 0
        for size in strides:
            state, _ = mechanism.step(state, data[at : at + size], Asked(at))
            at += size
        return out

    whole = asked([n])
    assert len(whole) == n
    for cut in ([1] * n, [n - 1, 1], [1, n - 1], [n // 2, n - n // 2]):
        assert asked(cut) == whole


@pytest.mark.slow
@pytest.mark.parametrize("cells", [4, 12, 32])
@pytest.mark.parametrize("scale", [1.0, 2.0**20, 2.0**34])
def test_every_tick_of_users_is_within_the_sampler(cells: int, scale: float) -> None:
    """Noise of ticks differs by the root of a user's cells: beyond 16 times it is of doubles."""
    mechanism = make(
        EndedSum, 100, scales=(scale,), exact=False,
        pattern=Pattern(100, 100, cells, 1, 1, cells, None, cells),
    )  # fmt: skip
    sizes = sizes_of(mechanism, 100)
    assert mechanism.drawn_exactly == (sizes.max() <= 16)
    if mechanism.drawn_exactly:
        data = np.zeros((100, 1, 1), dtype=np.int64)
        mechanism.step(mechanism.init(1), data, noise(0, KEYS[:1]))
        drawn = [
            unit.fine_variances(mechanism.noise_scale, (scale,), ratio, exact.VARIANCE_BITS)[0]
            for ratio in sizes.tolist()
        ]
        assert min(drawn) >= 2**56 and max(drawn) <= 2**80


@pytest.mark.parametrize("cls", CLASSES)
def test_no_keys_are_no_noise(cls: Any) -> None:
    mechanism = make(cls, 5)
    _, (released,) = mechanism.step(mechanism.init(0), np.zeros((5, 0, 2), np.int64), noise(0, ()))
    assert released.shape == (5, 0, 2)


@pytest.mark.parametrize("cls", CLASSES)
def test_strides_and_blocks_of_keys_change_no_bit(cls: Any) -> None:
    mechanism = make(cls, 30, scales=(1.0, 0.0, 2.0**9))
    leaves = np.random.default_rng(3).integers(-9, 9, (30, len(KEYS), 3))
    whole, _ = stepped(mechanism, leaves, [30], slice(None))
    parts, state = stepped(mechanism, leaves, [1, 4, 1, 24], slice(None))
    some, _ = stepped(mechanism, leaves, [7, 23], slice(2, 5))
    assert (whole == parts).all() and (whole[:, 2:5] == some).all()
    assert state.own.buffers.dtype == np.int64
    assert (whole[:, :, 1] == np.cumsum(leaves[:, :, 1], axis=0)).all()


def stepped(mechanism: ContinualSum, leaves: Ints, strides: list[int], some: slice) -> Any:
    state = mechanism.init(len(KEYS[some]))
    at, out = 0, []
    for n in strides:
        state, released = mechanism.step(state, leaves[at : at + n, some], noise(at, KEYS[some]))
        out.append(released[0])
        at += n
    return np.concatenate(out), state


class Watched:
    """Noise that knows what was drawn, and may draw something else: a mutant."""

    def __init__(self, inner: Any, mutant: str = "") -> None:
        self.inner, self.mutant, self.calls = inner, mutant, 0

    def __getattr__(self, name: str) -> Any:
        assert name in ("first_tick", "leaf_digests"), f"{name} is not exact"
        return getattr(self.inner, name)

    def discrete_gaussian(self, labels: Any, digests: Any, variances: Any) -> Ints:
        self.calls += 1
        if self.mutant == "doubles":
            real = self.inner.gaussian(labels, digests, 1)
            return np.rint(real * 2.0**40).astype(np.int64)
        if self.mutant == "scale":
            flat = isinstance(variances[0], int)
            less = [
                tuple(int(0.9 * v) for v in row) for row in ([variances] if flat else variances)
            ]
            variances = less[0] if flat else less
        drawn = self.inner.discrete_gaussian(labels, digests, variances)
        return drawn[:, :1] + 0 * drawn if self.mutant == "keys" else drawn


def battery(mechanism: Any, mutant: str) -> list[str]:
    """What is wrong with the noise of many keys."""
    keys, n = [b"%d" % i for i in range(3000)], 12
    leaves = np.zeros((n, len(keys), 1), dtype=np.int64)
    watched = Watched(noise(0, keys), mutant)
    chain = np.zeros((n + 1, len(keys), 2), dtype=np.uint64)
    digests = watched.leaf_digests(leaves)
    _, drawn = mechanism.draw(mechanism.init_noise(len(keys)), chain, digests, watched)
    assert watched.calls
    units = np.linalg.solve(mechanism.materialize(n), drawn[:, :, 0]) / mechanism.noise_scale
    wrong, count = [], units.size
    if abs((units**2).mean() - 1) > 5 * math.sqrt(2 / count):
        wrong.append("scale")
    if abs((units[:, 1:] * units[:, :-1]).mean()) > 5 / math.sqrt(count):
        wrong.append("keys")
    return wrong


@pytest.mark.parametrize("cls", CLASSES)
def test_noise_has_its_size_and_mutants_are_rejected(cls: Any) -> None:
    mechanism = make(cls, 12, mu=4e-4, scales=(1.0,))
    assert battery(mechanism, "") == []
    assert "scale" in battery(mechanism, "scale")
    assert "keys" in battery(mechanism, "keys")
    assert "scale" in battery(mechanism, "doubles")


@pytest.mark.parametrize("cls", CLASSES)
def test_all_steps_of_the_lattice_occur(cls: Any) -> None:
    """Noise of less than a step is what it would be on a finer grid, to the nearest step."""
    mechanism = make(cls, 4, mu=4.0, scales=(1.0,))
    keys = [b"%d" % i for i in range(20000)]
    chain = np.zeros((2, len(keys), 2), dtype=np.uint64)
    drawn = mechanism.draw(mechanism.init_noise(len(keys)), chain, chain[1:], noise(0, keys))[1]
    deviation = float(mechanism.stddev(np.array([0]), None)[0, 0])
    share = math.erf(0.5 / deviation / math.sqrt(2))
    seen = float((drawn == 0).mean())
    assert abs(seen - share) < 5 * math.sqrt(share * (1 - share) / len(keys))


def test_without_exact_noise_nothing_is_in_the_canonical_form() -> None:
    for cls in CLASSES:
        assert canonical_mechanism(make(cls))["exact"] == {"keys": 2}
        assert "exact" not in canonical_mechanism(replace(make(cls), exact=None))


PLAN = """
name: plan
schema: {time: t}
clock: {start: 2024-01-01, period: 1d, end: 2024-03-01}
key: {columns: [k, m], declared: [[a, b], [a, c]]}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {n: {count: events}, s: {sum: y, clip: [0, 10]}}
mechanism: {continual_sum: NAME, noise: discrete_gaussian}
"""


@pytest.mark.parametrize("name", ["blt", "ended"])
def test_it_is_exact_wherever_it_can_be_and_is_refused_elsewhere_where_it_must(name: str) -> None:
    text = PLAN.replace("NAME", name)
    must = Plan.from_yaml(text)
    grouped = Plan.from_yaml(text.replace("m]", "m], groups: [[], [k], [k, m]]"))
    assert grouped.program.sums[0].exact == exact.Exact(6)  # type: ignore[attr-defined]
    fine = Plan.from_yaml(text.replace(", noise: discrete_gaussian", "").replace("1e-6", "1e-14"))
    by_itself = Plan.from_yaml(text.replace(", noise: discrete_gaussian", ""))
    for plan in (must, fine, by_itself):
        assert [part.exact for part in plan.program.sums] == [exact.Exact(2)]  # type: ignore[attr-defined]
        assert plan.guarantee.epsilon <= 1 and "double precision" not in plan.guarantee.statement
        assert {item.noise for item in plan.alternatives} & {"gaussian", "discrete_gaussian"} == {
            "gaussian"
        }
    assert must.program == by_itself.program
    with pytest.raises(ConfigError, match="noise of toeplitz is made of doubles"):
        Plan.from_yaml(text.replace(name, "toeplitz"))
    doubles = Plan.from_yaml(text.replace(name, "toeplitz").replace("discrete_", ""))
    assert "Noise of toeplitz is computed in double" in doubles.guarantee.statement


def test_clocks_whose_roundings_take_too_much_have_noise_of_doubles() -> None:
    with pytest.raises(ConfigError, match="cannot be correlated over no end"):
        make(Blt, None)
    assert not make(Blt, None, exact=False).drawn_exactly
    assert make(Blt, None, window=10_000).loss(10_000).value <= 1
    assert make(Blt, mu=1e-4, scales=(2.0**25,)).drawn_exactly
    with pytest.raises(ConfigError, match="or more; raise epsilon"):
        make(Blt, mu=1e-4, scales=(2.0**27,))
    assert make(Blt, mu=1e-4, scales=(2.0**27,), exact=False).exact is None
    with pytest.raises(ConfigError, match="leaves no budget"):
        make(Blt, mu=0.0)


def test_numbers_fit_their_integers() -> None:
    """Far beyond any draw: every number of the filter at 40 standard deviations."""
    for mechanism in (make(Blt, 4096), make(EndedSum, 4096), make(Blt, None, window=1 << 20)):
        fixed: FixedPoint = mechanism.fixed
        assert fixed.fraction >= 4 and fixed.rounding < 2.0**-20 and fixed.widening < 1 + 2.0**-16
    mechanism = make(EndedSum, 300)
    sizes = sizes_of(mechanism, 300)
    assert mechanism.fixed.most == sizes.max()
    far = np.rint(40 * 2.0**39 * sizes / sizes.max() / math.sqrt(300)).astype(np.int64)
    state: FixedState = mechanism.fixed.state(1, 1)
    after, out = filtered_units(mechanism.fixed, state, far[:, None, None], curves(mechanism, 300))
    assert (np.abs(after.buffers) < 2**61).all() and (out > 0).all()


MODEL = """
name: plan
schema: {time: t}
clock: {start: 2024-01-01, period: 1d, end: 2024-03-01}
privacy: {epsilon: EPSILON, delta: DELTA, protect_for: all}
model: {algorithm: NAME, features: [x, z], target: y, ranges: {x: [0, 1], z: [0, 1], y: [0, 1]}}
"""


def model(name: str, epsilon: float, delta: float) -> Plan:
    text = MODEL.replace("NAME", name).replace("EPSILON", str(epsilon))
    return Plan.from_yaml(text.replace("DELTA", str(delta)))


def test_models_are_exact_or_named_and_refused_where_they_must_be() -> None:
    assert not model("regression.incremental", 0.25, 1e-6).program.doubles
    for name in ("regression.two_trees", "online.pocg"):
        statement = model(name, 1.0, 1e-6).guarantee.statement
        assert "is computed in double precision" in statement
        with pytest.raises(ConfigError, match="doubles here"):
            model(name, 4.0, 1e-13)
