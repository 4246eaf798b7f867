"""What Beam's in-process runner does over and over, a third of a short run; here once.

- It asks for the signature of every method of every DoFn each time that it wonders whether the DoFn
  has state: some 4,000 times in a graph of 40 steps. It depends on the function alone, and the
  answer on the class.
- It parses the command line for each look at an option: some 180 times. A view of the options is
  what was parsed and the values that all views share.
- It imports IPython to find out whether it runs inside it. Whoever does has it loaded.
- A bundle ends when the thread that samples states wakes up, after up to a fifth of a second, and
  nothing here reads those samples.

All of it holds for the process, and changes no result.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
from typing import Any

from apache_beam import pipeline as beam_pipeline
from apache_beam.options import pipeline_options
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core, userstate
from apache_beam.utils import interactive_utils

SAMPLE_MS = 5


def once() -> None:
    """Lets Beam do these once; calling it again does nothing."""
    module: Any = core
    if not hasattr(module.get_function_args_defaults, "asked"):
        module.get_function_args_defaults = _remembered(module.get_function_args_defaults)
    states: Any = userstate
    if not hasattr(states.get_dofn_specs, "asked"):
        states.get_dofn_specs = _known_of_classes(states.get_dofn_specs)
    options: Any = pipeline_options.PipelineOptions
    if not hasattr(options.view_as, "asked"):
        options.view_as = _parsed_once(options.view_as)
    interactive: tuple[Any, ...] = (interactive_utils, beam_pipeline)
    for where in interactive:
        if not hasattr(where.is_in_ipython, "asked"):
            where.is_in_ipython = _if_loaded(where.is_in_ipython)
    sampler: Any = statesampler.StateSampler
    sampler.__init__.__defaults__ = (SAMPLE_MS,)


def _if_loaded(asked: Any) -> Any:
    """``is_in_ipython``."""

    def is_in_ipython() -> bool:
        return "IPython" in sys.modules and bool(asked())

    is_in_ipython.asked = asked  # type: ignore[attr-defined]
    return is_in_ipython


def _remembered(asked: Any) -> Any:
    """``get_function_args_defaults``: names of a function's arguments, and defaults."""

    @functools.lru_cache(maxsize=4096)
    def of(function: Any, bound: bool) -> Any:
        return asked(types.MethodType(function, object()) if bound else function)

    def get_function_args_defaults(f: Any) -> tuple[list[str], list[Any]]:
        bound = type(f) is types.MethodType
        function = f.__func__ if bound else f
        if type(function) is not types.FunctionType:
            return asked(f)  # type: ignore[no-any-return]
        names, defaults = of(function, bound)
        return list(names), list(defaults)

    get_function_args_defaults.asked = asked  # type: ignore[attr-defined]
    return get_function_args_defaults


def _known_of_classes(asked: Any) -> Any:
    """``get_dofn_specs``: of DoFns whose methods are those of their class."""
    known: dict[type, Any] = {}

    def get_dofn_specs(dofn: Any) -> Any:
        kind = type(dofn)
        own = any(isinstance(value, types.MethodType) for value in vars(dofn).values())
        if own or hasattr(dofn, "_inspect_process"):  # one that wraps a function
            return asked(dofn)
        if kind not in known:
            known[kind] = asked(dofn)
        states, timers = known[kind]
        return set(states), set(timers)

    get_dofn_specs.asked = asked  # type: ignore[attr-defined]
    return get_dofn_specs


def _parsed_once(asked: Any) -> Any:
    """``PipelineOptions.view_as``: of Beam's own kinds of options, which only parse."""
    parsed: dict[tuple[Any, ...], Any] = {}

    def view_as(self: Any, cls: Any) -> Any:
        if not cls.__module__.startswith("apache_beam."):
            return asked(self, cls)
        flags = self._flags
        key = (cls, flags is None, *(sys.argv[1:] if flags is None else flags))
        if key not in parsed:
            view = asked(self, cls)
            parsed[key] = copy.deepcopy(view._visible_options)
            return view
        visible = copy.deepcopy(parsed[key])  # lists of it are appended to
        view = cls.__new__(cls)
        vars(view).update(_flags=flags, _visible_options=visible, _all_options=self._all_options)
        for name in view._visible_option_list():
            if name not in self._all_options:
                self._all_options[name] = getattr(visible, name)
        return view

    view_as.asked = asked  # type: ignore[attr-defined]
    return view_as


__all__ = ["once"]
