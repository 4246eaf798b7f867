"""The guarantee in words: what is compared, what forgotten ids cost, and what is left open."""

from __future__ import annotations

import dataclasses

import pytest

from weir.dpcore.accounting import calibrate
from weir.dpcore.accounting.guarantee import PrivacyLoss, RuntimeAssumptions
from weir.dpcore.accounting.statement import neighbours
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan

CONFIG = """
name: s
schema: {{time: at, id: {id}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h}}
key: {{column: city, declared: [a, b]}}
privacy: {{epsilon: 1, delta: {delta}, protect_for: 8h, relation: {relation}}}
aggregates: {{paid: {{sum: amount, clip: [0, 5]}}}}
"""


def plan(ident: str = "number", relation: str = "add_remove", delta: float = 1e-6) -> Plan:
    return Plan.from_yaml(CONFIG.format(id=ident, relation=relation, delta=delta))


def test_replace_one_compares_records_that_both_streams_can_read() -> None:
    text = plan(relation="replace_one").guarantee.statement
    assert (
        "they differ in the content of a single event (every record that carries its id), which "
        "can be read as a record with its time, key and id in both, is in time, and belongs with "
        "all its records to the same key and tick in both" in text
    )
    assert "well-formed" not in text
    assert "with its time in both, is in time, and belongs to the same tick" in neighbours(
        "replace_one", has_key=False
    )
    assert "with its time and key in both" in neighbours("replace_one")


def test_a_unit_that_cannot_be_read_puts_a_record_aside_and_the_statement_says_so() -> None:
    told = CONFIG.format(id="number, unit: who", relation="replace_one, unit: event", delta=1e-6)
    text = Plan.from_yaml(told).guarantee.statement
    assert "read as a record with its time, key, id and unit in both" in text


def test_a_horizon_makes_another_event_of_a_late_copy_and_the_statement_says_so() -> None:
    whole = plan()
    assert "every record that carries its id" in whole.guarantee.statement
    assert whole.guarantee.copies == () and "remembered" not in whole.guarantee.statement
    forgets = whole.under(RuntimeAssumptions(id_horizon=24))
    text = forgets.guarantee.statement
    assert "every record that carries its id" not in text
    assert "a record that counts, and the copies of its id that it keeps from counting" in text
    assert "remembered for 24 ticks" in text and "nothing bounds how many" in text
    for row in forgets.guarantee.copies:
        assert f"{row.count} have epsilon = {row.epsilon:.4g}" in text


@pytest.mark.parametrize("delta", [1e-6, 0])
def test_copies_together_cost_what_the_loss_of_the_plan_comes_to(delta: float) -> None:
    forgets = plan(delta=delta).under(RuntimeAssumptions(id_horizon=24))
    loss = forgets.program.loss(8)
    assert [row.count for row in forgets.guarantee.copies] == [2, 10]
    for row in forgets.guarantee.copies:
        if loss.kind == "pure":
            assert row.epsilon == pytest.approx(row.count * loss.value)
        else:
            assert row.epsilon == calibrate.gdp_epsilon(row.count * loss.value, delta)
    told = forgets.to_json()
    assert told["id_horizon"] == 24
    assert [row["count"] for row in told["copies"]] == [2, 10]


def test_the_loss_of_a_group_is_that_of_its_events_together() -> None:
    assert PrivacyLoss("gdp", 0.5).of_group(3) == PrivacyLoss("gdp", 1.5)
    assert PrivacyLoss("pure", 0.5).of_group(3) == PrivacyLoss("pure", 1.5)
    assert PrivacyLoss("zcdp", 0.5).of_group(3) == PrivacyLoss("zcdp", 4.5)
    # Gaussian noise, k changes of one size in one direction: the bound is attained.
    delta, sigma = 2.0, 8.0
    moved = PrivacyLoss("gdp", 5 * delta / sigma)
    assert PrivacyLoss("gdp", delta / sigma).of_group(5).epsilon(1e-6) == moved.epsilon(1e-6)
    rho = (5 * delta) ** 2 / (2 * sigma**2)
    assert PrivacyLoss("zcdp", delta**2 / (2 * sigma**2)).of_group(5).value == pytest.approx(rho)


def test_circumstances_change_the_promise_and_nothing_that_is_released() -> None:
    before = plan()
    after = before.under(RuntimeAssumptions(3, ("The moon is not covered.",)))
    assert after.guarantee.statement.endswith("The moon is not covered.")
    assert (after.digest, after.layout) == (before.digest, before.layout)
    assert after.canonical == before.canonical and after.program == before.program
    numbers = [dataclasses.replace(p.guarantee, statement="", copies=()) for p in (before, after)]
    assert numbers[0] == numbers[1]
    with pytest.raises(ConfigError, match=r"deduplicate\.horizon"):
        RuntimeAssumptions(id_horizon=0)


def test_without_ids_there_is_nothing_to_forget() -> None:
    assert "remembered" not in plan("null").under(RuntimeAssumptions(3)).guarantee.statement
