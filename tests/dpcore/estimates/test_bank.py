"""The filters against dense conditioning and a library; their bits; long streams."""

from __future__ import annotations

import importlib
import math
import time
from typing import Any

import numpy as np
import pytest

from tests.dpcore.estimates.dense import DenseModel, noise_matrix
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.base import ContinualSum, canonical_mechanism
from weir.dpcore.continual.blt import Blt
from weir.dpcore.continual.ended import EndedSum
from weir.dpcore.continual.independent import Independent
from weir.dpcore.continual.tables import PERPETUAL
from weir.dpcore.continual.tree import Tree
from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates import bank as banks
from weir.dpcore.estimates.bank import Bank, Gains, SignalModel, grid, likely, turn
from weir.dpcore.estimates.hindsight import rising, smoothed
from weir.dpcore.estimates.laws import BufferLaw, law_of

N = 40
MECHANISMS: list[type[ContinualSum]] = [Blt, EndedSum, Tree, Independent]
MEMBER = np.array([[0.05, 0.3, 0.5]])


def mechanism(kind: type[ContinualSum], n: int = N, **more: Any) -> ContinualSum:
    return kind.calibrated(
        dimension=1, scales=(float(1 << 30),), sensitivity=1.0, overs=(None, 7), window=None,
        horizon=n, budget=PrivacyLoss("gdp", 1.0), **more,
    )  # fmt: skip


def model_of(kind: type[ContinualSum], n: int = N, period: int | None = 7) -> SignalModel:
    return SignalModel(law_of(canonical_mechanism(mechanism(kind, n))), period)


