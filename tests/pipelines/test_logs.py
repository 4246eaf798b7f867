"""What a run says in the log: our own words, one JSON object a line if asked, and no content."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.pipelines.cli.base import discreet


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with discreet(form="json"):
        log = logging.getLogger("weir.pipelines.x")
        log.info("read %d", 3, extra={"fields": {"events": 3}})
        try:
            raise ValueError("PRIVATE")
        except ValueError:
            log.warning("no", exc_info=True)
        logging.getLogger("apache_beam").error("PRIVATE")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["severity"], line["message"]) for line in lines] == [
        ("INFO", "read 3"),
        ("WARNING", "no"),
    ]
    assert lines[0]["events"] == 3 and lines[0]["logger"] == "weir.pipelines.x"
    assert lines[0]["time"].endswith("+00:00") and "PRIVATE" not in str(lines)


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with discreet():
        logging.getLogger("weir.pipelines.x").info("quiet")
        logging.getLogger("weir.pipelines.x").warning("mind this")
    assert capsys.readouterr().err == "weir: note: mind this\n"


def test_quiet_and_verbose(weir: Weir, small: Path) -> None:
    """A run that draws a secret says so in a note, and sums itself up."""
    (small.parent / "events.csv").write_text("id,at,store,amount\n1,2024-01-01T00:10:00Z,north,9\n")
    small.write_text(small.read_text().replace("events.csv", f"{small.parent}/events.csv"))
    small.write_text(small.read_text().replace("out/", f"{small.parent}/out/"))
    usual = weir("run", small)
    assert usual.exit_code == 0 and "weir: note: " in usual.stderr
    assert "Last releases" in usual.stdout and "weir run" not in usual.stderr
    quiet = weir("-q", "run", small, "--new")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    bad = weir("-q", "plan", small, "--set", "privacy.epsilon=-1")
    assert bad.exit_code == 2 and bad.stderr.startswith("weir: refused: privacy.epsilon = -1")
    both = weir("-q", "-v", "plan", small)
    assert both.exit_code == 2 and "contradicts --verbose" in both.stderr


def test_verbose_text_has_notes_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with discreet(least=logging.INFO):
        logging.getLogger("weir.pipelines.x").info("half of it")
        logging.getLogger("apache_beam").info("PRIVATE")
    assert capsys.readouterr().err == "weir: note: half of it\n"


def test_a_thread_that_fails_tells_its_kind_only(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("PRIVATE")

    before = threading.excepthook
    with discreet(form="json"):
        thread = threading.Thread(target=fail, name="reader")
        thread.start()
        thread.join()
    said = capsys.readouterr().err
    assert "reader ended with ValueError" in said and "PRIVATE" not in said
    assert threading.excepthook is before
