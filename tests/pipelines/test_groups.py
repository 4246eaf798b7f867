"""Groups of keyed state on Flink: from the plan, and kept for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.runners import flink_options
from weir.pipelines.runners.state_folder import StateFolder

CONFIG = """
name: groups
schema: {time: at}
key: {column: k, observed_keys_are_public: true}
clock: {start: 2025-01-01T00:00:00Z, period: 1d}
privacy: {epsilon: 1, delta: 1e-6, protect_for: 2d}
aggregates: {visits: {count: events}}
"""


def plan_of(blocks: int | None) -> Plan:
    return Plan.from_yaml(CONFIG + ("" if blocks is None else f"blocks: {blocks}\n"))


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path))


@pytest.mark.parametrize(
    ("blocks", "shards", "wanted"),
    [(None, None, 128), (128, None, 128), (256, None, 256), (16, 1024, 1024), (1 << 16, 8, 32768)],
)
def test_every_block_and_shard_may_have_a_group_of_its_own(
    blocks: int | None, shards: int | None, wanted: int
) -> None:
    plan: Any = plan_of(blocks)
    if shards is not None:
        plan = replace(plan, circumstances=replace(plan.circumstances, id_shards=shards))
    assert flink_options.groups_of(plan) == wanted


def test_a_stream_keeps_the_groups_that_it_was_begun_with(state: StateFolder) -> None:
    large, small = plan_of(512), plan_of(None)
    assert flink_options.settled(large, (), state, False) == 512
    flink_options.keep(state, 512)
    assert flink_options.settled(small, (), state, True) == 512
    assert flink_options.settled(small, ("--max-parallelism=512",), state, True) == 512
    with pytest.raises(ConfigError, match=r"--max_parallelism.*512 groups.*for ever"):
        flink_options.settled(small, ("--max_parallelism=256",), state, True)
    assert flink_options.settled(small, ("--max_parallelism=256",), state, False) == 256  # again


def test_a_savepoint_from_elsewhere_has_the_groups_of_its_plan(state: StateFolder) -> None:
    assert flink_options.settled(plan_of(512), (), state, True) == 512
    assert flink_options.settled(plan_of(512), ("--max_parallelism=4",), state, True) == 4


@pytest.mark.parametrize("value", ["0", "many", "32769", "-1", ""])
def test_what_flink_would_not_take_is_refused(state: StateFolder, value: str) -> None:
    with pytest.raises(ConfigError, match="from 1 to 32768"):
        flink_options.settled(plan_of(None), (f"--max_parallelism={value}",), state, False)


def test_more_workers_than_groups_are_refused(state: StateFolder) -> None:
    flink_options.refuse_more(128, 128)
    with pytest.raises(ConfigError, match=r"--parallelism.*128 groups"):
        flink_options.refuse_more(129, 128)


def test_a_note_of_somebody_else_is_refused(state: StateFolder) -> None:
    (Path(state.path) / flink_options.FILE).write_text("[1]")
    with pytest.raises(ConfigError, match=r"_groups\.json that is not ours"):
        flink_options.settled(plan_of(None), (), state, True)
