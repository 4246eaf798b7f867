"""Train and Assemble in the stream: slices, order, the watermark, replays, secrets that change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp

from tests.transforms.running import KEPT, cut, keep, run, shuffled
from tests.transforms.test_erm_pipeline import plan
from tests.transforms.test_model_pipeline import (
    DECLARED,
    OBSERVED,
    TICKS,
    cells,
    flights,
    simulated,
)
from tests.transforms.test_model_pipeline import plan as learner_plan
from weir.dpcore.models.erm import incremental as erm_training
from weir.dpcore.plan import Plan
from weir.transforms.beam.private_releases import PrivateReleases
from weir.transforms.operators.job_queue import JobQueue
from weir.transforms.operators.stride import TICKS as STRIDE
from weir.transforms.runtime.secret import SecretRef

SGD = "every: 60\n  iterations: 2\n  solver: noisy_sgd"


@pytest.fixture
def advances(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Slices have one iteration; every time that a lane goes on is noted."""
    monkeypatch.setattr(erm_training, "WORK", 1)
    monkeypatch.setattr(erm_training, "FEWEST", 1)
    found: list[int] = []
    real = JobQueue.advance

    def noted(self: JobQueue, slices: int) -> Any:
        found.append(slices)
        return real(self, slices)

    monkeypatch.setattr(JobQueue, "advance", noted)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("key", [DECLARED, OBSERVED], ids=["declared", "observed"])
@pytest.mark.parametrize("more", ["every: 40\n  iterations: 20", SGD], ids=["gradient", "sgd"])
def test_slices_change_no_bit(key: str, more: str, advances: list[int], secret: SecretRef) -> None:
    one, batch = plan(key, more=more), flights(1_000)
    replays = int(more == SGD)  # of every bundle and timer
    flags = [f"--direct_runner_bundle_repeat={replays}"]
    ran = run(one, cut(shuffled(batch), 3), flags, secret=secret, bounded=False)
    assert ran.rows[:: replays + 1] == ran.rows[replays :: replays + 1]
    found = cells(ran._replace(rows=ran.rows[:: replays + 1]))
    assert found == simulated(one, batch)
    assert len(advances) >= (40 if more == SGD else 200)
    theta = np.array([found[tick, "a", "theta"][0] for tick in (30, TICKS - 1)])
    assert (theta[0] != theta[1]).any()  # something was fitted


@pytest.mark.slow
def test_bounded_input_is_fitted_as_it_comes(advances: list[int], secret: SecretRef) -> None:
    """No timer is set that the end of time would have to fire."""
    one, batch = plan(more="every: 40\n  iterations: 20"), flights(500)
    assert cells(run(one, [batch], secret=secret)) == simulated(one, batch)
    assert len(advances) == 2 * 3 * 5  # by each engine: runs of 5 keys, each in a shard of its own


@pytest.mark.slow
def test_secrets_that_change_between_and_behind_runs(
    advances: list[int], secret: SecretRef, tmp_path: Path
) -> None:
    file = tmp_path / "later.key"
    file.write_text("77" * 32)
    file.chmod(0o600)
    one, batch = plan(more="every: 40\n  iterations: 10"), flights(500)
    for bounded, switch in ((True, 60), (False, 79)):
        rotate = [(switch, SecretRef(file=str(file)))]
        ran = run(one, [batch], secret=secret, bounded=bounded, rotate=rotate)
        given = [(switch, bytes.fromhex("77" * 32))]
        assert cells(ran) == simulated(one, batch, rotate=given)
        assert cells(ran) != simulated(one, batch)


class Late(beam.DoFn):
    """Keeps (what came, whether the watermark had passed its tick when it came)."""

    HELD = userstate.BagStateSpec("held", coders.VarIntCoder())
    PASSED = userstate.TimerSpec("passed", TimeDomain.WATERMARK)

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def process(
        self,
        element: tuple[int, int],
        stamp: Any = beam.DoFn.TimestampParam,
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: B008
        passed: Any = beam.DoFn.TimerParam(PASSED),  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        tick = element[1]
        held.add(tick)
        yield "came", tick
        end = self._clock.tick_start(tick + 1)
        passed.set(Timestamp(micros=end + 1000), dynamic_timer_tag=str(tick))

    @userstate.on_timer(PASSED)
    def on_passed(
        self,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        yield "passed", int(tag)


@pytest.mark.slow
def test_the_watermark_waits_for_the_models(advances: list[int], secret: SecretRef) -> None:
    """What a runner may close behind the watermark still has every release in it."""
    one = plan("{column: k, declared: [a]}", more="every: 40\n  iterations: 20")
    batch = flights(300, "a")
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    source = pipeline | beam.Create([batch], reshuffle=False).with_output_types(pa.RecordBatch)
    released = source | PrivateReleases(one, secret, bounded=False)
    ticks = released.releases | beam.FlatMap(
        lambda batch: [(0, tick) for tick in sorted(set(batch["tick"].to_pylist()))]
    ).with_output_types(tuple[int, int])
    token = keep(ticks | beam.ParDo(Late(one.clock)), "order")
    pipeline.run().wait_until_finish()
    found = KEPT.pop(token)
    for tick in range(TICKS):
        assert found.index(("came", tick)) < found.index(("passed", tick))
    came = [tick for what, tick in found if what == "came"]
    assert came == list(range(TICKS)) and len(advances) > 60


def test_a_program_that_fits_nothing_has_no_such_step() -> None:
    def labels(made: Plan) -> set[str]:
        pipeline = beam.Pipeline()
        source = pipeline | beam.Create([0]).with_output_types(pa.RecordBatch)
        source | "Release" >> PrivateReleases(made)
        found: set[str] = set()

        class Visitor(beam.pipeline.PipelineVisitor):
            def visit_transform(self, node: Any) -> None:
                found.add(node.full_label)

        pipeline.visit(Visitor())
        return found

    fits = labels(plan())
    learns = labels(learner_plan(schema=", id: i"))
    assert {"Release/Train/Fit", "Release/Assemble/Join"} <= fits
    assert {label.split("/")[1] for label in fits - learns} == {"Train", "Assemble"}
    assert learns < fits


@pytest.mark.slow
def test_strides_that_end_at_a_run_change_nothing(secret: SecretRef) -> None:
    batch, one = flights(600), plan()
    assert STRIDE > 40
    rows = run(one, [batch], secret=secret).rows
    assert run(one, [batch], secret=secret, every=40).rows == rows
    assert run(one, [batch], secret=secret, every=13, bounded=False).rows == rows
