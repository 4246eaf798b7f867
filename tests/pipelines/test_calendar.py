"""Clocks of the calendar from the command line: plan, run, status, report, dry run, ledger."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.accounting import price
from weir.pipelines.results.plan_file import Ruler
from weir.pipelines.results.run import ResultFolder

CLOCK = (
    "clock: {start: 2024-01-01T00:00:00, period: 1 month, zone: Europe/Berlin, "
    "end: 2024-10-01T00:00:00}"
)


@pytest.fixture
def job(small: Path) -> Path:
    """The small job on months of Berlin, with an event a day, and one just before a month of UTC
    that is within one of Berlin."""
    lines = small.read_text().splitlines()
    text = "\n".join(CLOCK if line.startswith("clock:") else line for line in lines)
    small.write_text(text.replace("protect_for: 8 ticks", "protect_for: 3 months") + "\n")
    rows = [f"2024-{m:02d}-{d:02d}T12:00:00Z,{m}-{d},north,1" for m in range(1, 10) for d in (1, 9)]
    rows.append("2024-05-31T22:30:00Z,edge,south,50")
    (small.parent / "events.csv").write_text("\n".join(["at,id,store,amount", *rows]) + "\n")
    return small


@pytest.mark.slow
def test_months_are_planned_run_and_drawn(weir: Weir, job: Path) -> None:
    planned = " ".join(weir("plan", job, "--full").stdout.split())
    assert "protection horizon 3 ticks (3 months)" in planned
    assert "a tick every 1 month from 2024-01-01T00:00:00" in planned
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert "2024-07-01 2024-08-01 2024-09-01" in shown and "protection horizon 3 months" in shown
    rows = result_rows(job.parent / "out")
    starts = {row["tick"]: row["tick_start"] for row in rows}
    assert starts[5] == datetime(2024, 5, 31, 22, tzinfo=UTC) and len(starts) == 9
    status = json.loads(weir("status", job.parent / "out", "--json").stdout)
    told = status[0] if isinstance(status, list) else status
    assert "2024-09-30T22:00:00" in json.dumps(told)
    report = weir("report", job.parent / "out")
    assert report.exit_code == 0, report.output
    assert "2024-09-01" in report.stdout
    page = (job.parent / "out" / "report.html").read_text()
    assert "2024-01-01 to 2024-09-01: 9 ticks of 1 month of Europe/Berlin" in page
    run = ResultFolder.open(job.parent / "out")
    assert [run.ruler.place(run.tick_start(tick)) for tick in range(9)] == list(range(9))


def test_places_between_ticks_of_unequal_length() -> None:
    clock = {"period": {"months": 1, "zone": "UTC", "first": 648}}
    ruler = Ruler.of_plan({"clock": clock})
    assert ruler is not None and Ruler.of_plan({"clock": {"period": 60}}) is None
    middle = int(datetime(2024, 2, 15, 12, tzinfo=UTC).timestamp()) * 1_000_000
    assert ruler.place(middle) == 1.5 and ruler.place(ruler.at(14)) == 14.0


@pytest.mark.slow
def test_the_events_of_a_rehearsal_fill_the_clock(weir: Weir, job: Path) -> None:
    result = weir("rehearse", job)
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_an_event_of_a_zone_s_month_counts_there(weir: Weir, job: Path) -> None:
    """Half an hour into June in Berlin, at the end of May in UTC."""
    loud = ("--set", "privacy.epsilon=100000", "--set", "privacy.delta=0.1")
    assert weir("run", job, *loud).exit_code == 0
    paid = {
        row["tick"]: row["value"][0]
        for row in result_rows(job.parent / "out")
        if row["key"] == "south" and row["name"] == "paid"
    }
    assert paid[5] - paid[4] > 40 and abs(paid[4]) < 10


@pytest.mark.slow
def test_a_ledger_asks_how_long_where_lengths_differ(weir: Weir, job: Path) -> None:
    with job.open("a") as file:
        file.write(
            "ledger: {sqlite: ledger.db, scope: all, budget: {epsilon: 4, delta: 1e-5}}\n"
            "secret: {file: secret.key}\n"
        )
    (job.parent / "secret.key").write_text("ab" * 32)
    (job.parent / "secret.key").chmod(0o600)
    refused = weir("run", job)
    assert refused.exit_code == 2 and "ledger.protect_for" in refused.stderr
    result = weir("run", job, "--set", "ledger.protect_for=93d")
    assert result.exit_code == 0, result.output


def users_of(job: Path, per: str, ledger: str = "") -> None:
    """The job over users, with a ledger."""
    text = job.read_text().replace("id: id}", "unit: id}")
    people = f"unit: user, per: {per}, contributions: {{ticks: 1, keys: 1, events: 2}}}}"
    text = text.replace("3 months}", f"3 months, {people}")
    text = text.replace("paid: {sum: amount, clip:", "paid: {sum: amount, clip_user:")
    where = "sqlite: l.db, scope: all, budget: {epsilon: 20, delta: 1e-5}, protect_for: 93d"
    job.write_text(text + f"ledger: {{{where}{ledger}}}\nsecret: {{file: secret.key}}\n")
    (job.parent / "secret.key").write_text("ab" * 32)
    (job.parent / "secret.key").chmod(0o600)


@pytest.mark.slow
@pytest.mark.parametrize("ledger", ["", ", per: 1 month", ", per: 3 months", ", per: all"])
def test_users_of_a_zone_s_months_enter_a_ledger(weir: Weir, job: Path, ledger: str) -> None:
    users_of(job, "1 month", ledger)
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    scope = json.loads(weir("ledger", "show", job, "--json").stdout)["scopes"][0]
    assert scope["per"] == (ledger.rpartition(": ")[2] or "1 month")


def test_a_ledger_knows_the_days_of_a_zone(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this machine has other rules than the plan, no period can be told."""
    users_of(job, "1 month")
    begins = price.calendar_start
    monkeypatch.setattr(price, "calendar_start", lambda *label: begins(*label) + 3_600_000_000)
    refused = weir("run", job)
    assert refused.exit_code == 2 and "clock.zone" in refused.stderr, refused.output
    assert "tzdata" in refused.stderr


def test_a_folder_without_its_plan_is_not_drawn_at_wrong_dates(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    (job.parent / "out" / "_plan.json").unlink()
    result = weir("report", job.parent / "out")
    assert result.exit_code == 2 and "_plan.json" in result.stderr


def test_resuming_under_other_rules_of_the_zone_is_refused(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    (job.parent / "out" / "_COMPLETE").unlink()
    told = job.parent / "out" / "_plan.json"
    assert "edges" in json.loads(told.read_text())["clock"]["period"]
    result = weir("run", job, "--set", "clock.zone=Europe/Paris")
    assert result.exit_code == 2 and "another plan" in result.stderr
