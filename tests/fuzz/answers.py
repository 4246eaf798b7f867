"""What servers answer, and notes next to state: JSON that others wrote, read without a traceback.

An input is the whole answer, to every question, or the whole file. Readers give a value, or the
error that their callers wait for.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.fuzz.configs import BASE
from tests.fuzz.folders import NESTED, answers, changed_folder
from tests.fuzz.folders import new_folder as folder_of
from tests.fuzz.target import Target, require
from tests.transforms.releases import batch
from weir.dpcore.bounded_events import Events
from weir.dpcore.config.key import Key
from weir.dpcore.errors import WeirError
from weir.dpcore.leaves.keys import shown_key
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.engines.flink import FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.estimates import estimate
from weir.pipelines.estimates.grid import ReleaseGrid, ReleasePiece
from weir.pipelines.feed import synthetic
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.run import new_folder
from weir.pipelines.runners import ending, flink_options, submitted
from weir.pipelines.runners.state_folder import JOB_FILE, SECRETS_FILE, StateFolder
from weir.pipelines.show import findings
from weir.pipelines.watch import watch
from weir.transforms.runtime.codec import batch_to_bytes
from weir.transforms.sinks import place
from weir.transforms.sources.kafka.registry import SchemaAway, SchemaRegistry

ODD = [b"", b"null", b"7", b"[]", b"{}", b'"x"', b"<html>", b"\xff", NESTED, b"[{}]", b"1e999"]


TWO = Key.model_validate({"columns": ["k", "l"], "observed_keys_are_public": True})
FILTERED = BASE.replace("{n:", "{sum:") + "mechanism: {noise: gaussian, continual_sum: tree}\n"
"""A plan that has estimates of the output that stored releases are named after."""


@contextlib.contextmanager
def answering(data: bytes) -> Iterator[None]:
    """Inside, every server gives the same answer."""
    with patch("urllib.request.urlopen", lambda *_, **__: io.BytesIO(data)):
        yield


def _flink(data: bytes) -> None:
    rest = FlinkRest("http://localhost:1")
    readers: tuple[Callable[[], Any], ...] = (
        rest.overview,
        rest.jobs,
        partial(rest.jobs, True),
        partial(rest.state, "j"),
        partial(rest.stop, "j", seconds=-1.0),
        partial(ending.counters_of, rest, "j"),
        partial(ending.is_over, rest, "j"),
        partial(submitted.cause_of, rest, "j"),
        partial(findings.jobs_on, rest.url, None, None),
    )
    with answering(data):
        for read in readers:
            try:
                read()
            except EngineFailed as error:
                require(len(str(error)) > 20, "an engine that fails is named", error)


def _flink_answers() -> list[bytes]:
    job = {"jid": "j", "name": "weir a", "state": "RUNNING", "start-time": 1, "end-time": -1}
    saved = {"completed": {"latest_ack_timestamp": 5}}
    whole: dict[str, Any] = {
        **{"flink-version": "1.20", "slots-available": 1, "slots-total": 2, "state": "RUNNING"},
        **{"jobs": [job], "request-id": "r", "status": {"id": "COMPLETED"}, "vertices": []},
        **{"operation": {"location": "file:/x"}, "root-exception": "a.B: no", "latest": saved},
        "counts": {"completed": 1, "failed": 0},
    }
    odd = [{**whole, name: value} for name in whole for value in (None, [], [{}], "x", 1e999)]
    odd.append({**whole, "jobs": [{**job, "start-time": 1e300, "name": None}]})
    odd.append({**whole, "vertices": [{"id": "v", "name": "a"}]})
    return [*ODD, *(json.dumps(one).encode() for one in (whole, *odd))]


def _registry(data: bytes) -> None:
    registry = SchemaRegistry("http://localhost:1")
    for read in (partial(registry.schema, 1), partial(registry.register, "s", "{}")):
        with answering(data), contextlib.suppress(SchemaAway):
            read()


def _registry_answers() -> list[bytes]:
    texts = ['{"schema": "{}"}', '{"schema": 7}', '{"id": 3}', '{"id": "x"}', '{"id": 1e999}']
    texts += ['{"schemaType": []}', '{"schema": "\\ud800"}', '{"schema": "x", "references": [1]}']
    return [*ODD, *(text.encode() for text in texts)]


@cache
def _state() -> StateFolder:
    return StateFolder.of(tempfile.mkdtemp())


def _note(name: str, data: bytes) -> None:
    state = _state()
    Path(state.path, name).write_bytes(data)
    answers(partial(state._read, name), partial(flink_options._kept, state))


def _notes() -> list[bytes]:
    groups = [b'{"max_parallelism": 128}', b'{"max_parallelism": 1e999}', b'{"max_parallelism":[]}']
    return [*ODD, *groups, b'{"job": "j", "url": "http://localhost:1"}', b'{"0": "ab"}']


def _new(data: bytes) -> None:
    folder = str(changed_folder("csv", place.PLAN_FILE, data))
    answers(partial(new_folder._plan_in, folder), partial(new_folder._marks_in, folder))


def _new_plans() -> list[bytes]:
    whole: dict[str, Any] = {"digest": "d", "guarantee": {"epsilon": 1, "delta": 0}}
    odd = [{**whole, name: value} for name in whole for value in (None, [], {}, "x", 1e999)]
    return [*ODD, *(json.dumps(one).encode() for one in (whole, *odd))]


# Filters of estimates that go on where the last call stopped.


@cache
def _estimated() -> tuple[Path, Any]:
    folder = folder_of("csv", Plan.from_yaml(FILTERED))
    run = ResultFolder.open(folder)
    state = folder / estimate.FOLDER
    state.mkdir(exist_ok=True)
    (state / estimate.LIVE).write_bytes(b"")
    return state / estimate.STATE, run


def _released() -> ReleaseGrid:
    """Releases of the plan of the folder, of no event."""
    plan, pieces = Plan.from_yaml(FILTERED), []
    for one in simulate(plan, Events(np.zeros(0, dtype=np.int64), None, {}), bytes(32)):
        for name, over, value, stddev in (released[:4] for released in one.released):
            assert stddev is not None
            keys, ticks = np.array([one.key] * len(value), dtype=object), np.arange(len(value))
            numbers = (np.asarray(item)[:, 0] for item in (value, stddev))
            pieces.append(ReleasePiece((name, over), keys, ticks, *numbers))
    return ReleaseGrid.of(pieces, 0)


def _filters(data: bytes) -> None:
    path, run = _estimated()
    path.write_bytes(data)
    resumed = partial(estimate._resumed, estimate.estimator_of(run), run)
    answers(
        partial(resumed, path.with_name(estimate.LIVE), path),
        partial(estimate.read_rows, data, estimate.ESTIMATE_SCHEMA),
    )


def _filter_files() -> list[bytes]:
    _, run = _estimated()
    estimator = estimate.estimator_of(run)
    own: dict[str, Any] = {"size": np.array(0), "of": np.array(estimate._mark(run, estimator))}
    files = []
    for _ in range(2):  # without a key, then with some
        arrays = estimator.to_arrays()
        for name in (None, *own, *arrays):
            several = {**own, **arrays}
            if name is not None:
                several[name] = np.array("x")
            file = io.BytesIO()
            np.savez(file, allow_pickle=False, **several)
            files.append(file.getvalue())
        estimator.add(_released())
    columns = ",".join(estimate.ESTIMATE_SCHEMA.names).encode()
    return [*ODD, *files[:12], files[0][:-9], columns + b"\n", columns + b"\nx,\n", b"a,b\n1,2\n"]


# Keys of several columns, as files of releases have them.


def _keys(data: bytes) -> None:
    text = data.decode(errors="replace")
    _, run = _estimated()
    run = replace(run, plan={"canonical": {"key": ["k", "l"]}})
    require(isinstance(shown_key(text), str), "a key is shown")
    require(isinstance(synthetic._parts(text, TWO), list), "a key has parts")
    try:
        values = run.values_of(text)
    except WeirError:
        return
    require(len(values) == len(run.key_columns), "a key has a value for each column", values)


def _topic(data: bytes) -> None:
    attributes = {"id": "ab", "first_tick": "0", "last_tick": "3"}
    with tempfile.TemporaryDirectory() as folder:
        brought = watch.Spool("projects/p/subscriptions/s", Path(folder), client=object())
        answers(partial(brought._keep, SimpleNamespace(attributes=attributes, data=data)))


def _messages() -> list[bytes]:
    good = batch_to_bytes(batch(0, 4, [b"a", b"b"]))
    return [*ODD, good, good[:-9], good[:40], b'{"key": "a"}\n']


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target."""
    return {
        "server.flink": lambda: Target(_flink, _flink_answers),
        "server.registry": lambda: Target(_registry, _registry_answers),
        **{
            f"state.{name.strip('_').partition('.')[0]}": partial(
                lambda name: Target(partial(_note, name), _notes), name
            )
            for name in (flink_options.FILE, JOB_FILE, SECRETS_FILE)
        },
        "folder.new": lambda: Target(_new, _new_plans),
        "folder.estimates": lambda: Target(_filters, _filter_files),
        "server.topic": lambda: Target(_topic, _messages),
        "results.keys": lambda: Target(
            _keys, lambda: [*ODD, b'["a"]', b'["a",null]', b"[[1]]", b'["\\ud800"]', b'{"a": 1}']
        ),
    }
