"""Events that are clipped and summed in one pass: the bits of the passes of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weir.dpcore.aggregates import event_sums, program
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.event_sums import CHANNEL, EventSums
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.program import EventCells

HARD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, 2.0, -2.0, 1.9999999999999998)
TICKS, KEYS, FIRST = 5, 3, 40

CASES = {
    "count": (Channel.make("count"),),
    "sum": (Channel.make("count"), Channel.make("value", "v", (0.0, 2.0))),
    "centred": (Channel.make("value", "v", (-2.0, 2.0), centre=0.5),),
    "above 0": (Channel.make("value", "v", (0.5, 1.5)),),
    "below 0": (Channel.make("value", "v", (-1.5, -0.5)),),
    "variance": (
        Channel.make("value", "v", (-2.0, 1.0), centre=-0.5),
        Channel.make("square", "v", (-2.0, 1.0), centre=-0.5),
    ),
    "several": (
        Channel.make("value", "v", (0.0, 2.0)),
        Channel.make("value", "w", (0.0, 2.0)),
        Channel.make("value", "v", (0.0, 1.0)),
        Channel.make("square", "w", (0.0, 2.0), centre=1.0),
    ),
}


def events(n: int) -> tuple[dict[str, Any], EventCells]:
    """Columns, of which a fifth is odd numbers, and cells."""
    rng = np.random.default_rng(n)
    columns = {name: rng.normal(0.5, 2.0, n) for name in "vw"}
    for values in columns.values():
        odd = rng.random(n) < 0.2
        values[odd] = rng.choice(HARD, int(odd.sum()))
    ticks = FIRST + rng.integers(0, TICKS, n)
    codes = rng.integers(0, 4, n).astype(np.int32)
    return columns, EventCells(ticks, FIRST, codes, np.array([2, 0, 1, 0]))


@pytest.mark.parametrize("n", (0, 1, 255, 256, 257, 3000))
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("alone", (False, True))
def test_one_pass_has_the_bits_and_the_counts_of_several(
    compiled: Any, case: str, n: int, alone: bool
) -> None:
    program = Aggregates(CASES[case], (), ())
    columns, cells = events(n)
    keys = 1 if alone else KEYS
    if alone:
        cells = cells._replace(codes=np.zeros(0, dtype=np.int32), rows=np.zeros(1, dtype=np.int64))
    rows = np.zeros(n, dtype=np.int64) if alone else cells.rows[cells.codes]
    at = (cells.ticks - FIRST) * keys + rows
    expected = program.bound(columns, n)
    sums = np.zeros((TICKS * keys, program.dimension), dtype=np.int64)
    if n:
        sums = program.accumulate(expected.rows, at, TICKS * keys)
    grid = np.full((TICKS, keys, 1 + program.dimension), 7, dtype=np.int64)

    assert program.adds_events
    result = program.add_events(columns, cells, grid)

    assert result == expected._replace(rows=())
    flat = grid.reshape(-1, 1 + program.dimension) - 7
    assert (flat[:, 0] == np.bincount(at, minlength=TICKS * keys)).all()
    assert (flat[:, 1:] == sums).all()


def shifted(values: Any) -> Any:
    """The same numbers, one byte behind an address that suits them."""
    room = np.empty(values.nbytes + 1, dtype=np.uint8)
    result = room[1:].view(values.dtype)
    result[:] = values
    assert not result.flags.aligned
    return result


def test_buffers_that_lie_anywhere_give_the_same_bits(compiled: Any) -> None:
    """Those of a message or of another writer of Arrow are where that one put them."""
    program = Aggregates(CASES["several"], (), ())
    columns, cells = events(300)
    grids = np.zeros((2, TICKS, KEYS, 1 + program.dimension), dtype=np.int64)
    plain = program.add_events(columns, cells, grids[0])
    moved = {name: shifted(values) for name, values in columns.items()}
    anywhere = cells._replace(ticks=shifted(cells.ticks), codes=shifted(cells.codes))
    assert program.add_events(moved, anywhere, grids[1]) == plain
    assert (grids[0] == grids[1]).all()


@pytest.mark.parametrize(
    "channel",
    (
        Channel.make("bins", "v", edges=(0.0, 1.0, 2.0)),
        Channel.make("value", "v", (0.0, 2.0), where="v > 1"),
        Channel.make("value", "v", (0.0, 2.0), presence="present"),
        Channel.make("count", takes="newcomers"),
        Channel("value", "v", 0.0, 2.0**60),
    ),
)
def test_channels_that_are_not_of_every_event_are_left_to_numpy(channel: Channel) -> None:
    assert EventSums.of((Channel.make("count"), channel)) is None


def test_without_kernels_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (event_sums, program):
        monkeypatch.setattr(module, "kernels", None)
    assert not Aggregates(CASES["sum"], (), ()).adds_events


def arguments(**changed: Any) -> list[Any]:
    """What the kernel takes, of one column and three events."""
    channels = np.zeros(1, CHANNEL)
    channels["kind"], channels["most"] = 1, 4.0
    given: dict[str, Any] = {
        "columns": (np.ones(3),),
        "ticks": np.zeros(3, dtype=np.int64),
        "codes": np.zeros(3, dtype=np.int32),
        "rows": np.zeros(1, dtype=np.int64),
        "channels": channels,
        "shape": np.array([0, 1]),
        "counts": np.zeros(2, dtype=np.int64),
        "grid": np.zeros((1, 1, 2), dtype=np.int64),
    }
    return list((given | changed).values())


def channel(**changed: Any) -> Any:
    """One channel of the kernel."""
    (row,) = np.zeros(1, CHANNEL)
    for name, value in ({"kind": 1} | changed).items():
        row[name] = value
    return np.array([row], CHANNEL)


@pytest.mark.parametrize(
    "changed",
    (
        {"columns": (np.ones(2),)},
        {"columns": (np.ones(25).view(np.int8)[1:25],)},
        {"codes": np.zeros(2, dtype=np.int32)},
        {"codes": np.array([0, 0, 1], dtype=np.int32)},
        {"codes": np.array([0, -1, 0], dtype=np.int32)},
        {"ticks": np.array([0, 0, 1])},
        {"ticks": np.array([0, 0, -1])},
        {"rows": np.array([1])},
        {"rows": np.array([-1])},
        {"shape": np.array([0, 0])},
        {"shape": np.zeros(3, dtype=np.int64)},
        {"counts": np.zeros(1, dtype=np.int64)},
        {"grid": np.zeros(3, dtype=np.int64)},
        {"channels": channel(kind=3)},
        {"channels": channel(kind=-1)},
        {"channels": channel(column=1)},
        {"channels": channel(column=-1)},
        {"channels": channel(most=2.0**54)},
        {"channels": channel(least=np.nan)},
    ),
)
def test_the_kernel_takes_no_events_outside_of_its_grid(
    compiled: Any, changed: dict[str, Any]
) -> None:
    compiled.add_events(*arguments())
    with pytest.raises(ValueError, match="grid"):
        compiled.add_events(*arguments(**changed))


def test_the_kernel_takes_a_tuple_of_columns(compiled: Any) -> None:
    for columns in ([np.ones(3)], (1,), (np.ones(3),) * 65):
        with pytest.raises(TypeError):
            compiled.add_events(*arguments(columns=columns))
    with pytest.raises(TypeError):
        compiled.add_events(*arguments()[:-1])
