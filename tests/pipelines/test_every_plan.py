"""Whatever is registered can be planned, shown and written down: for events, and for users."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tests.contracts import versions
from weir.dpcore.config.schema import PLAN_VERSION
from weir.pipelines.results.plan_file import plan_json
from weir.pipelines.show.plan import one_line, render

pytestmark = pytest.mark.slow

CONFIGS = dict(versions.configs())


@pytest.mark.parametrize("case", CONFIGS)
def test_it_is_shown_and_written(case: str) -> None:
    plan = versions.planned(CONFIGS[case], PLAN_VERSION)
    facts = plan.to_json()
    json.dumps([facts, plan_json(plan)], allow_nan=False)
    if plan.person is not None and plan.program.sums:
        assert facts["user"]["cap_prices"], "no contribution bound has a price"
    page = io.StringIO()
    render(plan, Console(file=page, width=120))
    assert plan.name in page.getvalue() and one_line(plan)
    short = io.StringIO()
    render(plan, Console(file=short, width=100), full=False)
    guarantee = short.getvalue().partition("The guarantee\n")[2].partition("\n\n")[0]
    assert 2 <= len(guarantee.splitlines()) <= 8
