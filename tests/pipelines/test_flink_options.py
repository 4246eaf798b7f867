"""What Flink is told by default, what a user may say instead, and what is refused before it."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.runners.flink_options import flags_of, names_of, parallelism_of, settings_of
from weir.pipelines.runners.options import FlinkTarget
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.runners.submitted import cause_in, refusal_in
from weir.transforms.sinks.held import contradiction

CLUSTER = FlinkTarget("localhost:1")


def flags(
    small: Path,
    target: FlinkTarget = FlinkTarget(),  # noqa: B008
    given: tuple[str, ...] = (),
    streaming: bool = True,
    **more: Any,
) -> dict[str, str]:
    state = StateFolder(str(small.parent / "state"))
    found = flags_of(
        load(small).engine, target, given, 2, streaming, "weir-x", state, more.get("at")
    )
    return {name: value for name, _, value in (flag[2:].partition("=") for flag in found)}


def test_defaults_of_a_stream(small: Path) -> None:
    found = flags(small)
    assert found["checkpointing_interval"] == "5000"
    assert found["max_bundle_time_mills"] == "20" and found["max_bundle_size"] == "20000"
    assert found["parallelism"] == "2" and found["max_parallelism"] == "128"
    assert found["environment_type"] == "LOOPBACK" and "streaming" in found
    assert found["finish_bundle_before_checkpointing"] == ""
    assert "savepoint_path" not in found
    assert found["operator_chaining"] == "", "given without a value it is off"
    chained = flags(small, given=("--operator_chaining=true",))
    assert "operator_chaining" not in chained
    assert flags(small, at="file:///s")["savepoint_path"] == "file:///s"


def test_files_end_and_need_no_checkpoints(small: Path) -> None:
    assert "checkpointing_interval" not in flags(small, streaming=False)
    state = StateFolder(str(small.parent / "state"))
    assert "state.checkpoints.dir" not in settings_of(FlinkTarget(), state, False, 1, None)


def test_workers_of_a_cluster_are_processes_unless_the_user_says_otherwise(small: Path) -> None:
    found = flags(small, CLUSTER)
    assert found["environment_type"] == "PROCESS" and "weir-worker" in found["environment_config"]
    own = flags(small, CLUSTER, ("--environment_type=EXTERNAL", "--environment_config=h:1"))
    assert own["environment_type"] == "EXTERNAL" and own["environment_config"] == "h:1"


def test_what_the_user_gives_stays(small: Path) -> None:
    found = flags(small, given=("--checkpointing_interval=9", "--max_bundle_size=1"))
    assert found["checkpointing_interval"] == "9" and found["max_bundle_size"] == "1"
    assert names_of(["--a-b=c", "--d", "e"]) == {"a_b", "d"}


def test_an_embedded_flink_tells_of_itself_to_this_machine_only(small: Path) -> None:
    state = StateFolder(str(small.parent / "state"))
    found = settings_of(FlinkTarget(), state, True, 4321, "file:///s")
    assert found["rest.port"] == 4321 and found["rest.bind-address"] == "127.0.0.1"
    assert found["execution.savepoint.path"] == "file:///s"
    assert found["state.checkpoints.dir"] == f"{state.uri}/checkpoints"
    kept = "execution.checkpointing.externalized-checkpoint-retention"
    assert found[kept] == "RETAIN_ON_CANCELLATION"
    assert found["execution.buffer-timeout.interval"] == "2 ms"
    slow = settings_of(FlinkTarget(), state, True, 4321, None, 1_000_000)
    assert slow["execution.buffer-timeout.interval"] == "100 ms"
    quick = settings_of(FlinkTarget(), state, True, 4321, None, 1_000)
    assert quick["execution.buffer-timeout.interval"] == "1 ms"
    assert not any(name.startswith("rest.") for name in settings_of(CLUSTER, state, True, 1, None))


def test_a_cluster_that_does_not_answer_is_refused(small: Path) -> None:
    with pytest.raises(ConfigError, match="does not answer"):
        parallelism_of(CLUSTER, load(small).engine)
    assert parallelism_of(FlinkTarget(parallelism=3), load(small).engine) == 3
    assert parallelism_of(FlinkTarget(), load(small, ["engine.parallelism=5"]).engine) == 5


class Slots(BaseHTTPRequestHandler):
    """A JobManager whose slots become free at its third answer."""

    answers = 0

    def do_GET(self) -> None:
        Slots.answers += 1
        self.send_response(200)
        self.end_headers()
        free = 2 if Slots.answers >= 3 else 0
        self.wfile.write(json.dumps({"slots-available": free}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow
def test_slots_that_become_free_are_waited_for(small: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Slots) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        cluster = FlinkTarget(f"127.0.0.1:{server.server_port}")
        Slots.answers = 0
        assert parallelism_of(cluster, load(small).engine) == 2
        with pytest.raises(ConfigError, match="needs 3 free slots and the cluster has 2"):
            parallelism_of(replace(cluster, parallelism=3), load(small).engine, patience=0.1)
        with pytest.raises(ConfigError, match="that of the last job here: it needs 3 free slots"):
            parallelism_of(cluster, load(small).engine, before=3, patience=0.1)
        assert parallelism_of(cluster, load(small).engine, before=3, lent=1) == 3
        assert parallelism_of(replace(cluster, parallelism=1), load(small).engine, before=3) == 1
        server.shutdown()


def test_of_a_long_text_only_our_own_words_are_told() -> None:
    text = (
        "java.lang.RuntimeException: Error from SDK worker: PRIVATE\n"
        "weir.dpcore.errors.CodecError: stored state up to tick 4 was made with other secrets. "
        "[while running 'Tick']\nPRIVATE"
    )
    assert refusal_in(text) == "stored state up to tick 4 was made with other secrets."
    assert refusal_in("ValueError: PRIVATE") is None
    ended = contradiction("/out/_held/ticks-1-2.csv", "/out", "epsilon 2")
    kind = f"{type(ended).__module__}.{type(ended).__qualname__}"
    assert refusal_in(f"RuntimeError: Traceback ...\n{kind}: {ended} [while running 'x']") == str(
        ended
    )


GONE = """\
org.apache.flink.runtime.client.JobInitializationException: Could not start the JobMaster.
\tat org.apache.flink.runtime.jobmaster.DefaultJobMasterServiceProcess.lambda$new$0
Caused by: java.util.concurrent.CompletionException: java.lang.IllegalStateException: x
Caused by: java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint file:/s. \
Cannot map state for operator 1 to the new program, because the operator is not available in it.
"""
SPOKEN = "java.lang.RuntimeException: Error received from SDK harness: Traceback ... PRIVATE"


def test_flink_tells_its_cause_where_no_worker_spoke() -> None:
    told = cause_in(GONE)
    assert told is not None and told.words.startswith("IllegalStateException: Failed to rollback")
    assert "go on with the options that it had" in told.words and not told.unreadable
    broken = "java.lang.Exception: x\nCaused by: java.io.EOFException: Unexpected end of file\n\tat"
    assert cause_in(broken) == ("EOFException: Unexpected end of file", True)
    other = "java.lang.NegativeArraySizeException: -1\n\tat org.apache.{}.X"
    assert cause_in(other.format("flink.runtime.checkpoint.metadata.Metadata")) is not None
    for private in (
        SPOKEN,
        f"{GONE}Caused by: {SPOKEN}",
        "some.other.Exception: PRIVATE",
        other.format("beam.sdk"),
        "",
    ):
        assert cause_in(private) is None


@pytest.mark.parametrize(
    "engine",
    ["{parallelism: 0}", "{bundle_events: 0}", "{bundle_time: 0s}", "{checkpoint_every: 10ms}"],
)
def test_senseless_settings_are_refused(small: Path, engine: str) -> None:
    with pytest.raises(ConfigError, match="engine"):
        load(small, [f"engine={engine}"])
