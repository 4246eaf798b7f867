"""``weir status``: Flink's answers in one page, folders of results, and clear refusals."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.engines.flink import FlinkRest
from weir.pipelines.runners.state_folder import METADATA, StateFolder
from weir.pipelines.show import findings, status
from weir.pipelines.show.findings import alarms_of
from weir.transforms.runtime import acked, fence
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.pubsub_client import Gone, gone
from weir.transforms.runtime.reasons import counter_of
from weir.transforms.sinks import place

NOT_A_NUMBER = "not_a_number_in_price___2eeur"
STEP = "0.[3]Tick.weir_"


def job(name: str, number: int, state: str, end: int) -> dict[str, Any]:
    return {
        "jid": name, "name": f"weir-shop-{number}", "state": state, "start-time": number,
        "end-time": end,
    }  # fmt: skip


OTHER = {**job("c3", 3, "RUNNING", -1), "name": "other"}
ANSWERS: dict[str, Any] = {
    "/jobs/overview": {"jobs": [job("a1", 2, "RUNNING", -1), job("b2", 1, "FAILED", 2), OTHER]},
    "/jobs/a1": {"state": "RUNNING", "vertices": [{"id": "v", "name": "Tick"}]},
    "/jobs/a1/checkpoints": {
        "counts": {"completed": 7, "failed": 1},
        "latest": {
            "completed": {
                "latest_ack_timestamp": 1_700_000_000_000,
                "state_size": 2048,
                "end_to_end_duration": 31,
                "external_path": "file:/state/chk-7",
            }
        },
    },
    "/jobs/a1/metrics": [{"id": "numRestarts", "value": "2"}],
    "/jobs/a1/vertices/v/watermarks": [
        {"id": "0.currentInputWatermark", "value": "5000"},
        {"id": "1.currentInputWatermark", "value": "-9223372036854775808"},
    ],
    "/jobs/a1/vertices/v/subtasks/metrics": [
        {"id": f"{STEP}events", "sum": 40.0, "max": 30.0},
        {"id": f"{STEP}{NOT_A_NUMBER}", "sum": 3.0, "max": 2.0},
        {"id": f"{STEP}last_tick", "sum": 17.0, "max": 9.0},
        {"id": f"{STEP}unread_records_0", "sum": 6.0, "max": 4.0},
        {"id": f"{STEP}unread_records_11", "sum": 1500.0, "max": 1500.0},
        {"id": "0.numRecordsIn", "sum": 1.0, "max": 1.0},
    ],
}


class Flink(BaseHTTPRequestHandler):
    """Answers as Flink does, for one job."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        answer = ANSWERS[path]
        if isinstance(answer, list) and query:
            asked = query.removeprefix("get=").replace("%5B", "[").replace("%5D", "]").split("%2C")
            answer = [entry for entry in answer if entry["id"] in asked]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def flink() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Flink) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_job_on_flink(weir: Weir, flink: str) -> None:
    result = weir("status", "--flink-master", flink, "--json")
    assert result.exit_code == 0, result.output
    (job,) = json.loads(result.stdout)
    assert (job["name"], job["state"], job["restarts"]) == ("weir-shop-2", "RUNNING", 2)
    assert job["operator"] == {"events": 40, NOT_A_NUMBER: 3} and job["last_tick"] == 9
    assert job["unread"] == {"0": 4, "11": 1500}
    assert job["checkpoints"]["completed"] == 7 and job["checkpoints"]["bytes"] == 2048
    words = " ".join(weir("status", "--flink-master", flink).stdout.split())
    assert "3 price_.eur: not a number" in words and "40 events read" in words
    assert "records not read yet 1,504, 1,500 of them in partition 11" in words
    assert "7 whole, 1 failed" in words and "last tick released 9" in words
    assert "file:/state/chk-7" in words


@pytest.mark.slow
def test_the_slowest_step_says_how_far_the_watermark_is_behind(flink: str) -> None:
    assert findings.lag_of(FlinkRest(f"http://{flink}"), "a1", now=7.5) == 2.5


@pytest.mark.slow
def test_the_folder_of_checkpoints_knows_its_job(weir: Weir, flink: str, tmp_path: Path) -> None:
    noted = {"url": f"http://{flink}", "job": "a1", "name": "weir-shop-1"}
    (tmp_path / "_job.json").write_text(json.dumps(noted))
    assert json.loads(weir("status", tmp_path, "--json").stdout)[0]["job"] == "a1"


