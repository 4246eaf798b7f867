"""The kept inputs of fuzzing again, without Atheris; and that no reader of bytes lacks a target."""

from __future__ import annotations

import ast
import sys
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
PLACES = ("transforms/operators", "transforms/beam", "transforms/runtime", "transforms/sinks")
PLACES += ("transforms/sources/kafka", "dpcore/leaves", "pipelines/results", "pipelines/ledger")
PLACES += ("pipelines/verify", "pipelines/show")
ELSEWHERE = {
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


def readers() -> set[tuple[str, str]]:
    """(file, function) of every reader of stored bytes."""
    results = set()
    for path in (path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))):
        inside = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or (inside, node.name) in ELSEWHERE:
                continue
            marks = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
            calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
            names = {getattr(call, "id", getattr(call, "attr", "")) for call in calls}
            if "in_words" in marks or names & READ_BY:
                results.add((inside, node.name))
    return results


@pytest.mark.slow
def test_every_reader_of_stored_bytes_is_run_by_a_target() -> None:
    called: set[Any] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_name))

    for name in TARGETS:
        if name.split(".")[0] in ("state", "folder", "results", "ledger"):
            target = TARGETS[name]()
            inputs = target.seeds()[:6]
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
