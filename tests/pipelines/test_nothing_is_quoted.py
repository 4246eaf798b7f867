"""Every reader is fed files made of secrets; whatever a command leaves behind is searched for them.

A new format joins by being in ``FORMATS``: it needs a writer in ``secret_files``.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.secret_files import COLUMNS, FOREIGN, MAIL, NAME, NUMBER, WORDS, WRITERS, wrong
from tests.pipelines.secret_files import folder as files_of
from tests.runners.secrets_search import forms_of, search
from weir.transforms.formats.registry import file_formats

FORMS = [form for word in WORDS for form in forms_of(word.encode())]
FORMS += [form for form in (word.encode("latin-1") for word in WORDS) if form not in FORMS]
FORMS += [json.dumps(FOREIGN)[1:-1].encode(), repr(FOREIGN.encode())[2:-1].encode()]

JOB = (
    SMALL.replace("{csv: events.csv}", "{FORM: PATH}")
    .replace("time: at", "time: at, unit: user_id")
    .replace("protect_for: 8 ticks", "protect_for: 8 ticks, unit: event")
    .replace("{parquet: out/}", "{csv: out/}")
)


@pytest.fixture
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for events, away from everything that commands write."""
    return tmp_path_factory.mktemp("events")


def checked(result: Result, log: pytest.LogCaptureFixture | None = None) -> Result:
    """Looks through what a command said; a log is all that any library wrote."""
    told = result.stdout + result.stderr + (log.text if log is not None else "")
    found = [form for form in FORMS if form in told.encode()]
    assert not found, f"{found[0]!r} in {told[:3000]}"
    # One sentence, and no defect of ours: those have nothing to say but "failed: KeyError".
    assert "Error; weir --debug" not in result.stderr, result.stderr
    assert "Traceback" not in told
    return result


def config(place: Path, form: str, path: Path, more: str = "") -> Path:
    made = place / "job.yaml"
    source = f"{form}: {path}{more}"
    made.write_text(JOB.replace("FORM: PATH", source) + "dead_letters: {csv: dead/}\n")
    return made


def test_every_format_has_a_writer() -> None:
    assert set(WRITERS) == set(file_formats())


@pytest.mark.parametrize("form", file_formats())
def test_the_search_finds_what_it_looks_for(form: str, tmp_path: Path) -> None:
    for name, data in files_of(form).items():
        (tmp_path / name).write_bytes(data)
    found = {path.name for path in search([tmp_path], FORMS)}
    packed = {name for name in files_of(form) if name.endswith((".gz", f"e.{form}"))}
    assert found == set(files_of(form)) - packed


@pytest.mark.slow
@pytest.mark.parametrize("form", file_formats())
def test_a_run_over_broken_files_tells_nothing(
    weir: Weir, form: str, tmp_path: Path, events: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, data in files_of(form).items():
        (events / name).write_bytes(data)
    job = config(tmp_path, form, events / "*")
    checked(weir("plan", job, "--full"))
    checked(weir("plan", job, "--json"))
    log = "json" if form in ("csv", "parquet") else "text"
    sets = ("--set", "limits={line_bytes: 100000, refused: 1}")  # most of their bytes are lost
    ran = checked(weir("run", job, "--log-format", log, *sets))
    if form != "ndjson":  # which has no header that could be missing
        assert ran.exit_code == 2 and f"e.{form}" in ran.stderr, ran.stderr
        (events / f"e.{form}").unlink()
        ran = checked(weir("run", job, "--log-format", log, *sets))
    assert ran.exit_code == 1 and "could not be read" in ran.stderr, ran.stderr
    ran = checked(weir("run", job, "--log-format", log, *sets, "--publish"))
    assert ran.exit_code == 0, ran.stderr
    letters = "".join(path.read_text() for path in (tmp_path / "dead").glob("*.csv"))
    assert "malformed" in letters or form == "avro"
    for words in (
        ("status", tmp_path / "out"),
        ("status", tmp_path / "out", "--json"),
        ("report", tmp_path / "out"),
        ("diff", job, job),
    ):
        assert checked(weir(*words)).exit_code == 0
    out, err = capfd.readouterr()
    assert not [form for form in FORMS if form in (out + err).encode()]
    assert search([tmp_path], FORMS) == []


@pytest.mark.slow
def test_a_run_that_meets_a_file_without_a_header(
    weir: Weir, tmp_path: Path, events: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = files_of("csv")["a.csv"]
    (events / "a.csv").write_bytes(good)
    (events / "b.csv").write_bytes(good.split(b"\n", 1)[1])
    caplog.set_level(logging.WARNING, "pipelines")
    failed = checked(weir("run", config(tmp_path, "csv", events / "*")))
    assert failed.exit_code != 0 and "b.csv" in failed.stderr
    assert search([tmp_path], FORMS) == []


@pytest.mark.slow
def test_a_run_over_a_file_without_a_header(weir: Weir, tmp_path: Path, events: Path) -> None:
    body = files_of("csv")["a.csv"].split(b"\n", 1)[1]
    path = events / "a.csv"
    path.write_bytes(body.decode().encode("utf-16"))
    how = f", header: false, columns: [{', '.join(COLUMNS)}], encoding: utf-16"
    job = config(tmp_path, "csv", path, f"{how}, quoted_newlines: true")
    held = checked(weir("run", job))  # many of its events are of no declared key
    assert held.exit_code == 1 and "unknown key" in held.stderr
    ran = checked(weir("run", job, "--set", "limits.refused=1", "--set", "sink.csv=two/"))
    assert ran.exit_code == 0 and "unknown key" in ran.stderr
    assert search([tmp_path], FORMS) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", file_formats())
def test_what_is_refused_is_refused_without_its_words(
    weir: Weir, form: str, tmp_path: Path, events: Path
) -> None:
    for name, (taken_for, data) in wrong(form).items():
        path = events / name
        path.write_bytes(data)
        job = config(tmp_path, taken_for, path)
        ran = checked(weir("run", job))
        if taken_for != "ndjson":
            # A file without objects is read as NDJSON is: line by line, each rejected.
            assert ran.exit_code != 0, name
            assert path.name in ran.stderr, ran.stderr
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.rmtree(tmp_path / "dead", ignore_errors=True)
    assert search([tmp_path], FORMS) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", file_formats())
def test_init_and_feed_write_nothing_down(
    weir: Weir, form: str, tmp_path: Path, events: Path
) -> None:
    every = {**files_of(form), **{name: data for name, (_, data) in wrong(form).items()}}
    made = 0
    for name, data in every.items():
        path = events / name
        path.write_bytes(data)
        for options in (
            (),
            ("--no-header",),
            ("--encoding", "latin-1"),
            ("--columns", "at,amount"),
        ):
            result = checked(
                weir("init", path, "-o", tmp_path / f"{name}.yaml", "--force", *options)
            )
            made += result.exit_code == 0
        job = config(tmp_path, form, path)
        checked(weir("feed", job, "--from", path, "--to", events / "fed.ndjson", "--rate", 1e9))
        checked(weir("feed", job, "--from", path, "--to", events / "fed.ndjson", "--speed", 1e9))
    assert made
    assert search([tmp_path], FORMS) == []


def test_secrets_are_such() -> None:
    assert not {NAME, MAIL, NUMBER} & set(JOB.split())
