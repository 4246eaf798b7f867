"""Which budget a run is counted in: names that are misspelt or look alike, and events that were
read under another name."""

from __future__ import annotations

import dataclasses
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.ledger.conftest import ROWS, asking, job_of, section
from tests.pipelines.ledger.test_run import bytes_in, out
from tests.pipelines.ledger.test_store import ledger_of
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger import adjustments as hand
from weir.pipelines.ledger.entries import all_entries
from weir.pipelines.ledger.ledger import look_alikes
from weir.pipelines.ledger.reservations import reserve

OTHERS = [row.replace("e", "x", 1) for row in ROWS[1:]]


def scopes(job: Path) -> dict[str, int]:
    """Entries of each scope."""
    store = ledger_of(job).store(create=False)
    assert store is not None
    try:
        return {name: len(book.entries) for name, book in all_entries(store).items()}
    finally:
        store.close()


def write(job: Path, rows: list[str]) -> None:
    (job.parent / "events.csv").write_text("\n".join(rows) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Customers",
        "custumers",
        "customers2",
        "cust\u043emers",  # a Cyrillic letter
        "cust\u00f6mers",
        "\uff43ustomers",  # a wide letter
    ],
)
def test_an_unknown_scope_is_refused_with_the_nearest_and_the_command(
    weir: Weir, tmp_path: Path, where: tuple[str, str], name: str
) -> None:
    job = job_of(tmp_path / "job", section(where))
    assert weir("run", job).exit_code == 0
    for command in ("plan", "run"):
        told = weir(command, job, "--set", f"ledger.scope={name}", "--set", out(job, "b"))
        assert told.exit_code == 2, told.output
        spelt = () if name.isascii() else (ascii(name), "looks like 'customers'")
        for part in ("ledger.scope = ", *spelt, "'customers'", "weir ledger open CONFIG"):
            assert part in told.stderr, told.stderr
    assert scopes(job) == {"customers": 1} and not (job.parent / "b").exists()


@pytest.mark.parametrize("name", ["rat\u200bers", "rat\u00a0ers", "rat\u202eers", "rat\ters"])
def test_a_name_with_letters_that_nobody_sees_is_refused(weir: Weir, job: Path, name: str) -> None:
    told = weir("plan", job, "--set", f'ledger.scope="{name}"')
    assert told.exit_code == 2 and "ledger.scope" in told.stderr, told.output
    assert name not in told.stderr


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("Raters", True),
        ("r\u0430ters", True),
        ("RATERS", True),
        ("rat-ers", True),
        ("rater\u0455", True),
        ("r\u03b1ters", True),
        ("raters2", False),
        ("rate", False),
        ("\u043c\u0438\u0440", False),
    ],
)
def test_names_that_look_alike(name: str, alike: bool) -> None:
    assert (look_alikes(name, ["raters", "staff"]) == ["raters"]) is alike


@pytest.mark.slow
def test_a_scope_is_opened_by_a_command(weir: Weir, tmp_path: Path, where: tuple[str, str]) -> None:
    job = job_of(tmp_path / "job", section(where))
    staff = ("--set", "ledger.scope=staff", "--set", out(job, "b"))
    opened = weir("ledger", "open", job, "--set", "ledger.scope=staff")  # also the first of all
    assert opened.exit_code == 0 and "0 is spent of epsilon 1.3" in opened.stdout, opened.output
    assert scopes(job) == {"staff": 0}
    assert "weir ledger open" in weir("run", job).stderr
    alike = weir("ledger", "open", job, "--set", "ledger.scope=Sta-ff")
    assert alike.exit_code == 2 and "looks like the scope 'staff'" in alike.stderr
    again = weir("ledger", "open", job, "--set", "ledger.scope=staff")
    assert again.exit_code == 2 and "is open already" in again.stderr
    assert weir("ledger", "open", job).exit_code == 0
    assert weir("run", job).exit_code == 0
    write(job, [ROWS[0], *OTHERS])
    other = weir("run", job, *staff, "--secret-file", job.parent / "other.key")
    assert other.exit_code == 0, other.output
    assert scopes(job) == {"customers": 1, "staff": 1}
    bare = job_of(tmp_path / "bare", "")
    assert "is no section of" in weir("ledger", "open", bare).stderr


@pytest.mark.slow
@pytest.mark.parametrize("secret", ["the same", "another", "a fresh one"])
def test_the_same_events_under_another_scope_are_refused_by_name(
    weir: Weir, tmp_path: Path, where: tuple[str, str], secret: str
) -> None:
    """Another plan, another secret, another place, another name of the file."""
    job = job_of(tmp_path / "job", section(where))
    assert weir("run", job).exit_code == 0
    staff = ["--set", "ledger.scope=staff", "--set", out(job, "b")]
    assert weir("ledger", "open", job, *staff).exit_code == 0
    (job.parent / "events.csv").rename(job.parent / "copy.csv")
    staff += ["--set", f"source.csv={job.parent / 'copy.csv'}"]
    staff += {
        "the same": [],
        "another": ["--secret-file", str(job.parent / "other.key")],
        "a fresh one": ["--set", "secret=null"],
    }[secret]
    for more in ((), ("--set", "aggregates.paid.clip=[0, 60]"), ("--set", "limits.line_bytes=99")):
        told = weir("run", job, *staff, *more)
        assert told.exit_code == 2 and "under the scope 'customers'" in told.stderr, told.output
        assert "--shares" in told.stderr and not (job.parent / "b").exists()
    assert scopes(job) == {"customers": 1, "staff": 0}


