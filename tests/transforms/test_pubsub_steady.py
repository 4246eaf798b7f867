"""A reader's wall time: what a step of the machine's clock does to it, and to the frontier."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weir.transforms.beam.pubsub.messages import Subscription
from weir.transforms.beam.pubsub.reader import Reader
from weir.transforms.beam.pubsub.watermark import CATCH_UP, Frontier, SteadyTime
from weir.transforms.runtime.stream_time import PRESENT

S = 1_000_000


class Machine:
    """A machine of which somebody sets the clock."""

    def __init__(self) -> None:
        self.wall, self.count = 1_000_000.0, 50.0
        self.time = SteadyTime(lambda: self.wall, lambda: self.count)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.count += seconds


def test_time_goes_on_as_the_wall_clock_does() -> None:
    machine = Machine()
    for _ in range(10):
        machine.passes(7.5)
        assert machine.time() == machine.wall


@pytest.mark.parametrize("step", [30.0, 3600.0])
def test_a_step_ahead_on_a_silent_stream_moves_the_frontier_by_a_hundredth_of_what_passes(
    step: float,
) -> None:
    machine = Machine()
    began = machine.time()
    frontier = Frontier(PRESENT, S, 0, int(began * S))
    machine.passes(10)
    frontier.silent(int(machine.time() * S))
    machine.wall += step
    for _ in range(10):
        machine.passes(1)
        frontier.silent(int(machine.time() * S))
    reached = frontier.at(int(machine.time() * S))
    assert reached is not None
    assert reached / S <= began + 20 + 20 * CATCH_UP - 1 + 1e-3
    machine.passes(step / CATCH_UP)
    assert machine.time() == machine.wall, "it never comes up with a clock that was put right"


def test_publish_times_tell_at_once_that_ours_was_behind_and_no_later_than_the_wall_clock() -> None:
    machine = Machine()
    machine.time()
    machine.wall += 600
    machine.time.prove(machine.wall - 1)
    assert machine.time() == machine.wall - 1
    machine.time.prove(machine.wall + 600)
    assert machine.time() == machine.wall


def test_a_step_back_is_followed() -> None:
    machine = Machine()
    machine.time()
    machine.wall -= 600
    assert machine.time() == machine.wall


def test_a_reader_takes_publish_times_for_proof() -> None:
    client: Any = SimpleNamespace(
        transport=SimpleNamespace(grpc_channel=SimpleNamespace(unary_unary=lambda *_, **__: None))
    )
    reader, machine = Reader(Subscription("s"), client=client), Machine()
    reader._steady = reader._now = machine.time
    machine.wall += 60
    published = SimpleNamespace(seconds=int(machine.wall), nanos=0)
    reader._message(
        SimpleNamespace(message_id="1", data=b"", attributes={}, publish_time=published)
    )
    assert reader.wall() == int(machine.wall) * S
