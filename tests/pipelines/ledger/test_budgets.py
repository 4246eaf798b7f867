"""A plan of a budget's own epsilon and delta fits into it, whatever its noise, and never twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL
from tests.pipelines.ledger.conftest import asking
from weir.dpcore.errors import ConfigError
from weir.dpcore.registry import CONTINUAL_SUMS
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger.reservations import look, reserve

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