@pytest.mark.slow
def test_scopes_of_different_people_may_share_events(weir: Weir, job: Path) -> None:
    """Buyers and sellers of the same purchases; said once, in the ledger."""
    assert weir("run", job).exit_code == 0
    staff = ("--set", "ledger.scope=staff")
    wrong = weir("ledger", "open", job, *staff, "--shares", "nobody")
    assert wrong.exit_code == 2 and "--shares" in wrong.stderr and "customers" in wrong.stderr
    assert weir("ledger", "open", job, *staff, "--shares", "customers").exit_code == 0
    run = ("run", job, *staff, "--secret-file", job.parent / "other.key")
    assert weir(*run, "--set", out(job, "b")).exit_code == 0
    assert scopes(job) == {"customers": 1, "staff": 1}
    page = " ".join(weir("ledger", "show", job, "--scope", "staff").stdout.split())
    assert "may be read under customers" in page
    third = ("--set", "ledger.scope=drivers")
    assert weir("ledger", "open", job, *third).exit_code == 0
    run = ("run", job, *third, "--set", out(job, "c"))
    assert "under the scope 'customers'" in weir(*run).stderr
    assert weir("ledger", "open", job, *third, "--shares", "customers").exit_code == 0
    assert "under the scope 'staff'" in weir(*run).stderr
    assert weir("ledger", "open", job, *third, "--shares", "staff").exit_code == 0
    assert weir(*run, "--set", "secret=null").exit_code == 0


def test_a_secret_on_other_events_is_refused_across_scopes(weir: Weir, job: Path) -> None:
    """Bits agree up to the first difference, whosever budget it is."""
    assert weir("run", job).exit_code == 0
    staff = ("--set", "ledger.scope=staff")
    assert weir("ledger", "open", job, *staff).exit_code == 0
    write(job, ROWS[:-1])
    told = weir("run", job, *staff, "--set", out(job, "b"))
    assert told.exit_code == 2 and "over other events" in told.stderr
    assert not bytes_in(job.parent / "b")


def race(job: Path, task: Any, count: int) -> list[str]:
    """What so many processes answer that start one task at the same moment."""
    fork = multiprocessing.get_context("fork")
    gate, told = fork.Barrier(count), fork.Queue()
    running = [fork.Process(target=task, args=(job, n, gate, told)) for n in range(count)]
    for one in running:
        one.start()
    heard = [told.get(timeout=120) for _ in running]
    for one in running:
        one.join(60)
    return heard


def open_one(job: Path, number: int, gate: Any, told: Any) -> None:
    name = ("customers", "Customers", "custumers", "staff")[number % 4]
    ledger = ledger_of(job).model_copy(update={"scope": name})
    plan = plan_of(load(job))
    gate.wait()
    try:
        reserve(ledger, asking(plan, f"mark {number}", f"place {number}"))
        told.put(name)
    except ConfigError as error:
        told.put("" if "weir ledger open" in str(error) else str(error))


@pytest.mark.slow
def test_of_first_runs_at_once_one_opens_its_scope(where: tuple[str, str], tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(where, 9.0))
    told = race(job, open_one, 4)
    assert sorted(told)[:3] == ["", "", ""] and sorted(told)[3] in scopes(job), told
    assert len(scopes(job)) == 1


def begin_one(job: Path, number: int, gate: Any, told: Any) -> None:
    """Two scopes, the same events, each with a secret of its own; both have asked before."""
    name = ("customers", "staff")[number % 2]
    ledger = ledger_of(job).model_copy(update={"scope": name})
    wanted = asking(plan_of(load(job)), f"mark {number}", f"place {number}")
    run = dataclasses.replace(wanted.run, events="the same", key="k")
    spending = reserve(ledger, dataclasses.replace(wanted, run=run))
    gate.wait()
    try:
        spending.begin()
        told.put(name)
    except ConfigError as error:
        told.put("" if "under the scope" in str(error) else str(error))


@pytest.mark.slow
def test_of_runs_at_once_over_the_same_events_those_of_one_scope_begin(
    where: tuple[str, str], tmp_path: Path
) -> None:
    job = job_of(tmp_path / "job", section(where, 9.0))
    for name in ("customers", "staff"):
        ledger = ledger_of(job).model_copy(update={"scope": name})
        hand.open_scope(ledger, plan_of(load(job)))
    told = race(job, begin_one, 6)
    assert len(told) == 6 and len({name for name in told if name}) == 1, told
    assert len([name for name in told if name]) == 3
