"""Every registered algorithm states its neighbour family; without one nothing registers."""

from __future__ import annotations

import sys
import types

import pytest

from weir.dpcore import registry
from weir.dpcore.continual.blt import Blt
from weir.dpcore.errors import WeirError
from weir.dpcore.neighbours import Family
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS


@pytest.mark.parametrize("names", [CONTINUAL_SUMS, AGGREGATES, MODELS, SOLVERS])
def test_every_algorithm_states_a_family(names: registry.Registry) -> None:
    for name in names:
        family = names[name].neighbours
        assert isinstance(family, Family) and family.why
        assert family.ticks(24, 8, 4)


def test_a_mechanism_without_a_family_does_not_register(monkeypatch) -> None:
    """Neither a sum, which states its own, nor a model, which may have its base's."""
    module = types.ModuleType("silent")
    facts = {"name": "silent", "signed": False}
    module.Silent = type("Silent", (Blt,), facts)  # type: ignore[attr-defined]
    module.Bare = type("Bare", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "silent", module)
    with pytest.raises(WeirError, match="Silent does not state neighbours"):
        registry.Sums({"silent": "silent:Silent"}, "no.group")["silent"]
    with pytest.raises(WeirError, match="Bare does not state neighbours"):
        registry.Algorithms({"bare": "silent:Bare"}, "no.group")["bare"]
