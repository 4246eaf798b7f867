"""The registry is complete, and nothing in it escapes the contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import weir.dpcore.continual
from tests.contracts.cases import BUDGET, OVERS, cases, windows_of
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.active_users import ActiveUsers
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.learned import LearnedSum
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.noise.noise import KINDS, kind_of
from weir.dpcore.registry import CONTINUAL_SUMS, describe


def test_every_concrete_continual_sum_is_registered():
    classes = set()
    for module in pkgutil.iter_modules(weir.dpcore.continual.__path__):
        loaded = importlib.import_module(f"weir.dpcore.continual.{module.name}")
        for _, cls in inspect.getmembers(loaded, inspect.isclass):
            if issubclass(cls, ContinualSum) and not inspect.isabstract(cls):
                classes.add(cls)
    # Active users and learned clips are of one kind of channel: nobody chooses them for another.
    assert classes == {*CONTINUAL_SUMS.values(), ActiveUsers, LearnedSum}
    assert all(cls.name == name for name, cls in CONTINUAL_SUMS.items())


def test_every_mechanism_is_exercised_with_every_noise_and_window_it_declares():
    tried = {(case.name, case.kind, case.window) for case in cases()}
    for name, cls in CONTINUAL_SUMS.items():
        assert cls.kinds
        assert any(cls.serves(overs) for overs in OVERS)
        for kind in cls.kinds:
            for window in windows_of(name):
                assert (name, kind, window) in tried


@pytest.mark.parametrize("name", CONTINUAL_SUMS)
def test_what_is_not_declared_is_refused(name):
    cls = CONTINUAL_SUMS[name]
    served = next(overs for overs in OVERS if cls.serves(overs))

    def build(kind="gaussian", overs=served, **options):
        budget = PrivacyLoss(kind_of(kind), BUDGET[kind_of(kind)])
        return cls.calibrated(
            dimension=1, scales=(1.0,), sensitivity=1.0, overs=overs, window=8, horizon=100,
            budget=budget, **options,
        )  # fmt: skip

    for kind in set(KINDS) - set(cls.kinds):
        with pytest.raises(ConfigError, match="mechanism.noise"):
            build(kind, norm=1 if kind == "laplace" else 2)
    with pytest.raises(ConfigError, match="mechanism.noise = 'laplace': takes a pure budget"):
        build("gaussian", norm=1)
    for overs in [(), (0,), *(overs for overs in OVERS if not cls.serves(overs))]:
        assert not cls.serves(overs)
        with pytest.raises(ConfigError):
            build(cls.kinds[0], overs)
    with pytest.raises(ConfigError, match="mechanism.no_such_setting"):
        build(cls.kinds[0], no_such_setting=3)


@pytest.mark.parametrize("name", CONTINUAL_SUMS)
def test_a_description_has_all_its_parts(name):
    shown = describe(name)
    assert shown.name == name
    assert shown.title and shown.source and shown.about.endswith(".")
    assert set(shown.noises) == set(CONTINUAL_SUMS[name].kinds)
    assert {"continual_sum", "noise"} <= dict(shown.settings).keys()
    doc = inspect.getdoc(CONTINUAL_SUMS[name])
    for word in ("Formal guarantees", "Unit:", "Relation:", "Sensitivity:", "Guarantee", "Source:"):
        assert word in doc


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="window_tree"):
        describe("no_such_mechanism")


@pytest.mark.parametrize("name", CONTINUAL_SUMS)
def test_every_mechanism_states_its_own_privacy_facts(name):
    assert isinstance(vars(CONTINUAL_SUMS[name])["signed"], bool)


def test_a_mechanism_that_leaves_a_privacy_fact_out_does_not_register(monkeypatch):
    import weir.dpcore.continual.sliding as module

    silent = type("Silent", (module.SlidingSum,), {"name": "sliding"})  # inherited is not stated
    monkeypatch.setattr(module, "SlidingSum", silent)
    with pytest.raises(WeirError, match="signed"):
        CONTINUAL_SUMS["sliding"]