def stopped(folder: Path, url: str, job: str, sink: Path) -> None:
    """A folder of state as a job leaves it that was killed with its Flink."""
    state = StateFolder(str(folder / "state"))
    state.make()
    epoch = fence.claim(state.path, "weir-shop-1").epoch
    state.remember(url, job, "weir-shop-1", 0.5, 2, epoch, str(sink))
    newest = Path(state.path) / "checkpoints" / "1a" / "chk-7" / METADATA
    newest.parent.mkdir(parents=True)
    newest.write_bytes(b"")
    os.utime(newest, (1.7e9, 1.7e9))
    for path, content in (
        (kept_counts.FOLDER, {"events": 40, "source_errors": 2}),
        (acked.FOLDER, {"turn": 3, **dict.fromkeys(("began", "at"), "2023-11-14T22:13:19+00:00")}),
    ):
        (Path(state.path) / path).mkdir()
        (Path(state.path) / path / f"{epoch:06d}-x.json").write_text(json.dumps(content))
    sink.mkdir(exist_ok=True)
    place.put(place.join(str(sink), place.file_name(0, 7, "parquet")), b"")


@pytest.mark.parametrize("answers", [False, True])
def test_without_its_flink_the_folders_tell_and_that_no_job_runs(
    weir: Weir, flink: str, tmp_path: Path, answers: bool
) -> None:
    url = f"http://{flink}" if answers else "http://127.0.0.1:1"
    stopped(tmp_path, url, "gone", tmp_path / "out")
    result = weir("status", tmp_path / "state", "--json")
    assert result.exit_code == 0, result.output
    (job,) = json.loads(result.stdout)
    assert (job["name"], job["job"], job["last_tick"]) == ("weir-shop-1", "gone", 7)
    assert job["checkpoints"]["place"].endswith("chk-7")
    assert job["checkpoints"]["last"] == "2023-11-14T22:13:20+00:00"
    assert job["acknowledged"] == "2023-11-14T22:13:19+00:00"
    assert job["operator"] == {"events": 40, "source_errors": 2}
    why = f"No job is known to run: Flink at {url} does not answer"
    if answers:
        why = f"No job runs: Flink at {url} knows no job gone"
    assert job["alarms"][0] == f"{why}. Start it again with --resume latest."
    words = " ".join(weir("status", tmp_path / "state").stdout.split())
    for said in (why, "last tick released 7", "chk-7", "40 events read"):
        assert said in words


