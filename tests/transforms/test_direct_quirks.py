"""What Beam does once in place of over and over gives what it gave."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import core, userstate
from apache_beam.transforms.window import GlobalWindows

from weir.transforms.beam.tick import TickDoFn
from weir.transforms.runtime import direct_quirks


@pytest.fixture(autouse=True)
def quirks() -> None:
    direct_quirks.once()
    direct_quirks.once()


def outer(element: Any, first: int = 1, *more: int, window: Any = beam.DoFn.WindowParam) -> None:
    """A function with arguments of every kind."""


class Own(PipelineOptions):
    """Options of a user's own."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--mine", default="none")


@pytest.mark.parametrize("function", [outer, len, TickDoFn.process, beam.DoFn().process, outer])
def test_arguments_are_those_that_beam_finds(function: Any) -> None:
    asked = core.get_function_args_defaults.asked
    for _ in range(2):
        assert core.get_function_args_defaults(function) == asked(function)
    core.get_function_args_defaults(function)[0].append("not ours")
    assert core.get_function_args_defaults(function) == asked(function)


class Wraps(beam.DoFn):
    """A DoFn whose method is another's."""

    def __init__(self, other: Any) -> None:
        self.process = other.process


def test_states_and_timers_are_found() -> None:
    asked = userstate.get_dofn_specs.asked  # type: ignore[attr-defined]
    ticking = TickDoFn.__new__(TickDoFn)
    for fn in (ticking, Wraps(ticking), Wraps(beam.DoFn()), core.CallableWrapperDoFn(outer)):
        for _ in range(2):
            assert userstate.get_dofn_specs(fn) == asked(fn)
    assert all(userstate.get_dofn_specs(ticking))
    assert userstate.get_dofn_specs(Wraps(ticking))[0] and not asked(Wraps(beam.DoFn()))[0]


@pytest.mark.parametrize("flags", [[], ["--streaming", "--experiments=a", "--experiments=b"]])
def test_views_of_options_share_values_and_nothing_leaks(flags: list[str]) -> None:
    asked = pipeline_options.PipelineOptions.view_as.asked  # type: ignore[attr-defined]
    for _ in range(2):
        options, plain = PipelineOptions(flags), PipelineOptions(flags)
        for kind in (StandardOptions, DebugOptions, Own):
            assert options.view_as(kind).get_all_options() == asked(plain, kind).get_all_options()
        options.view_as(StandardOptions).runner = "DirectRunner"
        assert options.view_as(StandardOptions).runner == "DirectRunner"
        debug = options.view_as(DebugOptions)
        debug.add_experiment("c")
        assert options.view_as(DebugOptions).experiments[-1] == "c"
    assert "c" not in (PipelineOptions(flags).view_as(DebugOptions).experiments or [])


def test_options_of_the_command_line_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for streaming in (False, True, False):
        monkeypatch.setattr("sys.argv", ["program", *(["--streaming"] if streaming else [])])
        assert bool(PipelineOptions().view_as(StandardOptions).streaming) == streaming


@pytest.mark.slow
def test_ipython_is_not_loaded_to_ask_whether_it_runs() -> None:
    code = (
        "import sys; from weir.transforms.runtime import direct_quirks as d; d.once();"
        "from apache_beam.pipeline import is_in_ipython as asked;"
        "print(asked(), 'IPython' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def yields_and_returns(element: Any) -> Any:
    if element:
        return [element]
    yield element


def test_functions_of_others_are_still_looked_at() -> None:
    module: Any = core
    check = module._check_fn_use_yield_and_return
    assert check.asked(yields_and_returns) and check(yields_and_returns)
    assert not check(outer) and not check(len) and not check(beam.DoFn().process)


def test_no_step_of_a_graph_both_yields_and_returns() -> None:
    """What is not looked at here would give no warning there."""
    check, seen = core._check_fn_use_yield_and_return, set()
    for name, found in list(sys.modules.items()):
        if name.startswith(("weir.transforms", "weir.pipelines")):
            kinds = [one for one in vars(found).values() if isinstance(one, type)]
            for kind in kinds:
                if issubclass(kind, beam.DoFn) and kind.__module__ == name:
                    seen.add(kind.__name__)
                    assert not check.asked(kind.process), kind
    assert {"TickDoFn", "LeafDoFn", "UniqueHere", "DropSeen", "SolveDoFn"} <= seen


def test_only_what_stays_in_the_process_is_not_compressed() -> None:
    seen: list[bytes] = []

    class Runner:
        def run_pipeline(self, pipeline: Any, options: Any) -> Any:
            seen.append(cloudpickle_pickler.dumps({"a": [pipeline] * 999}))
            raise RuntimeError("ended")

    runner = direct_quirks.uncompressed(Runner())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ended"):
            runner.run_pipeline("a pipeline of its own", None)
    elsewhere = cloudpickle_pickler.dumps({"a": ["a pipeline of its own"] * 999})
    assert base64.b64decode(elsewhere).startswith(b"BZh")
    assert not base64.b64decode(seen[0]).startswith(b"BZh")
    for data in (*seen, elsewhere):
        assert cloudpickle_pickler.loads(data) == {"a": ["a pipeline of its own"] * 999}


def test_a_run_in_this_process_compresses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes] = []

    def compress(data: bytes, level: int = 9) -> bytes:
        calls.append(data)
        return data

    monkeypatch.setattr(direct_quirks.bz2, "compress", compress)
    runner = direct_quirks.uncompressed(FnApiRunner())
    with beam.Pipeline(runner=runner) as pipeline:
        doubled = pipeline | beam.Create([1, 2]) | beam.Map(lambda x: 2 * x) | beam.Reshuffle()
        doubled | beam.WindowInto(GlobalWindows()) | beam.Map(str)
    assert calls == []
