"""A plan of a budget's own epsilon and delta fits into it, whatever its noise, and never twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import SMALL
from tests.pipelines.ledger.conftest import asking, section
from weir.dpcore.errors import ConfigError
from weir.dpcore.registry import CONTINUAL_SUMS
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger import reservations
from weir.pipelines.ledger.reservations import look, refuse_full, reserve

pytestmark = pytest.mark.slow

DELTAS = {"gaussian": 1e-6, "discrete_gaussian": 1e-6, "k_norm": 0.0, "laplace": 0.0}
SPANS = ("aggregates.visits.over=[7]", "aggregates.paid.over=[7]")
NOISES = [(name, kind) for name in CONTINUAL_SUMS.own for kind in CONTINUAL_SUMS[name].kinds]


@pytest.mark.parametrize(("mechanism", "noise"), NOISES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.7])
def test_it_fits_once(tmp_path: Path, mechanism: str, noise: str, epsilon: float) -> None:
    delta = DELTAS[noise]
    budget = f"budget: {{epsilon: {epsilon}, delta: {delta}}}"
    serves_totals = CONTINUAL_SUMS[mechanism].serves([None])
    job = loads(
        f"{SMALL}ledger: {{sqlite: {tmp_path / 'ledger.db'}, scope: x, {budget}}}\n",
        [
            f"mechanism={{continual_sum: {mechanism}, noise: {noise}}}",
            f"privacy.epsilon={epsilon}",
            f"privacy.delta={delta}",
            *(() if serves_totals else SPANS),
            *(("privacy.protect_for=all",) if CONTINUAL_SUMS[mechanism].caveat else ()),
        ],
    )
    assert job.ledger is not None
    plan = plan_of(job)
    reserve(job.ledger, asking(plan, "mark"))
    after = look(job.ledger, plan)
    assert not after.fits and after.spent == pytest.approx(epsilon, rel=0.01)
    with pytest.raises(ConfigError, match="is not enough"):
        reserve(job.ledger, asking(plan, "other mark"))


@pytest.mark.parametrize("read", ["entries_of", "scopes"])
def test_a_scope_that_another_run_opens_meanwhile_is_not_refused_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[str, str], read: str
) -> None:
    """Whichever is read when the other run enters: its scope, or the names of all scopes."""
    job = loads(f"{SMALL}{section(where, epsilon=9.0)}")
    assert job.ledger is not None
    ledger, plan = job.ledger, plan_of(job)
    store = ledger.store(create=True)
    assert store is not None
    owner, name = (reservations, read) if read == "entries_of" else (type(store), read)
    store.close()
    real, others = getattr(owner, name), ["other mark"]

    def with_another(*words: Any) -> Any:
        result = real(*words)
        if others:
            reserve(ledger, asking(plan, others.pop(), "other"))
        return result

    monkeypatch.setattr(owner, name, with_another)
    refuse_full(ledger, asking(plan, "mark"))
    assert not others
    others.append("third mark")
    assert look(ledger, plan).fits
