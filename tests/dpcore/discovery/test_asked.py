"""What a config may ask of discovery, and what it compiles to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir.dpcore.aggregates.private_keys import found_by
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig

CONFIG = """
name: pages
schema: {time: at, unit: user}
key: {column: page, discover: {min_users: 20}}
clock: {start: 2025-01-01T00:00:00Z, period: 1h, end: 2025-03-01T00:00:00Z}
privacy: {epsilon: 2, delta: 1e-6, unit: user, per: 1d, protect_for: 7d,
  contributions: {ticks: 4, keys: 3, events: 5}}
aggregates: {views: {count: events}}
"""


def compiled(text: str):
    config = PlanConfig.from_yaml(text)
    terms = config.terms()
    program = config.algorithm.compile(terms).program
    assert isinstance(program, Aggregates)
    rule = found_by(program, terms)
    assert rule is not None
    return terms, program, rule


def released(text: str) -> str:
    return text.replace("views:", "new: {count: users, per: period}, views:")


@pytest.mark.parametrize("noise", ["gaussian", "discrete_gaussian", "k_norm"])
def test_a_count_of_its_own_gets_its_share_and_ends_with_the_period(noise) -> None:
    terms, program, rule = compiled(CONFIG + f"mechanism: {{noise: {noise}}}\n")
    *rest, counting = program.parts
    assert rule.hidden and counting.hidden and not any(part.hidden for part in rest)
    assert rule.mechanism == counting.mechanism and rule.touched == 12
    assert program.channels[counting.channels[0]].takes == "newcomers"
    power = 1 if noise == "k_norm" else 2
    spent = [part.loss(168).value ** power for part in program.parts]
    assert math.isclose(spent[-1] / sum(spent), 0.6, rel_tol=1e-6)
    assert counting.loss(10**6) == counting.loss(None) == counting.loss(1)
    assert program.loss(168).epsilon(terms.delta) <= 2 * (1 + 1e-9)
    assert len(program.widths) == rule.array + 1, "the last array, which can be left out"


@pytest.mark.parametrize("noise", ["gaussian", "discrete_gaussian", "k_norm"])
def test_a_count_that_is_released_costs_nothing(noise) -> None:
    terms, program, rule = compiled(released(CONFIG) + f"mechanism: {{noise: {noise}}}\n")
    assert not rule.hidden and not any(part.hidden for part in program.parts)
    channel = program.channels[0]
    assert channel.takes == "newcomers" and rule.leaf == 0 and rule.step * channel.resolution == 1
    assert program.loss(168).epsilon(terms.delta) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "discrete_gaussian", "k_norm"])
def test_other_shares_are_priced_as_their_own_plans_have_them(noise) -> None:
    made = CONFIG + f"mechanism: {{noise: {noise}}}\n"
    (_, program, rule), ticks = compiled(made), np.arange(168)
    told = rule.told()["splits"]
    assert [one["share"] for one in told] == [0.1, 0.3, 0.8, 0.9]
    for one in told:
        asked = made.replace("min_users: 20", f"min_users: 20, share: {one['share']}")
        _, other, theirs = compiled(asked)
        assert one["needed_last"] == pytest.approx(theirs.told()["needed_last"], rel=0.01)
        ratio = max(other.parts[0].mechanism.stddev(ticks, None)[:, 0])
        ratio /= max(program.parts[0].mechanism.stddev(ticks, None)[:, 0])
        assert one["noise"] == pytest.approx(ratio, rel=0.01)
    assert "splits" not in compiled(released(CONFIG))[2].told()


def test_a_count_of_single_ticks_is_no_count_of_the_period() -> None:
    single = released(CONFIG).replace("per: period", "per: period, over: 1")
    _, program, rule = compiled(single.replace("{count: events}", "{count: events, over: 1}"))
    assert rule.hidden and program.parts[-1].hidden
    assert len([c for c in program.channels if c.takes == "newcomers"]) == 1


def test_delta_is_halved_and_pure_noise_leaves_all_of_it() -> None:
    terms, _, rule = compiled(CONFIG)
    assert (terms.delta, terms.delta_sel, rule.delta) == (5e-7, 5e-7, 5e-7)
    terms, _, rule = compiled(CONFIG + "mechanism: {noise: k_norm}\n")
    assert (terms.delta, rule.delta) == (0.0, 1e-6)
    replaced = CONFIG.replace("protect_for", "relation: replace_one, protect_for")
    terms, _, rule = compiled(replaced)
    assert (terms.delta_sel, rule.delta) == (5e-7, 2.5e-7)


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (("unit: user, per: 1d, protect", "protect"), "contributions", "unit: user"),
        (("delta: 1e-6", "delta: 0"), "privacy.delta", "above 0"),
        (("discover:", "declared: [a], discover:"), "key.discover", "combined with declared"),
        (
            ("discover:", "observed_keys_are_public: true, discover:"),
            "key.discover",
            "combined with observed",
        ),
        (("min_users: 20", "min_users: 0"), "key.discover.min_users", "from 1"),
        (("min_users: 20", "sample: 1.5"), "key.discover.sample", "at most 1"),
        (("min_users: 20", "max_bytes: 0"), "key.discover.max_bytes", "from 1"),
        (("min_users: 20", "forget: 7"), "key.discover.forget", "not a field"),
        (("aggregates:", "release_every: 4\naggregates:"), "release_every", "every tick"),
    ],
)
def test_what_cannot_be_served_is_refused(change, field, said) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        PlanConfig.from_yaml(CONFIG.replace(*change))
    assert field in refused.value.field


def test_plans_of_events_find_no_keys() -> None:
    text = CONFIG.replace("unit: user, per: 1d, ", "").replace(
        ",\n  contributions: {ticks: 4, keys: 3, events: 5}", ""
    )
    with pytest.raises(ConfigError, match="counts the users of each key") as refused:
        PlanConfig.from_yaml(text.replace("at, unit: user", "at"))
    assert refused.value.field == "key.discover"


def test_models_find_no_keys() -> None:
    text = CONFIG.partition("aggregates")[0] + (
        "model: {algorithm: regression.incremental, features: [x], target: y, "
        "ranges: {x: [0, 1], y: [0, 1]}}\n"
    )
    with pytest.raises(ConfigError, match="is for aggregates"):
        PlanConfig.from_yaml(text)


def test_several_columns_make_a_key_too() -> None:
    config = PlanConfig.from_yaml(CONFIG.replace("column: page", "columns: [site, page]"))
    assert config.key is not None and config.key.names == ("site", "page")
    assert PlanConfig.from_dict(config.to_dict()) == config
