"""What Beam's in-process runner does over and over, a third of a short run; here once.

- It asks for the signature of every method of every DoFn each time that it wonders whether the DoFn
  has state: some 4,000 times in a graph of 40 steps. It depends on the function alone, and the
  answer on the class.
- It parses the command line for each look at an option: some 180 times. A view of the options is
  what was parsed and the values that all views share.
- It reads the source of every DoFn to see whether it both yields and returns, which those of Beam
  and of this package do not.
- It imports IPython to find out whether it runs inside it. Whoever does has it loaded.
- A bundle ends when the thread that samples states wakes up, after up to a fifth of a second, and
  nothing here reads those samples.

- It compresses what it hands from one step to the next of a process, plans among it.

All but the last, which is of a runner, holds for the process; none of it changes a result.
"""

from __future__ import annotations

import bz2
import copy
import functools
import sys
import threading
import types
from typing import Any

from apache_beam import pipeline as beam_pipeline
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options import pipeline_options
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core, userstate
from apache_beam.utils import interactive_utils

SAMPLE_MS = 5
_PLAIN = b"plain:"
_WORKERS = "ExecutionTreeCreator"
"""Threads in which a worker writes steps that it reads itself; the version of Beam is pinned."""
_here = threading.local()


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
    if not hasattr(module._check_fn_use_yield_and_return, "asked"):
        module._check_fn_use_yield_and_return = _of_others(module._check_fn_use_yield_and_return)
    interactive: tuple[Any, ...] = (interactive_utils, beam_pipeline)
    for where in interactive:
        if not hasattr(where.is_in_ipython, "asked"):
            where.is_in_ipython = _if_loaded(where.is_in_ipython)
    sampler: Any = statesampler.StateSampler
    sampler.__init__.__defaults__ = (SAMPLE_MS,)


def uncompressed(runner: Any) -> Any:
    """The runner, which compresses nothing while it runs a pipeline in this process."""
    pickler: Any = cloudpickle_pickler
    if not isinstance(pickler.bz2, _Compressor):
        pickler.bz2 = _Compressor()
    run_pipeline = runner.run_pipeline

    def run(pipeline: Any, options: Any) -> Any:
        _here.runs = getattr(_here, "runs", 0) + 1
        try:
            return run_pipeline(pipeline, options)
        finally:
            _here.runs -= 1

    runner.run_pipeline = run
    return runner


class _Compressor:
    """In place of ``bz2``: what is written in this thread while ``uncompressed`` runs, or by a
    worker for itself, stays plain; what is for other machines is compressed as ever."""

    def compress(self, data: bytes, compresslevel: int = 9) -> bytes:
        own = threading.current_thread().name.startswith(_WORKERS)
        if own or getattr(_here, "runs", 0) > 0:
            return _PLAIN + data
        return bz2.compress(data, compresslevel)

    def decompress(self, data: bytes) -> bytes:
        if data.startswith(_PLAIN):
            return data[len(_PLAIN) :]
        return bz2.decompress(data)


def _of_others(asked: Any) -> Any:
    """``_check_fn_use_yield_and_return``, which warns of a user's functions."""

    def check(fn: Any) -> bool:
        room = str(getattr(fn, "__module__", None)).partition(".")[0]
        return room not in _OWN and bool(asked(fn))

    check.asked = asked  # type: ignore[attr-defined]
    return check


_OWN = ("apache_beam", "weir")


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


__all__ = ["once", "uncompressed"]
