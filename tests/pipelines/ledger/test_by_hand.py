"""``weir ledger show | add | close | export``."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.ledger.conftest import asking, job_of, section
from weir.dpcore.accounting import calibrate
from weir.pipelines.config.job import json_schema, load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger.reservations import reserve


@pytest.fixture
def entered(tmp_path: Path, where: tuple[str, str]) -> Path:
    """A config whose plan has an entry that was never started."""
    job = job_of(tmp_path / "job", section(where))
    found = load(job)
    assert found.ledger is not None
    reserve(found.ledger, asking(plan_of(found), "mark"))
    return job


def facts(weir: Weir, job: Path) -> dict[str, object]:
    result = weir("ledger", "show", job, "--json")
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)["scopes"]
    return dict(told)


@pytest.mark.slow
def test_it_shows_what_is_spent_and_by_whom(
    weir: Weir, entered: Path, where: tuple[str, str]
) -> None:
    told = facts(weir, entered)
    assert told["spent"] == pytest.approx(1.0) and told["accounting"] == "gdp"
    (entry,) = told["entries"]  # type: ignore[misc]
    assert (entry["name"], entry["state"]) == ("shop", "reserved")
    assert (entry["from"], entry["to"]) == ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z")
    for place in (entered, where[1]):  # a config, or the ledger itself
        page = weir("ledger", "show", place)
        assert page.exit_code == 0, page.output
        text = " ".join(page.stdout.split())
        for part in ("budget of customers", "1 is spent of epsilon 1.3", "chain of its 3 records",
                     "is whole", "one event (add_remove), for 8h", "reserved"):  # fmt: skip
            assert part in text, part


@pytest.mark.slow
def test_others_spend_too(weir: Weir, entered: Path) -> None:
    words = ("ledger", "add", entered, "--epsilon", 0.5, "--delta", 1e-7, "--note", "survey")
    words = (*words, "--kind", "gdp", "--to", "2024-01-01T12:00:00Z", "--drawn-after")
    added = weir(*words)
    assert added.exit_code == 0 and "booked" not in added.stderr
    told = facts(weir, entered)
    mu = [calibrate.gdp_mu(1.0, 1e-6), calibrate.gdp_mu(0.5, 1e-7)]
    together = calibrate.gdp_epsilon(sum(x * x for x in mu) ** 0.5, 1e-6)
    assert told["spent"] == pytest.approx(together, rel=1e-6)
    spans = [(span["from"], span["to"]) for span in told["spans"]]  # type: ignore[attr-defined]
    assert spans == [
        (None, "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00Z", "2024-01-01T12:00:00Z"),
        ("2024-01-01T12:00:00Z", "2024-01-02T00:00:00Z"),
    ]
    assert "entry" in weir("ledger", "show", entered).stdout


@pytest.mark.slow
def test_of_a_promise_nothing_is_known_of_delta_adds_beside_it(weir: Weir, entered: Path) -> None:
    added = weir(
        "ledger", "add", entered, "--epsilon", 0.1, "--delta", 4e-7, "--note", "x", "--json"
    )
    assert json.loads(added.stdout)["slack"] == pytest.approx(4e-7)
    more = weir(
        "ledger", "add", entered, "--epsilon", 0.1, "--delta", 7e-7, "--note", "y", "--json"
    )
    told = json.loads(more.stdout)
    assert told["spent"] is None and told["left"] == 0.0  # delta is gone
    assert "Unbounded is spent" in weir("ledger", "show", entered).stdout


@pytest.mark.slow
def test_a_gaussian_charge_of_a_part_of_the_stream_is_pure_without_an_assurance(
    weir: Weir, entered: Path
) -> None:
    words = ("ledger", "add", entered, "--epsilon", 0.1, "--delta", 4e-7, "--note", "x")
    added = weir(*words, "--kind", "gdp", "--to", "2024-01-01T12:00:00Z", "--json")
    assert "booked as pure" in added.stderr and "--drawn-after" in added.stderr
    assert json.loads(added.stdout)["slack"] == pytest.approx(4e-7)
    whole = weir(*words, "--kind", "gdp", "--json")  # nobody chooses a part of it
    assert "booked" not in whole.stderr
    assert json.loads(whole.stdout)["slack"] == pytest.approx(4e-7)


def test_deltas_of_charges_by_hand_add_up_over_separate_times(weir: Weir, entered: Path) -> None:
    for month in (1, 3, 5):
        times = ("--from", f"2025-{month:02}-01T00:00:00Z", "--to", f"2025-{month:02}-02T00:00:00Z")
        added = weir(
            *("ledger", "add", entered, "--epsilon", 0.1, "--delta", 2e-7, "--note", "x"),
            *(*times, "--json"),
        )
    assert json.loads(added.stdout)["slack"] == pytest.approx(6e-7)


def test_a_budget_is_changed_by_hand_alone(weir: Weir, entered: Path) -> None:
    assert weir("ledger", "add", entered, "--budget", 2.0, 1e-6).exit_code == 0
    told = facts(weir, entered)
    assert (told["epsilon"], told["spent"]) == (2.0, pytest.approx(1.0))
    assert "ledger.budget.epsilon" in weir("plan", entered).stderr
    assert weir("plan", entered, "--set", "ledger.budget.epsilon=2.0").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--note", "x"], "--epsilon"),
        (["--epsilon", "1"], "--note"),
        (["--epsilon", "1", "--note", " "], "--note"),
        (["--epsilon", "-1", "--note", "x"], "--epsilon"),
        (["--epsilon", "nan", "--note", "x"], "--epsilon"),
        (["--epsilon", "1", "--delta", "2", "--note", "x"], "--delta"),
        (["--epsilon", "1", "--kind", "gdp", "--note", "x"], "--delta"),
        (["--epsilon", "1", "--delta", "1e-7", "--kind", "zcdp", "--note", "x"],
         "ledger.accounting"),
        (["--epsilon", "1", "--note", "x", "--from", "yesterday"], "--from"),
        (["--epsilon", "1", "--note", "x", "--from", "2025-01-01T00:00:00Z", "--to",
          "2024-01-01T00:00:00Z"], "--to"),
        (["--budget", "0", "1e-6"], "--budget"),
        (["--budget", "1", "0"], "ledger.budget.delta"),
        (["--budget", "1", "1e-6", "--epsilon", "1"], "--epsilon"),
        (["--epsilon", "1", "--note", "x", "--scope", "nobody"], "--scope"),
    ],
)  # fmt: skip
def test_what_cannot_be_added_is_refused(
    weir: Weir, job: Path, words: list[str], named: str
) -> None:
    found = load(job)
    assert found.ledger is not None
    reserve(found.ledger, asking(plan_of(found), "mark"))
    before = facts(weir, job)
    refused = weir("ledger", "add", job, *words)
    assert refused.exit_code == 2 and f"refused: {named} " in refused.stderr, refused.stderr
    assert facts(weir, job) == before


def test_what_never_started_is_given_back(weir: Weir, entered: Path) -> None:
    name = facts(weir, entered)["entries"][0]["entry"]  # type: ignore[index]
    words = ("ledger", "close", entered, "--entry", name[:4], "--reason", "typo")
    closed = weir(*words)
    assert closed.exit_code == 0, closed.output
    assert facts(weir, entered)["spent"] == pytest.approx(1.0)
    assert weir(*words, "--release").exit_code == 0
    told = facts(weir, entered)
    assert told["spent"] == 0.0
    (entry,) = told["entries"]  # type: ignore[misc]
    assert (entry["state"], entry["reason"]) == ("released", "typo")
    again = weir(*words, "--release")
    assert again.exit_code == 2 and "given back already" in again.stderr


@pytest.mark.slow
def test_what_may_have_been_seen_is_never_given_back(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    name = facts(weir, job)["entries"][0]["entry"]  # type: ignore[index]
    words = ("ledger", "close", job, "--entry", name, "--reason", "please", "--release")
    out = job.parent / "out"
    for _ in range(2):
        refused = weir(*words)
        assert refused.exit_code == 2 and str(out) in refused.stderr
        assert "a run began under it" in refused.stderr
        shutil.rmtree(out, ignore_errors=True)  # gone or not, it was there
    assert facts(weir, job)["spent"] == pytest.approx(1.0)


@pytest.mark.slow
def test_what_went_to_a_screen_or_table_is_never_given_back(weir: Weir, job: Path) -> None:
    ran = weir("run", job, "--set", "sink={stdout: true}")
    assert ran.exit_code == 0, ran.output
    name = facts(weir, job)["entries"][0]["entry"]  # type: ignore[index]
    refused = weir("ledger", "close", job, "--entry", name, "--reason", "x", "--release")
    assert refused.exit_code == 2 and "a run began under it" in refused.stderr


@pytest.mark.parametrize("entry", ["", "zzz"])
def test_an_entry_that_is_none_is_refused(weir: Weir, entered: Path, entry: str) -> None:
    refused = weir("ledger", "close", entered, "--entry", entry, "--reason", "x")
    assert refused.exit_code == 2 and "--entry" in refused.stderr


def test_entries_are_exported(weir: Weir, entered: Path) -> None:
    note = '=HYPERLINK("x"), "quoted"'
    assert weir("ledger", "add", entered, "--epsilon", 0.1, "--note", note).exit_code == 0
    lines = [json.loads(line) for line in weir("ledger", "export", entered).stdout.splitlines()]
    assert lines == json.loads(weir("ledger", "export", entered, "--json").stdout)
    table = list(
        csv.DictReader(io.StringIO(weir("ledger", "export", entered, "--format", "csv").stdout))
    )
    assert [row["entry"] for row in table] == [line["entry"] for line in lines]
    assert table[1]["note"] == f"'{note}" and lines[1]["note"] == note
    assert json.loads(table[0]["curve"]) == lines[0]["curve"]
    assert lines[0]["curve"][0]["kind"] == "gdp" and lines[0]["plan"] and not lines[1]["plan"]


@pytest.mark.slow
def test_a_broken_chain_is_said(weir: Weir, job: Path, tmp_path: Path) -> None:
    assert weir("run", job).exit_code == 0
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as base, base:
        base.executescript("DROP TRIGGER no_UPDATE")
        base.execute("UPDATE record SET body = replace(body, 'closed', 'released')")
    for words in (
        ("ledger", "show", job),
        ("ledger", "show", tmp_path / "ledger.db"),
        ("ledger", "export", job),
        ("ledger", "add", job, "--epsilon", 1, "--note", "x"),
        ("plan", job),
        ("run", job, "--set", f"sink.parquet={tmp_path / 'b'}"),
    ):
        refused = weir(*words)
        assert refused.exit_code == 2 and "has been changed: record 4" in refused.stderr, words


def test_a_ledger_that_is_not_there_is_said(weir: Weir, job: Path, tmp_path: Path) -> None:
    for words in (("show",), ("export",), ("add", "--epsilon", 1, "--note", "x")):
        refused = weir("ledger", words[0], job, *words[1:])
        assert refused.exit_code == 2 and "is not there yet" in refused.stderr
    assert not (tmp_path / "ledger.db").exists()
    bare = job_of(tmp_path / "bare", "")
    assert "is no section of" in weir("ledger", "show", bare).stderr


@pytest.mark.slow
def test_the_section_is_in_the_schema(weir: Weir) -> None:
    kinds = json_schema()["$defs"]
    for name in ("SqliteLedger", "PostgresqlLedger"):
        fields = kinds[name]["properties"]
        assert {"scope", "budget", "per", "unit", "relation", "protect_for", "accounting"} <= set(
            fields
        )
        assert all(field.get("description") for field in fields.values())


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{sqlite: a.db, budget: {epsilon: 1, delta: 1e-6}}", "ledger.scope"),
        ("{sqlite: a.db, scope: x}", "ledger.budget"),
        ("{sqlite: a.db, scope: ' ', budget: {epsilon: 1, delta: 1e-6}}", "ledger.scope"),
        ("{sqlite: a.db, scope: x, budget: {epsilon: 0, delta: 1e-6}}", "ledger.budget.epsilon"),
        ("{sqlite: a.db, scope: x, budget: {epsilon: 1, delta: 0}}", "ledger.budget.delta"),
        ("{sqlite: a.db, scope: x, budget: {epsilon: 1}}", "ledger.budget.delta"),
        ("{sqlite: a.db, scope: x, per: 1, budget: {epsilon: 1, delta: 1e-6}}", "ledger.per"),
        ("{sqlite: a.db, scope: x, unit: event, per: 1d, budget: {epsilon: 1, delta: 1e-6}}",
         "ledger.per"),
        ("{sqlite: a.db, scop: x, budget: {epsilon: 1, delta: 1e-6}}", "ledger.scop"),
        ("{sqlite: a.db, postgresql: 'postgresql://h/d', scope: x, budget: {epsilon: 1, delta: 0}}",
         "ledger"),
        ("{scope: x, budget: {epsilon: 1, delta: 1e-6}}", "ledger"),
        ("a.db", "ledger"),
    ],
)  # fmt: skip
def test_a_section_that_cannot_be_is_refused(
    weir: Weir, tmp_path: Path, text: str, field: str
) -> None:
    job = job_of(tmp_path / "job", f"ledger: {text}\n")
    refused = weir("plan", job)
    assert refused.exit_code == 2 and f"refused: {field} " in refused.stderr, refused.stderr
    assert not os.path.exists(tmp_path / "job" / "a.db")
