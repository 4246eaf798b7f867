"""Ledgers of every kind, in real processes: nobody overspends, nothing is lost, changes show."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.ledger.conftest import asking, job_of, section
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger import adjustments as hand
from weir.pipelines.ledger.entries import ScopeEntries, entries_of
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.reservations import reserve
from weir.pipelines.ledger.sqlite import open_file
from weir.pipelines.ledger.store import LedgerStore, Row, Transaction, next_row, remote_type

ROOT = Path(__file__).resolve().parents[3]


def ledger_of(job: Path) -> Ledger:
    found = load(job).ledger
    assert found is not None
    return found


def opened(job: Path, create: bool = True) -> LedgerStore:
    store = ledger_of(job).store(create)
    assert store is not None
    return store


def book(job: Path) -> ScopeEntries:
    store = opened(job, create=False)
    try:
        return entries_of(store, "customers")
    finally:
        store.close()


def ask(job: Path, first: int, count: int, gate: Any, told: Any) -> None:
    """What a process does that asks again and again; tells its entries, "" where it is refused."""
    plan, ledger, heard = plan_of(load(job)), ledger_of(job), []
    gate.wait()
    for number in range(first, first + count):
        try:
            wanted = asking(plan, f"mark {number}", f"place {number}")
            heard.append(reserve(ledger, wanted).entry)
        except ConfigError as error:
            heard.append("" if "is not enough" in str(error) else str(error))
    told.put(heard)


def askers(job: Path, processes: int, times: int) -> list[list[str]]:
    """What so many processes are told that begin to ask at the same moment."""
    fork = multiprocessing.get_context("fork")
    gate, told = fork.Barrier(processes), fork.Queue()
    running = [
        fork.Process(target=ask, args=(job, n * times, times, gate, told)) for n in range(processes)
    ]
    for one in running:
        one.start()
    heard = [told.get(timeout=120) for _ in running]
    for one in running:
        one.join(60)
    assert [one.exitcode for one in running] == [0] * processes
    return heard


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 20])
def test_processes_at_once_never_spend_more_than_there_is(
    where: tuple[str, str], tmp_path: Path, processes: int
) -> None:
    """A budget for 1, and for 12 plans: exactly so many are entered, anyone who comes first."""
    room = {2: (1.3, 1), 20: (4.0, 12)}[processes]
    job = job_of(tmp_path / "job", section(where, room[0]))
    told = askers(job, processes, 2)
    entered = [line for lines in told for line in lines if line]
    assert len(entered) == room[1] == len(set(entered))
    found = book(job)
    assert sorted(found.entries) == sorted(entered)
    assert {entry.state for entry in found.entries.values()} == {"reserved"}
    assert found.records == 1 + 2 * room[1]


def test_two_scopes_of_one_ledger_have_budgets_of_their_own(
    where: tuple[str, str], tmp_path: Path
) -> None:
    job = job_of(tmp_path / "job", section(where))
    plan = plan_of(load(job))
    for scope in ("customers", "staff"):
        ledger = ledger_of(job).model_copy(update={"scope": scope})
        if scope == "staff":
            hand.open_scope(ledger, plan)
        reserve(ledger, asking(plan, "mark"))
        with pytest.raises(ConfigError, match="is not enough"):
            reserve(ledger, asking(plan, "other mark"))
    store = opened(job, create=False)
    assert store.scopes() == ["customers", "staff"]
    store.close()


def test_what_fails_within_a_transaction_writes_nothing(
    where: tuple[str, str], tmp_path: Path
) -> None:
    job = job_of(tmp_path / "job", section(where))
    store = opened(job)

    def work(rows: Sequence[Row]) -> Transaction:
        raise ConfigError("field", 1, "is refused.")

    with pytest.raises(ConfigError, match="field = 1"):
        store.change("customers", work)
    assert store.rows("customers") == []
    assert store.change("customers", lambda rows: Transaction([{"kind": "x"}], len(rows))) == 0
    assert store.change("customers", lambda rows: Transaction([], len(rows))) == 1
    store.close()


@pytest.mark.slow
def test_a_process_that_dies_in_a_transaction_holds_nobody_back(
    where: tuple[str, str], tmp_path: Path
) -> None:
    job = job_of(tmp_path / "job", section(where))
    opened(job).close()
    code = (
        "import sys, time\n"
        "from weir.pipelines.config.job import load\n"
        "store = load(sys.argv[1]).ledger.store(True)\n"
        "def work(rows):\n"
        "    print('inside', flush=True)\n"
        "    time.sleep(600)\n"
        "store.change('customers', work)\n"
    )
    dying = subprocess.Popen(
        [sys.executable, "-c", code, str(job)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert dying.stdout is not None and dying.stdout.readline() == "inside\n"
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    reserve(ledger_of(job), asking(plan_of(load(job)), "mark"))
    assert len(book(job).entries) == 1


def test_records_are_only_ever_added(where: tuple[str, str], tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(where))
    reserve(ledger_of(job), asking(plan_of(load(job)), "mark"))
    for change in ("DELETE FROM {}", "UPDATE {} SET body = '{{}}'"):
        with pytest.raises(Exception, match="only ever added to"):
            tamper(where, change, force=False)


def tamper(where: tuple[str, str], change: str, force: bool = True) -> None:
    """As somebody would who may write to the ledger and knows it."""
    kind, place = where
    if kind == "sqlite":
        with contextlib.closing(sqlite3.connect(place)) as base, base:
            if force:
                base.executescript("DROP TRIGGER no_UPDATE; DROP TRIGGER no_DELETE")
            base.execute(change.format("record"))
        return
    import psycopg

    with psycopg.connect(place) as server:
        if force:
            server.execute("DROP TRIGGER keep ON weir_ledger")
        server.execute(change.format("weir_ledger"))  # type: ignore[call-overload]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {} SET body = replace(body, 'shop', 'shed') WHERE number = 1",
        "DELETE FROM {} WHERE number = 1",
        "DELETE FROM {} WHERE number = 0",
        "UPDATE {} SET before = hash WHERE number = 2",
        "UPDATE {} SET hash = before WHERE number = 2",
        "UPDATE {} SET number = 9 WHERE number = 2",
    ],
)
def test_a_changed_record_is_found(where: tuple[str, str], tmp_path: Path, change: str) -> None:
    job = job_of(tmp_path / "job", section(where))
    wanted = asking(plan_of(load(job)), "mark")
    reserve(ledger_of(job), wanted)
    assert len(book(job).entries) == 1
    tamper(where, change)
    for again in (lambda: book(job), lambda: reserve(ledger_of(job), wanted)):
        with pytest.raises(ConfigError, match="has been changed: record"):
            again()


def test_a_newer_layout_is_refused(where: tuple[str, str], tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(where))
    opened(job).close()
    kind, place = where
    if kind == "sqlite":
        base = sqlite3.connect(place)
        base.execute("PRAGMA user_version = 99")
        base.close()
    else:
        import psycopg

        with psycopg.connect(place) as server:
            server.execute("UPDATE weir_ledger_layout SET version = 99")
    with pytest.raises(ConfigError, match="newer Weir"):
        opened(job)


def test_reading_makes_nothing(where: tuple[str, str], tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(where))
    assert ledger_of(job).store(create=False) is None
    assert ledger_of(job).store(create=False) is None
    if where[0] == "sqlite":
        assert not Path(where[1]).exists()


# ---- SQLite ------------------------------------------------------------------------------------


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    store = open_file(tmp_path / "ledger.db", create=True)
    assert store is not None
    store.close()
    assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "a.csv"
    text.write_text("at,amount\n" * 100)
    with pytest.raises(ConfigError, match="cannot be read as a ledger"):
        open_file(text, create=True)
    other = tmp_path / "other.db"
    base = sqlite3.connect(other)
    base.execute("CREATE TABLE mine (a)")
    base.commit()
    base.close()
    for create in (True, False):
        with pytest.raises(ConfigError, match="is a database, but no ledger"):
            open_file(other, create)
    with pytest.raises(ConfigError, match=r"ledger\.sqlite = .*cannot be made"):
        open_file(tmp_path / "nowhere" / "ledger.db", create=True)
    (tmp_path / "empty.db").touch()  # as who was killed right after it was made leaves it
    reader = open_file(tmp_path / "empty.db", create=False)
    assert reader is not None and reader.scopes() == []
    reader.close()


def mounts(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_network_file_systems_are_known(tmp_path: Path) -> None:
    table = mounts(
        tmp_path,
        "22 1 0:20 / / rw - ext4 /dev/sda rw",
        "23 22 0:21 / /mnt/team rw - nfs4 server:/team rw",
        "24 23 0:22 / /mnt/team/here rw - ext4 /dev/sdb rw",
        "25 22 0:23 / /mnt/with\\040space rw - fuse.sshfs user@host: rw",
        "26 22 0:24 / /mnt/twice rw - nfs old: rw",
        "27 26 0:25 / /mnt/twice rw - xfs /dev/sdc rw",
    )
    for path, expected in (
        ("/var/ledger.db", None),
        ("/mnt/team/ledger.db", "nfs4"),
        ("/mnt/teams/ledger.db", None),
        ("/mnt/team/here/ledger.db", None),
        ("/mnt/with space/ledger.db", "fuse.sshfs"),
        ("/mnt/twice/ledger.db", None),
    ):
        assert remote_type(Path(path), table) == expected, path
    assert remote_type(Path("/var/ledger.db"), tmp_path / "no such file") is None


def test_a_ledger_on_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.pipelines.ledger.sqlite.remote_type", lambda path: "nfs4")
    for create in (True, False):
        with pytest.raises(ConfigError, match="of the type nfs4"):
            open_file(tmp_path / "ledger.db", create)


# ---- PostgreSQL --------------------------------------------------------------------------------


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    address = "postgresql://weir:hunter2@127.0.0.1:1/base"
    job = job_of(tmp_path / "job", section(("postgresql", address)))
    with pytest.raises(ConfigError) as caught:
        opened(job)
    assert "127.0.0.1:1/base" in str(caught.value) and "hunter2" not in str(caught.value)
    assert "hunter2" not in ledger_of(job).shown
    with pytest.raises(ConfigError) as caught:
        load(job_of(tmp_path / "job", section(("postgresql", "mysql://weir:hunter2@host/base"))))
    assert "hunter2" not in str(caught.value)


def test_a_record_that_is_no_text_has_been_changed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_file(path, True)
    assert store is not None
    store.change("s", lambda _: Transaction([{"kind": "scope"}], None))
    store.close()
    with sqlite3.connect(path) as base:
        base.execute("DROP TRIGGER no_UPDATE")
        base.execute("UPDATE record SET body = x'ff00'")
    base.close()
    store = open_file(path, False)
    assert store is not None
    with pytest.raises(ConfigError, match="has been changed: record 0"):
        ScopeEntries.read("s", store.rows("s"), "ledger.db")
    store.close()


@pytest.mark.parametrize(
    "body", [None, 7, {}, {"kind": "scope"}, {"kind": "state", "entry": "x"}, {"kind": "entry"}]
)
def test_a_record_of_another_version_is_named(body: Any) -> None:
    """Its chain fits: it was written as it is."""
    with pytest.raises(ConfigError, match="record 0 of the scope 's'.*Use the version that wrote"):
        ScopeEntries.read("s", [next_row("s", [], body)], "ledger.db")


def test_a_file_whose_fault_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_file(path, True)
    assert store is not None
    store.close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE record", b"CREATE TABLE\x8arecord"))
    with pytest.raises(ConfigError, match="cannot be read as a ledger"):
        open_file(path, False)
