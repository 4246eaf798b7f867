"""What Beam finds of a step is all there is."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import userstate

import weir.transforms.beam
from weir.transforms.beam.step import Step


def kinds() -> list[type[beam.DoFn]]:
    package = weir.transforms.beam
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found, rest = [], [beam.DoFn]
    while rest:
        new = rest.pop().__subclasses__()
        rest += new
        found += [kind for kind in new if kind.__module__.startswith("weir.")]
    return [kind for kind in found if kind is not Step]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_states_and_timers_are_all_found(kind: type[Any]) -> None:
    assert issubclass(kind, Step)
    methods = [value for _, value in inspect.getmembers_static(kind, inspect.isfunction)]
    defaults = [p.default for m in methods for p in inspect.signature(m).parameters.values()]
    states, timers = userstate.get_dofn_specs(object.__new__(kind))
    assert states == {d.state_spec for d in defaults if isinstance(d, beam.DoFn.StateParam)}
    assert timers == {d.timer_spec for d in defaults if isinstance(d, beam.DoFn.TimerParam)}


def test_nothing_is_looked_for_elsewhere() -> None:
    class Named(Step):
        def process(self, element: object) -> None: ...
        def on_time(self) -> None: ...
        def _helper(self) -> None: ...

    assert Named.__dir__(object.__new__(Named)) == ["on_time", "process"]
