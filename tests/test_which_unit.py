"""docs/how-to/unit-and-contributions.md: its configs are planned, its table is what they cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from weir.dpcore.config import yaml
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.spaced import compiled

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "unit-and-contributions.md"
TEXT = PAGE.read_text()
CONFIGS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
LINES = (
    "{count: events}",
    "{count: events, over: 1}",
    "{count: users}",
    "{count: users, over: 28d}",
    "{count: users, per: period}",
    "{sum: amount, clip: [0, 200]}",
    "{sum: amount, clip_user: [0, 200]}",
    "{mean: amount, clip: [0, 200]}",
    "{mean: amount, clip: [0, 200], of: users}",
    "{variance: amount, clip: [0, 200]}",
    "{variance: amount, clip: [0, 200], of: users}",
    "{histogram: amount, edges: [0, 50, 200], over: 1}",
    "{histogram: amount, edges: [0, 50, 200], of: users}",
)


def cost(whole: dict[str, Any], line: str) -> tuple[str, str, str]:
    """Span, what the unit adds to a cell, and the worst noise."""
    aggregates = {"one": yaml.parse_mapping(f"one: {line}")["one"]}
    config = PlanConfig.from_dict({**whole, "aggregates": aggregates})
    terms = config.terms()
    program = compiled(config.algorithm, terms, None).program
    (info,) = program.describe(terms.ticks())
    return (
        "all" if info.over is None else str(info.over),
        f"{info.sensitivity:,.0f}",
        f"{float(f'{info.stddev_worst:.2g}'):,g}",
    )


def row(line: str) -> str:
    """One line of the table: under a user, and under an event where that is asked for."""
    whole = dict(yaml.parse_mapping(CONFIGS[0]))
    over, user, noise = cost(whole, line)
    theirs: tuple[str, ...] = ("-", "-")
    if "user" not in line:
        privacy = {k: v for k, v in whole["privacy"].items() if k not in ("per", "contributions")}
        schema = {k: v for k, v in whole["schema"].items() if k != "unit"}
        of_event = {**whole, "schema": schema, "privacy": {**privacy, "unit": "event"}}
        theirs = cost(of_event, line)[1:]
    return f"| `{line[1:-1]}` | {over} | {user} | {noise} | {' | '.join(theirs)} |"


def test_the_table_is_what_a_plan_says() -> None:
    head, _, rest = TEXT.partition("<!-- costs -->")
    table, _, _ = rest.partition("<!-- end -->")
    written = [line for line in table.splitlines() if line.startswith("| `")]
    assert written == [row(line) for line in LINES]


@pytest.mark.parametrize("text", CONFIGS)
def test_its_configs_are_planned(text: str) -> None:
    made = Plan.from_yaml(text)
    assert made.person is not None
    assert made.guarantee.unit == "user" and made.guarantee.epsilon == 2
    assert made.outputs