def test_a_job_that_was_ended_says_why(
    weir: Weir, flink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = {"jobs": [job("a1", 2, "CANCELED", 5)]}
    monkeypatch.setitem(ANSWERS, "/jobs/overview", over)
    stopped(tmp_path, f"http://{flink}", "a1", tmp_path / "out")
    mine = fence.Fence(fence.Claim(str(tmp_path / "state"), 1))
    with pytest.raises(Gone):
        mine.fail(gone("projects/acme-1/subscriptions/s", "NOT_FOUND"))
    (found,) = json.loads(weir("status", tmp_path / "state", "--json").stdout)
    said = (
        "No job runs: it is CANCELED. It ended: projects/acme-1/subscriptions/s answers NOT_FOUND"
    )
    assert found["state"] == "CANCELED" and found["alarms"][0].startswith(said)


def test_right_after_a_start_the_sink_tells_the_last_tick(
    weir: Weir, flink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ANSWERS, "/jobs/a1/vertices/v/subtasks/metrics", [])
    monkeypatch.setitem(ANSWERS, "/jobs/a1/vertices/v/watermarks", [])
    stopped(tmp_path, f"http://{flink}", "a1", tmp_path / "out")
    (job,) = json.loads(weir("status", tmp_path / "state", "--json").stdout)
    assert (job["state"], job["last_tick"]) == ("RUNNING", 7)
    assert not any("No job" in alarm for alarm in job["alarms"])


def test_a_folder_of_a_stream_says_when_it_was_started_and_who_knows_more(
    weir: Weir, tmp_path: Path
) -> None:
    (tmp_path / "_plan.json").write_text(json.dumps({"name": "shop", "ticks": None}))
    assert "last started" not in weir("status", tmp_path).stdout
    fence.claim(str(tmp_path), "weir-shop-1")
    words = " ".join(weir("status", tmp_path).stdout.split())
    assert "last started" in words and "whether its job runs" in words


@pytest.mark.slow
def test_what_a_stream_refuses_is_told_in_red_and_stops_nothing(
    weir: Weir, flink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {
        "unreadable_time": 30, counter_of("at", "unreadable_time"): 30,
        "not_a_number": 4, counter_of("rating", "not_a_number"): 4,
        counter_of("rating", "missing"): 36, counter_of("tip", "missing"): 39,
    }  # fmt: skip
    path = "/jobs/a1/vertices/v/subtasks/metrics"
    more = [{"id": f"{STEP}{name}", "sum": n, "max": n} for name, n in counted.items()]
    monkeypatch.setitem(ANSWERS, path, [*ANSWERS[path], *more])
    noted = {"url": f"http://{flink}", "job": "a1", "name": "weir-shop-1"}

    def alarms(limit: float | None = None) -> str:
        known = noted if limit is None else {**noted, "refused": limit}
        (tmp_path / "_job.json").write_text(json.dumps(known))
        result = weir("status", tmp_path, "--json")
        assert result.exit_code == 0
        (job,) = json.loads(result.stdout)
        assert job["state"] == "RUNNING"
        return "\n".join(job["alarms"])

    unread = "rating: no readable value in any of 40 events"
    assert unread in alarms(0.5) and "tip" not in alarms() and "of 70" not in alarms(0.5)
    assert "30 of 70 records were rejected" in alarms(0.25) and unread in alarms(0.25)
    assert "limits.refused = 0.05 allows 3" in alarms()  # where it does not know the config
    words = " ".join(weir("status", tmp_path).stdout.split())
    assert unread in words and "4 rating: not a number" in words


def test_red_is_for_what_is_wrong() -> None:
    assert alarms_of({"events": 40, counter_of("tip", "missing"): 39}, 0.5) == ()
    assert alarms_of({}, 0.5) == () and alarms_of({counter_of("tip", "missing"): 0}, 0.5) == ()
    assert len(alarms_of({"events": 4, "malformed": 5}, 0.5)) == 1
    drawn = Console(file=io.StringIO(), force_terminal=True, width=80)
    entry = {"name": "x", "folder": "out", "ticks": 1, "last_tick": 0, "behind_seconds": None}
    status.render([{**entry, "complete": False, "alarms": ["tip: gone."]}], drawn)
    told = cast(io.StringIO, drawn.file).getvalue()
    assert "\x1b[1;31mtip: gone.\x1b[0m" in told


@pytest.mark.slow
def test_a_folder_of_results(weir: Weir, small: Path) -> None:
    (small.parent / "events.csv").write_text("at,id,store,amount\n")
    assert weir("run", small).exit_code == 0
    (found,) = json.loads(weir("status", small.parent / "out", "--json").stdout)
    assert (found["last_tick"], found["ticks"], found["complete"]) == (23, 24, True)
    assert "24 ticks of 24" in weir("status", small.parent / "out").stdout


def test_a_folder_without_a_release_yet(tmp_path: Path, weir: Weir) -> None:
    (tmp_path / "_plan.json").write_text(json.dumps({"name": "shop", "ticks": 5}))
    assert "nothing yet" in weir("status", tmp_path).stdout


@pytest.mark.parametrize("words", [[], ["--flink-master", "127.0.0.1:1"], ["nowhere"]])
def test_what_cannot_be_looked_at(weir: Weir, words: list[str]) -> None:
    assert weir("status", *words).exit_code == 2


def test_looking_again_and_again(
    flink: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [1, 1]

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        if not left:
            raise KeyboardInterrupt
        left.pop()

    status.watch(None, flink, 0.5, as_json=True, sleep=sleep)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["jobs"][0]["job"] for line in lines] == ["a1"] * 3
    left = [1]
    status.watch(None, flink, 0.5, sleep=sleep)
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("40 events read") == 2 and "every 0.5 s; Ctrl-C ends it" in told


def test_a_job_that_cannot_be_asked_for_a_while_is_asked_again(
    flink: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [status.look(None, flink), ConfigError("--flink-master", "h", "does not answer."), []]

    def look(place: str | None, master: str | None) -> Any:
        found = answers.pop(0)
        if isinstance(found, ConfigError):
            raise found
        return found

    def sleep(seconds: float) -> None:
        if not answers:
            raise KeyboardInterrupt

    monkeypatch.setattr(status, "look", look)
    status.watch(None, flink, 2, as_json=True, sleep=sleep)
    first, gone, back = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["error"] == "" == back["error"]
    assert gone["jobs"] is None and "does not answer" in gone["error"]
    with pytest.raises(ConfigError):  # what was never there is refused as ever
        monkeypatch.undo()
        status.watch(None, "127.0.0.1:1", 2)


def test_events_a_second_are_of_two_looks_at_one_job() -> None:
    rates = status.Rates()
    entry = {"job": "a1", "operator": {"events": 40}}
    assert rates.added([entry], now=1.0) == [entry]
    more = {"job": "a1", "operator": {"events": 140}}
    assert rates.added([more], now=3.0)[0]["events_per_second"] == 50.0
    assert rates.added([entry], now=4.0) == [entry], "a job that counts again has no rate"
    assert rates.added([{"folder": "out"}]) == [{"folder": "out"}]
