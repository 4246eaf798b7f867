"""The kept inputs of fuzzing again, without Atheris; and that no reader of bytes lacks a target."""

from __future__ import annotations

import ast
import sys
from collections.abc import Set
from pathlib import Path
from types import FrameType
from typing import Any, get_type_hints

import pytest

from tests.fuzz.messages import VALUES
from tests.fuzz.target import CORPUS, INPUT_BYTES, Fault, digest, read_corpus, without_kernels
from tests.fuzz.targets import TARGETS
from weir.pipelines.sources.kafka import TopicConfig
from weir.pipelines.sources.payload import MessageFormat
from weir.transforms.formats.registry import file_formats, message_formats

ROOT = Path(__file__).parents[2]
READ_BY = {"unpack", "batch_from_bytes", "json_in"}
"""Functions that read stored bytes: who calls one must be called by a target."""
PARSERS = {
    **{"json": {"load", "loads", "JSONDecoder"}, "orjson": {"loads"}, "pickle": {"load", "loads"}},
    **{"np": {"load", "fromfile"}, "yaml": {"safe_load", "load"}, "tomllib": {"load", "loads"}},
}
"""Functions of libraries that read bytes or texts, by what their module is called: who names one
must be called by a target too."""
PLACES = ("dpcore", "transforms", "pipelines")
SEEDS = 12
"""Inputs of a target that are run to see which readers it runs, at most."""
OURS = "reads what a server of ours for tests has printed, or answers"
OWN = "reads a JSON text that the function before it made"
ELSEWHERE = {
    ("dpcore/continual/tables.py", ""): "reads a table of the package",
    ("dpcore/leaves/keys.py", "grouping_of"): OWN,
    ("dpcore/leaves/keys.py", "key_in_groups"): OWN,
    ("transforms/columns/keys.py", "folded"): OWN,
    ("transforms/sinks/receipts.py", "sign"): "reads the marks that its run has just written",
    ("transforms/sinks/receipts.py", "_plan"): "reads the plan that its run has just written",
    ("pipelines/audit/malformed.py", "_put"): "reads a line of an event that the audit made",
    ("pipelines/audit/malformed.py", "_without"): "reads a line of an event that the audit made",
    ("pipelines/engines/servers.py", "listening"): OURS,
    ("pipelines/engines/servers.py", "counts"): OURS,
    ("pipelines/engines/servers.py", "messages"): OURS,
    ("pipelines/results/plan_file.py", "note"): "adds to the plan that its run has just written",
    ("transforms/beam/deduplicate.py", "process"): "one call of batch_from_bytes on an element",
    ("transforms/sinks/iceberg.py", "add"): "one call of batch_from_bytes on an element",
}
"""Readers that are left out, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_is_read_by_the_rules(name: str) -> None:
    target, faults = TARGETS[name](), []
    for data in dict.fromkeys([*target.seeds(), *read_corpus(name)]):
        try:
            target.check(data)
        except Exception as error:
            faults.append(f"{digest(data)} {data[:80]!r}: {type(error).__name__}: {error}"[:400])
    assert not faults, f"{len(faults)} inputs; {faults[:3]}"


def test_every_registered_format_and_payload_has_targets() -> None:
    files = {f"{form}.{what}" for form in file_formats() for what in ("file", "record")}
    messages = {f"{form}.message" for form in (*message_formats(), *VALUES)}
    assert files | messages <= set(TARGETS)
    hint = get_type_hints(TopicConfig, include_extras=True)["payload"]
    (more,) = (one for one in hint.__metadata__ if isinstance(one, MessageFormat))
    assert set(more.others) == set(VALUES), "a payload without a target"


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    paths = list(CORPUS.iterdir())
    assert {path.stem for path in paths} <= set(TARGETS) and len(paths) <= 300
    assert sum(path.stat().st_size for path in paths) < 1_000_000
    assert all(len(data) <= INPUT_BYTES for path in paths for data in read_corpus(path.stem))


def readers_in(text: str, read_by: Set[str] = READ_BY) -> set[str]:
    """Functions of a module that read bytes from outside; "": it does where it is imported."""
    results = set[str]()

    def look(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
            if {"in_words"} & {one.id for one in node.decorator_list if isinstance(one, ast.Name)}:
                results.add(function)
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                if name in PARSERS.get(module, ()):
                    results.add(function)
            case ast.ImportFrom(module=module) if module in PARSERS:
                names = {one.name for one in node.names} & PARSERS[module]
                assert not names, f"write import {module}, by which readers are found"
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in read_by:
                results.add(function)
        for child in ast.iter_child_nodes(node):
            look(child, function)

    look(ast.parse(text), "")
    return results


def readers() -> set[tuple[str, str]]:
    """(file, function) of every reader of bytes from outside, but for those that are left out."""
    results = {
        (str(path.relative_to(ROOT)), function)
        for place in PLACES
        for path in sorted((ROOT / place).rglob("*.py"))
        for function in readers_in(
            path.read_text(), READ_BY - ({"unpack"} if place == "dpcore" else set())
        )
    } | {
        (str(path.relative_to(ROOT)), function)
        for path in sorted((ROOT / "dpcore/leaves").rglob("*.py"))
        for function in readers_in(path.read_text())
    }
    unknown = ELSEWHERE.keys() - results
    assert not unknown, f"is no reader any more: {sorted(unknown)}"
    return results - ELSEWHERE.keys()


@pytest.mark.parametrize(
    "body",
    ["json.loads(answer.read())", "json.load(file)", "list(map(orjson.loads, lines))",
     "np.load(path)", "place.json_in(data)", "unpack(data)", "json.JSONDecoder().decode(data)"],
)  # fmt: skip
def test_a_new_reader_is_seen_wherever_it_is(body: str) -> None:
    assert readers_in(f"class A:\n    def new(self):\n        x = {body}\n") == {"new"}
    assert readers_in(f"def before():\n    def inner():\n        return {body}\n") == {"inner"}
    assert readers_in(f"TABLE = {body}\n") == {""}
    assert readers_in("def new(x):\n    return json.dumps(x)\n") == set()
    with pytest.raises(AssertionError, match="write import json"):
        readers_in("from json import loads\n")


@pytest.mark.slow
def test_every_reader_of_bytes_is_run_by_a_target() -> None:
    called: set[Any] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_name))

    for name in TARGETS:
        if name.split(".")[0] not in ("csv", "parquet", "avro"):
            target = TARGETS[name]()
            inputs = target.seeds()[: None if name.startswith("ndjson") else SEEDS]
            sys.setprofile(note)
            try:
                for data in inputs:
                    target.check(data)
            finally:
                sys.setprofile(None)
    places = {(file.rpartition("/weir/")[2], function) for file, function in called}
    left = readers() - places
    assert not left, f"no target runs {sorted(left)}"


@pytest.mark.parametrize("name", ["csv.record", "ndjson.record", "json.message"])
def test_a_reader_that_looks_at_its_neighbour_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule can fail: a mutant reads a record as the one before it."""
    from weir.transforms.decode import canonical

    assemble = canonical.assemble

    def mutant(*given: Any, **named: Any) -> Any:
        decoded = assemble(*given, **named)
        if decoded.events is None or decoded.events.num_rows < 2:
            return decoded
        places = decoded.events.schema.get_field_index("@time")
        times = decoded.events.column("@time")
        moved = times.take([0, *range(len(times) - 1)])
        return decoded._replace(events=decoded.events.set_column(places, "@time", moved))

    for module in [module for key, module in sys.modules.items() if key.startswith("weir.")]:
        if getattr(module, "assemble", None) is assemble:
            monkeypatch.setattr(module, "assemble", mutant)
    target = TARGETS[name]()
    with pytest.raises(Fault, match="a record is|numpy reads|a message is"):
        for data in target.seeds():
            target.check(data)


def test_kernels_are_put_back() -> None:
    from weir.transforms.decode import csv

    before = csv.kernels
    with without_kernels():
        assert csv.kernels is None
    assert csv.kernels is before