def changes(totals: Floats) -> Floats:
    return np.diff(totals, axis=0, prepend=0.0)


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
def test_the_law_of_a_plan_is_that_of_its_noise(kind: type[ContinualSum]) -> None:
    own, law = mechanism(kind), model_of(kind).law
    matrix = noise_matrix(law, N)
    ticks = np.arange(N)
    assert (matrix**2).sum(axis=1) == pytest.approx(own.factor(ticks, None), rel=1e-9)
    apart = matrix - np.concatenate([np.zeros((7, N)), matrix[:-7]])
    assert (apart**2).sum(axis=1) == pytest.approx(own.factor(ticks, 7), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
def test_one_member_is_dense_conditioning(
    kind: type[ContinualSum], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means, standard deviations and the likelihood, live and in hindsight, to 1e-9; of keys that
    began at a later tick too."""
    monkeypatch.setattr(banks, "FLAT", 100.0)
    model, n = model_of(kind, N + 4), N
    rng = np.random.default_rng(0)
    totals = np.cumsum(5 + rng.normal(size=n)) + model.law.walk(rng.normal(size=(1, n)), first)[0]
    overs = (None, 1, 7, 12)
    filters = Bank(model, 1, overs, first, MEMBER)
    live = [filters.step(change) for change in changes(totals[:, None])]
    after = smoothed(filters, changes(totals[:, None]))
    dense = DenseModel.of(model, MEMBER[0], n, 100.0, first)
    for t in range(0, n, 3):
        for over in overs:
            start = 0 if over is None else max(0, t + 1 - over)
            row = ((np.arange(n) <= t) & (np.arange(n) >= start)).astype(float)
            released = totals[t] - (totals[start - 1] if start else 0.0)
            for count, item in ((t + 1, live[t][over]), (n, after[over][t])):
                mean, stddev = dense.given(totals, row, count)
                assert released - item.mean[0] == pytest.approx(mean, abs=1e-8)
                assert math.sqrt(item.variance[0]) == pytest.approx(stddev, rel=1e-8)
    assert filters.likelihood[0, 0] == pytest.approx(dense.log_likelihood(totals), abs=1e-7)


@pytest.mark.slow
def test_a_library_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """statsmodels, with xi as a state of its own, in place of noise in two equations."""
    structural = importlib.import_module("statsmodels.tsa.statespace.mlemodel")
    monkeypatch.setattr(banks, "FLAT", 100.0)
    model, n = model_of(Blt, period=None), N
    move, m = model.at(0), model.law.size
    rng = np.random.default_rng(1)
    totals = np.cumsum(5 + rng.normal(size=n)) + model.law.walk(rng.normal(size=(1, n)))[0]
    library = structural.MLEModel(changes(totals), k_states=m + 4, k_posdef=3)
    theta, omega = model.law.form.theta, model.law.form.omega  # type: ignore[attr-defined]
    design = [-1.0, *omega, 1.0, 1.0, 1.0]  # D, u, level, xi, eps
    transition = np.zeros((m + 4, m + 4))
    transition[0, 1 : 1 + m], transition[0, m + 2] = omega, 1.0
    transition[range(1, 1 + m), range(1, 1 + m)], transition[1 : 1 + m, m + 2] = theta, 1.0
    transition[m + 1, m + 1] = 1.0
    selection = np.zeros((m + 4, 3))
    selection[m + 1 :] = np.eye(3)
    library["design"], library["transition"], library["selection"] = [design], transition, selection
    library["state_cov"] = np.diag([0.05, 1.0, 0.3])
    start = np.zeros((m + 4, m + 4))
    start[m + 1 :, m + 1 :] = np.diag([100.0, 1.0, 0.3])
    library.ssm.initialize_known(np.zeros(m + 4), start)
    theirs = library.ssm.filter()
    filters = Bank(model, 1, (None,), 0, np.array([[0.05, 0.3, 0.0]]))
    ours = [filters.step(change)[None] for change in changes(totals[:, None])]
    assert [item.mean[0] for item in ours] == pytest.approx(theirs.predicted_state[0, 1:])
    assert [item.variance[0] for item in ours] == pytest.approx(
        theirs.predicted_state_cov[0, 0, 1:]
    )
    assert move.size == 1.0


def test_the_grid_and_its_numbers() -> None:
    assert len(grid(True)) == 417 and len(grid(False)) == 105
    assert grid(True)[:, 0].max() == 1e8
    for k in range(1, 24):
        assert turn(k, 24) == pytest.approx(
            (math.cos(math.pi * k / 12), math.sin(math.pi * k / 12)), abs=1e-15
        )


def test_gains_hold_no_data_and_keys_do_not_meet() -> None:
    """With a prior that is not pooled, the estimate of a key is the same among others."""
    model = model_of(Blt)
    rng = np.random.default_rng(2)
    series = changes(rng.normal(size=(N, 3)).cumsum(axis=0))
    several, alone = Bank(model, 3, (7,)), Bank(model, 1, (7,))
    for t in range(6):
        several.step(series[t])
        alone.step(series[t, :1])
        assert np.array_equal(several.gains.state, alone.gains.state)
        assert several.likelihood[:, 0] == pytest.approx(alone.likelihood[:, 0], rel=1e-13)


def test_going_on_from_arrays_gives_the_same_bits() -> None:
    model = model_of(Blt)
    series = changes(np.random.default_rng(3).normal(size=(N, 2)).cumsum(axis=0))
    whole, begun = Bank(model, 2, (None, 7)), Bank(model, 2, (None, 7))
    for change in series[:20]:
        whole.step(change)
        begun.step(change)
    again = Bank(model, 2, (None, 7))
    again.restore({name: array.copy() for name, array in begun.to_arrays().items()})
    for change in series[20:]:
        a, b = whole.step(change), again.step(change)
        assert all(np.array_equal(a[over].mean, b[over].mean) for over in a)
        assert all(np.array_equal(a[over].variance, b[over].variance) for over in a)


def test_the_bits_are_these() -> None:
    """On every machine: sums, products, divisions and exact functions in a fixed order."""
    model = SignalModel(BufferLaw(PERPETUAL), 7)
    filters = Bank(model, 2, (None, 7))
    for t in range(20):
        out = filters.step(np.array([(t * 7919 % 13) / 4 - 1.0, (t * 104729 % 17) / 8.0]))
    shown = [value.hex() for over in (None, 7) for value in (*out[over].mean, *out[over].variance)]
    assert shown == BITS


BITS = [
    "0x1.da88ea335d3b2p-2",
    "-0x1.c1405fdcfcf53p-2",
    "0x1.c33408706bc4ep+0",
    "0x1.9ac8933244b0fp+0",
    "-0x1.4c097d9e1aac3p-4",
    "0x1.d52dac9d7d47fp-3",
    "0x1.d6c87360be641p-1",
    "0x1.631663adfe500p-1",
]


def test_the_pruned_bank_goes_on_with_its_best_and_the_extremes() -> None:
    model = model_of(Blt)
    filters = Bank(model, 2, (7,), prune=True)
    rng = np.random.default_rng(5)
    for _ in range(30):
        filters.step(rng.normal(size=2))
    assert filters.members is not None and filters.members.shape == (32, 3)
    assert filters.weights.shape == (32, 2)
    assert filters.weights.sum(axis=0) == pytest.approx([1.0, 1.0])
    kept = {tuple(row) for row in filters.members}
    assert {(1e8, 0, 0), (1e-6, 0, 0), (1, 1, 0), (1e3, 1e3, 0)} <= kept
    assert len(likely(np.zeros((417, 1)), grid(True))) == 32


def test_rising_is_the_nearest_series_that_never_falls() -> None:
    values = np.array([1.0, 3.0, 2.0, 2.0, 5.0, 4.0])
    assert rising(values, np.ones(6)).tolist() == pytest.approx([1, 7 / 3, 7 / 3, 7 / 3, 4.5, 4.5])
    assert rising(np.array([2.0, 0.0]), np.array([3.0, 1.0])).tolist() == [1.5, 1.5]


@pytest.mark.slow
def test_20000_ticks_with_the_slowest_buffers() -> None:
    """Variances stay positive and settle: 1 - theta is as small as 1.5e-11."""
    members = np.array([[1e-6, 0, 0], [1e-2, 1, 1], [1e6, 0, 0], [1e8, 0, 0]])
    gains = Gains(SignalModel(BufferLaw(PERPETUAL), None), members, (7,))
    assert min(PERPETUAL.poles) < 1e-8
    least = np.inf
    rows = []
    for _ in range(20_000):
        row = gains.advance()
        least = min(least, float(row.total.min()), float(row.spans[0].min()))
        rows = [*rows[-999:], row.gain]
    assert least > 0
    assert np.abs(rows[-1] - rows[0]).max() < 1e-3


@pytest.mark.slow
def test_1000_keys_take_few_milliseconds_a_tick() -> None:
    """3 ms of this machine's time with 32 members; the limit leaves room for slower ones."""
    model = model_of(Blt, 400)
    filters = Bank(model, 1000, (7,), members=grid(True)[::13][:32])
    change = np.random.default_rng(0).normal(size=1000)
    filters.step(change)
    start = time.process_time()
    for _ in range(20):
        filters.step(change)
    assert (time.process_time() - start) / 20 < 0.02


def test_other_noise_is_refused() -> None:
    facts = canonical_mechanism(mechanism(Tree))
    with pytest.raises(ConfigError, match="no interval of a filter is proved"):
        law_of({**facts, "kind": "laplace"})
    with pytest.raises(ConfigError, match="no finite state here"):
        law_of({**facts, "name": "toeplitz"})
    with pytest.raises(ConfigError, match="clock.end"):
        law_of({**facts, "horizon": None})
