"""What ``weir advise`` answers: the least epsilon, the finest period, the fewest to leave out."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.explore import EPSILON, changed, prices, with_period
from weir.pipelines.rehearse.remedies import advise
from weir.pipelines.rehearse.search import LEAST_EPSILON, MOST_EPSILON, parse, rounded_up

TEXT = """\
name: rides
schema: {time: at}
clock: {start: 2024-01-01T00:00:00Z, period: 1d, end: 2026-01-01T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
expect: {events: 2000}
aggregates:
  rides: {count: events, over: [1, 28]}
  paid: {sum: fare, clip: [0, 100], over: 1}
  fare: {mean: fare, clip: [0, 100], over: 1}
mechanism: {noise: gaussian}
"""


def config(text: str = TEXT) -> PlanConfig:
    return PlanConfig.from_yaml(text)


@pytest.mark.slow
def test_the_least_epsilon_reaches_the_target_and_a_smaller_one_does_not() -> None:
    for target, place, half in (("rides over 1: 10", ("rides", 1), 10.0),
                                ("paid: 5% of 40000", ("paid", 1), 2000.0)):  # fmt: skip
        found = advise(config(), [target]).epsilon
        assert found.reaches
        assert prices(changed(config(), {EPSILON: found.value}))[place] <= half
        assert prices(changed(config(), {EPSILON: found.value / 1.03}))[place] > half


@pytest.mark.slow
def test_all_targets_are_reached_at_once() -> None:
    one, other = (advise(config(), [text]).epsilon.value for text in ("rides over 1: 9", "fare: 2"))
    assert advise(config(), ["rides over 1: 9", "fare: 2"]).epsilon.value == max(one, other)


@pytest.mark.slow
def test_a_target_that_the_config_reaches_needs_less() -> None:
    found = advise(config(), ["rides over 28: 5000"])
    assert found.now.reaches and found.epsilon.value < 1
    assert found.left_out == () and found.outputs.reaches
    far = advise(config(), ["rides over 28: 1e9"])
    assert far.epsilon.value == LEAST_EPSILON


@pytest.mark.slow
def test_what_cannot_be_reached_is_said_with_the_best_that_can() -> None:
    found = advise(config(), ["rides over 1: 0.001"])
    assert not found.reached
    assert found.epsilon.value == MOST_EPSILON and not found.epsilon.reaches
    assert found.epsilon.halves[0] == pytest.approx(
        prices(changed(config(), {EPSILON: MOST_EPSILON}))["rides", 1]
    )
    assert not found.outputs.reaches


@pytest.mark.slow
def test_the_finest_period_reaches_the_target_and_no_finer_one_does() -> None:
    found = advise(config(), ["paid: 5% of 20000 a day"])
    assert not found.now.reaches
    assert found.period is not None and found.period.reaches
    lengths = {"1d": 1, "2d": 2, "3d": 3, "7d": 7, "14d": 14, "28d": 28, "30d": 30}
    days = lengths[found.period.value]
    assert found.period.halves[0] <= 1000 * days
    shorter = [n for n in lengths.values() if n < days]
    for n in shorter:
        variant = with_period(config(), Fraction(n))
        assert variant is not None and prices(variant)["paid", 1] > 1000 * n


@pytest.mark.slow
def test_ticks_may_be_finer_too() -> None:
    found = advise(config(), ["paid: 50% of 2e6 a day"])
    assert found.now.reaches and found.period is not None
    assert found.period.value in (
        "1h",
        "2h",
        "3h",
        "4h",
        "6h",
        "8h",
        "12h",
        "30m",
        "15m",
        "5m",
        "1m",
    )


MORE = TEXT.replace("mechanism:", "  tips: {sum: tip, clip: [0, 20], over: 1}\nmechanism:")


def without(*gone: str) -> float:
    """The margin of paid in a config that lacks some outputs."""
    text = MORE
    for name in gone:
        text = text.replace(f"  {name}:", f"  # {name}:")
    return prices(config(text))["paid", 1]


@pytest.mark.slow
def test_outputs_go_until_the_target_is_reached_and_no_further() -> None:
    least, one = without("rides", "tips"), min(without("rides"), without("tips"))
    assert least < one < without()
    both = advise(config(MORE), [f"paid: {least * 1.001}"])
    assert both.outputs.reaches and {"rides", "tips"} <= set(both.left_out)
    found = advise(config(MORE), [f"paid: {one * 1.001}"])
    assert found.outputs.reaches and len(found.left_out) == 1


@pytest.mark.slow
def test_an_output_that_helps_is_not_left_out_for_nothing() -> None:
    """The mean shares the count of rides, which is worse without it."""
    found = advise(config(), ["rides over 1: 1"])
    halves = found.outputs.halves[0]
    assert not found.outputs.reaches and halves <= found.now.halves[0]


def test_longer_ticks_keep_spans_in_time() -> None:
    weekly = with_period(config(TEXT.replace("[1, 28]", "[1, 28, 7]")), Fraction(7))
    assert weekly is not None
    assert weekly.clock.period == "7d" and weekly.aggregates["rides"].overs == (1, 4)
    assert weekly.expect is not None and weekly.expect.events == 14000
    assert Plan.from_config(weekly).clock.ticks == 104
    assert with_period(config(), Fraction(10_000)) is None
    counted = config(TEXT.replace("protect_for: all", "protect_for: 10 ticks"))
    changed = with_period(counted, Fraction(7))
    assert changed is not None and changed.privacy.protect_for == "2 ticks"


@pytest.mark.slow
def test_clocks_that_cannot_change_are_left(tmp_path: Path) -> None:
    users = TEXT.replace("schema: {time: at}", "schema: {time: at, unit: who}").replace(
        "protect_for: all}",
        "protect_for: all, unit: user, per: 30d, contributions: {ticks: 2, keys: 1, events: 1}}",
    )
    for text in (users, TEXT.replace("aggregates:", "release_every: 1\naggregates:")):
        found = advise(config(text), ["paid: 5000"])
        assert found.period is None
    monthly = TEXT.replace("period: 1d", "period: 1 month, zone: Europe/Berlin").replace(
        "T00:00:00Z", ""
    ).replace("over: [1, 28]", "over: 1").replace("rides over 1", "rides")  # fmt: skip
    found = advise(config(monthly), ["paid: 100"])
    assert found.period is not None and found.period.value.endswith(("month", "months"))


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("paid: 5% of 2000", 100.0),
        ("paid: 5 % of 2,000 a day", 100.0),
        ("paid: +- 5% of 2000 per 12h", 200.0),
        ("rides over 28: 5% of 7000 a week", 1400.0),
        ("rides over 28 : 1e2", 100.0),
        ("fare: \N{PLUS-MINUS SIGN} 0.5", 0.5),
    ],
)
def test_targets_are_read(text: str, half: float) -> None:
    assert parse(text, config()).half == pytest.approx(half)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("paid", "must look like"),
        ("paid: five", "must look like"),
        ("paid: 5%", "must look like"),
        ("paid: 0", "finite numbers above 0"),
        ("paid: 5% of 0", "finite numbers above 0"),
        ("paid: 1e999", "finite numbers above 0"),
        ("payd: 5", "did you mean paid"),
        ("rides: 5", "must say over which span"),
        ("rides over 7: 5", "it has over: 1, 28"),
        ("paid over all: 5", "it has over: 1"),
        ("paid: 5 per fortnight", "--target"),
        ("fare: 5 a day", "is an average"),
        ("paid: 5 per 0s", "--target"),
    ],
)
def test_what_is_no_target_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="--target") as refused:
        parse(text, config())
    assert said in str(refused.value)


def test_epsilons_are_rounded_up() -> None:
    assert [rounded_up(x) for x in (1.0, 1.2341, 0.0012345, 63.99, 9.999)] == [
        1.0, 1.24, 0.00124, 64.0, 10.0,
    ]  # fmt: skip


@pytest.mark.slow
def test_the_command_and_its_exit_code(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "rides.yaml"
    path.write_text(TEXT)
    found = weir("advise", path, "--target", "rides over 1: 10")
    assert found.exit_code == 0 and "or more" in found.stdout, found.output
    told = json.loads(weir("advise", path, "--target", "rides over 1: 10", "--json").stdout)
    assert told["epsilon"]["reaches"] and told["targets"][0]["half_band"] == 10
    never = weir("advise", path, "--target", "rides over 1: 0.001")
    assert never.exit_code == 1 and "Cannot be reached" in never.stdout
    assert weir("advise", path).exit_code == 2


def test_models_are_rehearsed_instead(weir: Weir, tmp_path: Path) -> None:
    head, _, _ = TEXT.partition("aggregates:")
    model = (
        "model: {algorithm: regression.incremental, features: [x], target: y, "
        "ranges: {x: [0, 1], y: [0, 1]}}\n"
    )
    (tmp_path / "model.yaml").write_text(head + model)
    found = weir("advise", tmp_path / "model.yaml", "--target", "theta: 5")
    assert found.exit_code == 2 and "weir rehearse" in found.output


def test_the_plan_warns_of_a_band_wider_than_the_clip_and_the_events_allow() -> None:
    """Bike rentals: 24 records a day of at most 1,000 each; its margin passes the standard
    deviation that it was held to before."""
    text = TEXT.replace("events: 2000", "events: 24").partition("aggregates:")[0]
    text += "aggregates:\n  total: {sum: fare, clip: [0, 1000], over: 1}\n"
    text += "mechanism: {noise: gaussian}\n"
    wide = Plan.from_config(config(text.replace("epsilon: 1,", "epsilon: 0.3,")))
    band = prices(wide.config)["total", 1]
    assert 24_000 < band < 2 * 24_000  # one standard deviation alone would not be told
    (told,) = (one for one in wide.warnings if "is useless" in one)
    assert "24,000" in told
    assert any(one.startswith("The least change for total") for one in wide.warnings)
    # Of either side of the bound, to a hundredth.
    at = advise(config(text), ["total: 24000"]).epsilon.value
    for epsilon, warns in ((at * 0.97, True), (at * 1.03, False)):
        plan = Plan.from_config(changed(config(text), {EPSILON: epsilon}))
        assert any("is useless" in one for one in plan.warnings) == warns
