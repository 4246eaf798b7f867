"""The sections of a config that shape a plan: what is taken, what is refused, in which words."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.config.durations import duration, show_duration, show_timestamp, timestamp
from weir.dpcore.config.key import Key
from weir.dpcore.config.privacy import Privacy
from weir.dpcore.config.schema import Schema, TimeColumn
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.alternatives import MechanismConfig
from weir.dpcore.registry import AGGREGATES, MODELS

SHOP: dict[str, Any] = {
    "name": "shop",
    "schema": {
        "time": {"column": "date", "format": "%Y%m%d", "zone": "UTC"},
        "unit": "customer_id",
        "id": "purchase_id",
    },
    "where": "dollar_value > 0",
    "key": {"column": "store", "declared": ["north", "south"]},
    "clock": {
        "start": "1997-01-01T00:00:00Z",
        "period": "1d",
        "end": "1998-07-01T00:00:00Z",
        "delay": "0s",
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "365d", "unit": "event"},
    "aggregates": {
        "purchases": {"count": "events", "over": ["all", 7]},
        "dollars": {"sum": "dollar_value", "clip": [0, 200]},
        "basket": {"mean": "dollar_value", "clip": [0, 200]},
        "spread": {"variance": "dollar_value", "clip": [0, 200]},
        "sizes": {"histogram": "number_of_cds", "edges": [1, 2, 3, 5, math.inf]},
    },
    "mechanism": {"continual_sum": "blt"},
}

MODEL: dict[str, Any] = {
    "algorithm": "online.follow_the_leader",
    "features": ["items"],
    "target": "dollar_value",
    "ranges": {"items": [0, 10], "dollar_value": [0, 200]},
}

DROP = object()


def changed(path: str, value: Any) -> dict[str, Any]:
    """SHOP with one field replaced; DROP removes it."""
    data = copy.deepcopy(SHOP)
    *above, last = path.split(".")
    section = data
    for part in above:
        section = section.setdefault(part, {})
    if value is DROP:
        section.pop(last)
    else:
        section[last] = value
    return data


def refusal(data: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        PlanConfig.from_dict(data)
    return refused.value


def test_the_example_is_taken() -> None:
    config = PlanConfig.from_dict(SHOP)
    clock = config.clock.to_clock()
    assert clock.ticks == 546
    assert config.privacy.window_ticks(clock) == 365
    assert config.privacy.relation == "add_remove"
    assert config.aggregates["purchases"].overs == (None, 7)
    assert [a.kind for a in config.aggregates.values()] == [
        "count", "sum", "mean", "variance", "histogram",
    ]  # fmt: skip
    assert config.aggregates["dollars"].column == "dollar_value"
    assert config.aggregates["purchases"].column is None


@pytest.mark.slow
def test_how_far_ahead_an_event_may_be_follows_from_the_clock_and_is_in_the_plan() -> None:
    def plan(**clock: Any) -> Plan:
        data = {**SHOP, "clock": {**SHOP["clock"], "end": None, **clock.pop("clock", {})}, **clock}
        return Plan.from_config(PlanConfig.from_dict(data))

    hour, day = 3_600_000_000, 24 * 3_600_000_000
    silent = plan()
    assert silent.clock.ahead == hour
    assert plan(clock={"end": SHOP["clock"]["end"]}).clock.ahead is None
    said = plan(clock={"ahead": "1d"})
    assert said.clock.ahead == day and said.canonical["clock"]["ahead"] == day
    assert "ahead" not in silent.canonical["clock"] and said.digest != silent.digest
    assert "clock.ahead" in str(refusal({**SHOP, "clock": {**SHOP["clock"], "ahead": "soon"}}))


def test_a_config_goes_round() -> None:
    config = PlanConfig.from_dict(SHOP)
    assert PlanConfig.from_dict(config.to_dict()) == config


def test_sections_of_a_job_are_passed_over_but_typos_are_not() -> None:
    assert PlanConfig.from_dict({**SHOP, "source": {"csv": "x"}, "sink": {"parquet": "y"}})
    assert refusal({**SHOP, "sorce": {"csv": "x"}}).field == "sorce"


def test_a_bare_time_column_is_a_column() -> None:
    config = PlanConfig.from_dict(changed("schema.time", "at"))
    assert (config.schema_.time.column, config.schema_.time.format) == ("at", None)


def test_it_is_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        PlanConfig.from_dict(SHOP).name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("path", "value", "field", "says"),
    [
        ("privacy.epsilon", 0, "privacy.epsilon", "above 0"),
        ("privacy.epsilon", -1.0, "privacy.epsilon", "above 0"),
        ("privacy.epsilon", math.nan, "privacy.epsilon", "finite"),
        ("privacy.epsilon", math.inf, "privacy.epsilon", "finite"),
        ("privacy.epsilon", "1", "privacy.epsilon", "must be a number"),
        ("privacy.epsilon", True, "privacy.epsilon", "must be a number"),
        ("privacy.epsilon", DROP, "privacy.epsilon", "is missing"),
        ("privacy.delta", -1e-9, "privacy.delta", "below 1"),
        ("privacy.delta", 1.0, "privacy.delta", "below 1"),
        ("privacy.delta", math.nan, "privacy.delta", "below 1"),
        ("privacy.delta", DROP, "privacy.delta", "is missing"),
        ("privacy.protect_for", 0, "privacy.protect_for", "at least 1 tick"),
        ("privacy.protect_for", -3, "privacy.protect_for", "at least 1 tick"),
        ("privacy.protect_for", "0d", "privacy.protect_for", "at least one tick"),
        ("privacy.protect_for", 1.5, "privacy.protect_for", "like 30 ticks"),
        ("privacy.protect_for", True, "privacy.protect_for", "like 30 ticks"),
        ("privacy.protect_for", "always", "privacy.protect_for", "or all"),
        ("privacy.unit", "user", "privacy.contributions", "keys: 3"),
        ("privacy.per", "1d", "privacy.per", "belongs to unit: user"),
        ("privacy.per", "often", "privacy.per", "months like 1 month"),
        ("privacy.per", "0d", "privacy.per", "or all"),
        ("privacy.contributions", {"ticks": 1}, "privacy.contributions.keys", "is missing"),
        ("privacy.unit", DROP, "schema.unit", "add privacy.unit: event"),
        ("privacy.unit", "house", "privacy.unit", "'event' or 'user'"),
        ("privacy.relation", "swap", "privacy.relation", "replace_one"),
        ("privacy.epsilom", 1, "privacy.epsilom", "did you mean epsilon?"),
        ("aggregates.dollars.clip", [200, 0], "aggregates.dollars.clip", "low below high"),
        ("aggregates.dollars.clip", [5, 5], "aggregates.dollars.clip", "low below high"),
        ("aggregates.dollars.clip", [0, math.inf], "aggregates.dollars.clip", "finite"),
        ("aggregates.dollars.clip", [math.nan, 1], "aggregates.dollars.clip", "finite"),
        ("aggregates.dollars.clip", [1, 2, 3], "aggregates.dollars.clip", "two finite"),
        ("aggregates.dollars.clip", DROP, "aggregates.dollars.clip", "public bounds"),
        ("aggregates.dollars.clip", [0, 1e61], "aggregates.dollars.clip", "rescale"),
        ("aggregates.dollars.clip", [0, 1e-61], "aggregates.dollars.clip", "rescale"),
        ("aggregates.basket.clip", DROP, "aggregates.basket.clip", "a mean needs"),
        ("aggregates.dollars.clap", [0, 1], "aggregates.dollars.clap", "did you mean clip?"),
        ("aggregates.purchases.clip", [0, 1], "aggregates.purchases.clip", "belong to a count"),
        ("aggregates.purchases.sum", "x", "aggregates.purchases", "exactly one"),
        ("aggregates.purchases.count", "rows", "aggregates.purchases.count", "'events'"),
        ("aggregates.purchases.over", 0, "aggregates.purchases.over", "1 or more"),
        ("aggregates.purchases.over", [7, 7], "aggregates.purchases.over", "twice"),
        ("aggregates.purchases.over", [], "aggregates.purchases.over", "at least one"),
        ("aggregates.purchases.over", 1.5, "aggregates.purchases.over", "number of ticks"),
        ("aggregates.purchases.weight", 0.0, "aggregates.purchases.weight", "above 0"),
        ("aggregates.sizes.edges", [1], "aggregates.sizes.edges", "two edges"),
        ("aggregates.sizes.edges", [1, 1], "aggregates.sizes.edges", "rise strictly"),
        ("aggregates.sizes.edges", [1, math.nan, 3], "aggregates.sizes.edges", "rise strictly"),
        ("aggregates.sizes.edges", DROP, "aggregates.sizes.edges", "is missing"),
        ("aggregates.dollars.edges", [0, 1], "aggregates.dollars.edges", "belongs to a histogram"),
        ("aggregates.empty", {}, "aggregates.empty", "exactly one"),
        ("aggregates.two words", {"count": "events"}, "aggregates.two words", "letters"),
        ("aggregates", DROP, "aggregates", "is missing"),
        ("aggregates", {}, "aggregates", "is missing"),
        ("model", MODEL, "model", "keep one"),
        ("key.declared", DROP, "key.declared", "observed_keys_are_public"),
        ("key.declared", [], "key.declared", "at least one"),
        ("key.declared", ["a", "a"], "key.declared", "twice"),
        ("key.declared", [7], "key.declared.0", "quotes"),
        ("key.observed_keys_are_public", True, "key.observed_keys_are_public", "keep one"),
        ("key.observed_keys_are_public", "yes", "key.observed_keys_are_public", "true or false"),
        ("key.colunm", "x", "key.colunm", "did you mean column?"),
        ("clock.start", "1997-01-01T00:00:00", "clock.start", "zone"),
        ("clock.start", "yesterday", "clock.start", "timestamp"),
        ("clock.start", 5, "clock.start", "timestamp"),
        ("clock.period", "1", "clock.period", "unit"),
        ("clock.period", 60, "clock.period", "unit"),
        ("clock.period", "0s", "clock.period", "longer than nothing"),
        ("clock.period", "-1d", "clock.period", "duration"),
        ("clock.end", "1996-01-01T00:00:00Z", "clock.end", "1997-01-02T00:00:00Z or later"),
        ("clock.delay", "soon", "clock.delay", "duration"),
        ("clock", DROP, "schema.time", "Add clock: {start"),
        ("clock", "1d", "clock", "section with the fields start"),
        ("name", "two words", "name", "letters"),
        ("name", 5, "name", "text"),
        ("schema.time", DROP, "schema.time", "is missing"),
        ("schema.time", "@time", "schema.time.column", "reserved"),
        ("schema.tiem", "x", "schema.tiem", "did you mean time?"),
        ("mechanism.buffers", 0, "mechanism.buffers", "1 to 8"),
        ("mechanism.gamma", -1.0, "mechanism.gamma", "above 0"),
        ("mechanism.noise", "cauchy", "mechanism.noise", "k_norm"),
        ("blocks", 12, "blocks", "power of two"),
        ("aggregate", {}, "aggregate", "did you mean aggregates?"),
    ],
)
def test_refusals_name_field_and_remedy(path: str, value: Any, field: str, says: str) -> None:
    error = refusal(changed(path, value))
    assert error.field == field
    assert says in error.remedy
    assert "\n" not in str(error)
    assert error.remedy[0].islower()


def test_an_unknown_field_is_told_before_what_is_missing() -> None:
    data = changed("privacy.epsilon", DROP)
    data["privacy"]["epsilom"] = 1.0
    assert refusal(data).field == "privacy.epsilom"


def test_unit_event_may_name_a_column() -> None:
    assert PlanConfig.from_dict(SHOP).schema_.unit == "customer_id"


def test_delta_zero_passes_the_config() -> None:
    assert PlanConfig.from_dict(changed("privacy.delta", 0)).privacy.delta == 0


@pytest.mark.parametrize(
    ("given_", "ticks"), [("all", None), ("5 ticks", 5), ("5d", 5), ("48h", 2), ("1w", 7)]
)
def test_window_in_ticks(given_: Any, ticks: int | None) -> None:
    config = PlanConfig.from_dict(changed("privacy.protect_for", given_))
    assert config.privacy.window_ticks(config.clock.to_clock()) == ticks


def test_a_window_that_is_no_whole_number_of_ticks_names_the_nearest() -> None:
    config = PlanConfig.from_dict(changed("privacy.protect_for", "36h"))
    with pytest.raises(ConfigError, match=r"1d \(1 tick\) or 2d \(2 ticks\)"):
        config.privacy.window_ticks(config.clock.to_clock())
    config = PlanConfig.from_dict(changed("privacy.protect_for", "6h"))
    with pytest.raises(ConfigError, match=r"1d: 1d \(1 tick\)"):
        config.privacy.window_ticks(config.clock.to_clock())


@pytest.mark.parametrize("over", ["all", 7, ["all"], [1, 7]])
def test_over_may_be_one_or_a_list(over: Any) -> None:
    made = PlanConfig.from_dict(changed("aggregates.purchases.over", over))
    listed = over if isinstance(over, list) else [over]
    assert made.aggregates["purchases"].over == tuple(listed)


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=2**61))
def test_durations_go_round(microseconds: int) -> None:
    assert duration(show_duration(microseconds)) == microseconds


@pytest.mark.slow
@given(st.integers(min_value=-(2**55), max_value=2**55))
def test_timestamps_go_round(microseconds: int) -> None:
    assert timestamp(show_timestamp(microseconds)) == microseconds


def test_offsets_are_zones() -> None:
    assert timestamp("1997-01-01T01:00:00+01:00") == timestamp("1997-01-01T00:00:00Z")


numbers = st.floats(min_value=-1e9, max_value=1e9)
overs = st.one_of(
    st.just("all"), st.integers(1, 999), st.lists(st.integers(1, 99), min_size=1, unique=True)
)
bounds = st.tuples(numbers, numbers).filter(lambda p: p[1] - p[0] > 1e-60).map(list)
aggregate = st.one_of(
    st.fixed_dictionaries({"count": st.just("events")}, optional={"over": overs}),
    st.fixed_dictionaries({"sum": st.just("x"), "clip": bounds}, optional={"over": overs}),
    st.fixed_dictionaries({"mean": st.just("x"), "clip": bounds}),
    st.fixed_dictionaries(
        {
            "histogram": st.just("x"),
            "edges": st.lists(numbers, min_size=2, unique=True).map(sorted),
        }
    ),
)
configs = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True),
        "schema": st.fixed_dictionaries({"time": st.sampled_from(["t", {"column": "t"}])}),
        "clock": st.fixed_dictionaries(
            {"start": st.just("2024-01-01T00:00:00Z"), "period": st.sampled_from(["1d", "90s"])}
        ),
        "privacy": st.fixed_dictionaries(
            {
                "epsilon": st.floats(min_value=1e-3, max_value=50),
                "delta": st.floats(min_value=0, max_value=0.5),
                "protect_for": st.one_of(
                    st.just("all"), st.integers(1, 10**6).map("{} ticks".format)
                ),
            }
        ),
        "aggregates": st.dictionaries(
            st.from_regex(r"[a-z]{1,8}", fullmatch=True), aggregate, min_size=1, max_size=4
        ),
    },
    optional={
        "key": st.just({"column": "k", "observed_keys_are_public": True}),
        "blocks": st.sampled_from([1, 16, 64]),
    },
)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(configs)
def test_every_config_goes_round(data: dict[str, Any]) -> None:
    config = PlanConfig.from_dict(data)
    assert PlanConfig.from_dict(config.to_dict()) == config


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(sorted(PlanConfig.model_json_schema()["properties"])), json_values)
def test_whatever_stands_in_a_field_is_taken_or_refused_in_words(name: str, value: Any) -> None:
    data = {**copy.deepcopy(SHOP), name: value}
    try:
        PlanConfig.from_dict(data)
    except ConfigError as error:
        assert str(error)


def test_every_field_has_a_description_and_an_example() -> None:
    sections = [
        PlanConfig, *AGGREGATES.values(), ClockConfig, Key, MechanismConfig, Privacy, Schema,
        TimeColumn, *MODELS.values(),
    ]  # fmt: skip
    for section in sections:
        for name, info in section.model_fields.items():
            assert info.description, (section.__name__, name)
            assert info.examples, (section.__name__, name)
