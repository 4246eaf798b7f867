"""What a run says in the log: our own words, one JSON object a line if asked, and no content."""

from __future__ import annotations

import json
import logging
import threading

import pytest

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
