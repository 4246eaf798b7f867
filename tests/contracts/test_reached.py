"""Every model that is planned can be released before its clock ends; what cannot is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contracts.test_models import (
    BLOCKS,
    FORMS,
    HOUR,
    NAMES,
    ONE_PASS,
    PLACED,
    SECRET,
    START,
    config_of,
    with_rows,
)
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.schedule import Waits
from weir.dpcore.plan import Plan
from weir.dpcore.registry import MODELS
from weir.dpcore.simulate import simulate

WAITING = tuple(name for name in NAMES if name in (*BLOCKS, *PLACED, *ONE_PASS, *FORMS))
"""Models that are fitted to blocks or runs of records."""
SIZES = ((1, 1), (1, 64), (3, 6), (3, 7), (4, 8), (5, 3), (5, 4), (24, 1), (24, 8))
"""Ticks of the clock, and events of a key and tick that count."""


def text_of(name: str, ticks: int, cap: int, more: str = "") -> str:
    """A config of one key, over so many hours."""
    text = config_of(name, "replace_one", ("east",))
    day, hour = divmod(ticks, 24)
    text = text.replace("2024-01-02T00:00:00Z", f"2024-01-0{day + 1}T{hour:02}:00:00Z")
    model = MODELS[name.partition(",")[0]]
    capped = f"  cap: {cap}\n" if "cap" in model.model_fields and "  cap:" not in text else ""
    return text.replace("model:\n", f"model:\n{capped}{more}")


def is_released(plan: Plan, cap: int) -> bool:
    """Whether there is a model at the last tick, of as many events as count."""
    ticks = plan.clock.ticks
    assert ticks is not None
    n, rng = ticks * cap, np.random.default_rng(3)
    u, v = rng.uniform(0, 2, n), rng.uniform(-1, 3, n)
    events = Events(
        START + np.repeat(np.arange(ticks), cap) * HOUR,
        ["east"] * n,
        with_rows({"u": u, "v": v, "y": 6 + 2 * u - v}),
        [str(i) for i in range(n)],
    )
    (life,) = simulate(plan, events, SECRET)
    first = life.released[0]
    return not np.isnan(first.value[-1]).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_planned_model_is_released_and_a_refused_one_never_would_be(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    for ticks, cap in SIZES:
        text = text_of(name, ticks, cap)
        try:
            plan = Plan.from_yaml(text)
        except ConfigError as error:
            assert error.field in ("model.block", "model.records"), error
            assert error.value is not None and "never gives a model" in error.remedy
            assert "Take" in error.remedy and "clock.end" in error.remedy
            refused += 1
            with monkeypatch.context() as unchecked:
                unchecked.setattr(Waits, "check", lambda *_: None)
                assert not is_released(Plan.from_yaml(text), cap)
        else:
            assert is_released(plan, cap), (ticks, cap)
    assert (0 < refused < len(SIZES)) if name in WAITING else not refused


def test_the_sizes_are_on_both_sides_of_what_is_refused() -> None:
    for cap, served in ((4, False), (5, True)):
        text = text_of("erm.sampled", 1, cap)  # blocks of five records
        assert ("never gives a model" not in refusal(text)) == served


def refusal(text: str) -> str:
    try:
        Plan.from_yaml(text)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("regression.erm", "  every: 25\n", "model.every = 25"),
        ("erm.independent_batches", "  block: 25h\n", "model.block = '25h'"),
        ("optimize.frank_wolfe", "  block: 1h\n  window: 25\n", "after 25 ticks, and the clock"),
        ("erm.sampled", "  block: 25\n", "25 records of a key, and at most 24 count"),
        ("optimize.phased_sgd", "  records: 30\n", "model.records = 30"),
    ],
)
def test_what_waits_too_long_is_named(name: str, more: str, says: str) -> None:
    own = [line.partition(":")[0] for line in more.splitlines()]
    lines = text_of(name, 24, 1).splitlines()
    kept = [line for line in lines if line.partition(":")[0] not in own]
    text = "\n".join(kept).replace("model:", f"model:\n{more}".rstrip())
    assert says in refusal(text)


def test_the_default_cap_bounds_a_tick_too() -> None:
    text = text_of("erm.output_perturbation", 1, 1).replace("  cap: 1\n", "")
    text = text.replace("{time: t}", "{time: t, id: i}").replace("2h", "100000")
    assert refusal(text) == (
        "model.block = 100000: never gives a model: the first is fitted to 100,000 records of a "
        "key, and at most 65,536 count by the end of the clock (model.cap of 65,536 in each of 1 "
        "ticks). Take fewer records, a larger model.cap, or a later clock.end."
    )


def test_too_few_expected_events_are_warned_of() -> None:
    text = text_of("erm.sampled", 24, 8)

    def warned(plan: Any) -> bool:
        return any("no model comes by the end" in one for one in plan.warnings)

    few = text.replace("model:\n", "expect: {events: 0.2}\nmodel:\n")
    enough = text.replace("model:\n", "expect: {events: 1}\nmodel:\n")
    assert warned(Plan.from_yaml(few)) and not warned(Plan.from_yaml(enough))
