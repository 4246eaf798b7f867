"""What noise hides is marked, with the least change that helps; and what a weight buys."""

from __future__ import annotations

import re

import pytest

from weir.dpcore.plan import Plan

TEXT = """
name: shop
schema: {{time: at, id: id}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-12-31T00:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: all}}
mechanism: {{noise: gaussian}}
expect: {{events: 18}}
aggregates:
  visits: {{count: events, over: {over}}}
  spent: {{sum: paid, clip: [0, 10], over: {over}}}
"""


def marks(epsilon: float, over: int = 1) -> tuple[list[str], str]:
    warnings = Plan.from_yaml(TEXT.format(epsilon=epsilon, over=over)).warnings
    return (
        [line for line in warnings if "useless at this cadence" in line],
        next((line for line in warnings if line.startswith("The least change")), ""),
    )


def test_marks_name_noise_and_size_and_end_with_the_change() -> None:
    (visits, spent), change = marks(0.3)
    assert re.search(r"± [\d.]+ events of noise on cells of about 18 \(expect.events: 18", visits)
    assert "of noise on a value of at most 180" in spent
    assert "over: 7 makes it" in change and "weir estimate" in change
    assert marks(5.0) == ([], "")


@pytest.mark.slow
def test_the_change_that_is_named_does_what_is_said() -> None:
    """With the span that it names its output is not marked any more, at the margin that it says."""
    _, change = marks(0.3)
    over = int(re.search(r"over: (\d+) makes it", change)[1])  # type: ignore[index]
    said = float(re.search(r"± ([\d,.]+) on about", change)[1].replace(",", ""))  # type: ignore[index]
    name = change.split()[4]
    text = TEXT.format(epsilon=0.3, over=1)
    line = next(line for line in text.splitlines() if line.startswith(f"  {name}:"))
    plan = Plan.from_yaml(text.replace(line, line.replace("over: 1}", f"over: {over}}}")))
    assert not any(one.startswith(f"{name}, over") for one in plan.warnings)
    (info,) = (info for info in plan.outputs if info.name == name)
    assert said == pytest.approx(plan.band * info.stddev_worst, rel=0.1)


@pytest.mark.slow
def test_where_no_span_is_enough_the_best_is_named_as_such() -> None:
    _, change = marks(0.001)
    assert "which is not enough; take coarser keys or a larger epsilon too" in change


@pytest.mark.slow
def test_twice_the_weight_buys_what_is_said() -> None:
    text = TEXT.format(epsilon=1, over=7)
    plan = Plan.from_yaml(text)
    prices = {price.output: price for price in plan.weight_prices}
    heavier = Plan.from_yaml(
        text.replace("visits: {count: events,", "visits: {count: events, weight: 2,")
    )
    pairs = zip(heavier.outputs, plan.outputs, strict=True)
    own, other = (a.stddev_worst / b.stddev_worst for a, b in pairs)
    assert prices["visits"].own == pytest.approx(own, rel=1e-3) and own < 1
    assert prices["visits"].others == pytest.approx(other, rel=1e-3) and other > 1
