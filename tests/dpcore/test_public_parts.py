"""Clock, keys and statement: public arithmetic and public words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dpcore.accounting.guarantee import Expiration, Guarantee, PrivacyLoss, Relation, compose
from weir.dpcore.accounting.statement import statement
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys


@given(st.integers(-(2**50), 2**50), st.integers(1, 2**40), st.integers(-(2**50), 2**50))
def test_a_time_lies_in_its_tick(start: int, period: int, time: int) -> None:
    clock = Clock(start, period)
    tick = int(clock.tick_of(np.array([time]))[0])
    assert clock.tick_start(tick) <= time < clock.tick_start(tick + 1)


def test_only_whole_ticks_count() -> None:
    assert Clock(0, 10, 35).ticks == 3
    assert Clock(0, 10).ticks is None
    for bad in ({"period": 0}, {"period": 10, "end": 9}, {"period": 10, "delay": -1}):
        with pytest.raises(ConfigError):
            Clock(0, **bad)


@given(st.sets(st.text(max_size=5), min_size=1, max_size=80), st.sampled_from([1, 2, 16, 64]))
def test_every_declared_key_has_one_row_in_one_block(names: set[str], blocks: int) -> None:
    keys = Keys.make("k", sorted(names), False, blocks)
    seen = [key for block in keys.live_blocks for key in keys.block_keys(block)]
    assert sorted(seen) == list(keys.ordered)
    for block in keys.live_blocks:
        mine = keys.block_keys(block)
        assert list(mine) == sorted(mine)
        assert set(keys.block_of(mine).tolist()) <= {block}
        for row, key in enumerate(mine):
            assert keys.position[key] // blocks == row


def test_number_of_blocks() -> None:
    assert Keys.make("k", ["a"], False, None).blocks == 16
    assert Keys.make("k", [str(i) for i in range(10_000)], False, None).blocks == 32
    assert Keys.make(None, None, False, None).declared == ("",)
    observed = Keys.make("k", None, True, None)
    assert observed.live_blocks == tuple(range(16))
    assert set(observed.block_of([str(i).encode() for i in range(500)]).tolist()) == set(range(16))


def test_the_statement_says_when_protection_ends() -> None:
    def said(relation: Relation, window: int | None, delta: float, *rows: Expiration) -> str:
        return statement(Guarantee(1.0, delta, "event", relation, window, rows, ""), has_id=True)

    gone = Expiration(8, 1.0, 0.0), Expiration(16, math.inf, 0.0)
    assert "no protection at all" in said("add_remove", 8, 0.0, *gone)
    fades = Expiration(8, 1.0, 1e-6), Expiration(16, 1.2, 1e-6)
    assert "fades by degrees" in said("replace_one", 8, 1e-6, *fades)
    flat = Expiration(8, 1.0, 1e-6), Expiration(16, 1.0, 1e-6)
    assert "permanent" in said("replace_anywhere", 8, 1e-6, *flat)
    assert "does not expire" in said("add_remove", None, 0.0)
    assert "every record that carries its id" in said("add_remove", None, 0.0)


def test_losses_compose() -> None:
    assert compose((PrivacyLoss("gdp", 3.0), PrivacyLoss("gdp", 4.0))).value == 5.0
    assert compose((PrivacyLoss("pure", 3.0), PrivacyLoss("pure", 4.0))).value == 7.0
    with pytest.raises(Exception, match="different kinds"):
        compose((PrivacyLoss("gdp", 3.0), PrivacyLoss("pure", 4.0)))
    assert PrivacyLoss("gdp", math.inf).epsilon(1e-6) == math.inf
    assert PrivacyLoss("gdp", 0.0).epsilon(1e-6) == 0.0
