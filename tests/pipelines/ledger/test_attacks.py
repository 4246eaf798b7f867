"""What somebody may do who has the config, the secret, the events and the folders of results: none
of it gives an additional release of the events that the ledger does not count."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.ledger.conftest import ROWS, job_of, section
from tests.pipelines.ledger.test_run import book, bytes_in, entries, out, process
from weir.pipelines.config.job import load
from weir.pipelines.ledger.entries import entries_of

pytestmark = pytest.mark.slow

CHANGED = [*ROWS[:-1], ROWS[-1].rpartition(",")[0] + ",49"]
FRESH = "secret={{file: secret.key, rotate: [{{from: '{}', file: other.key}}]}}"
ONE, ELEVEN = "2024-01-01T01:00:00Z", "2024-01-01T11:00:00Z"


def spent(job: Path) -> float:
    """Epsilon of all entries, at the budget's delta."""
    found = book(job)
    assert found.scope is not None
    return found.scope.epsilon_of(sum(one.loss for one in found.charges.values()), 0.0)


def write(job: Path, rows: list[str], name: str = "events.csv") -> None:
    (job.parent / name).write_text("\n".join(rows) + "\n")


def hold(weir: Weir, job: Path) -> None:
    """Runs it over events of which most are refused."""
    write(job, [*ROWS, *["nonsense"] * len(ROWS) * 2])
    held = weir("run", job)
    assert held.exit_code == 1 and (job.parent / "out" / "_held").exists(), held.output


# ---- folders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["moved", "removed", "cleared", "copied"])
def test_no_change_of_a_folder_makes_room_for_other_events(
    weir: Weir, tmp_path: Path, where: tuple[str, str], what: str
) -> None:
    """The noise from the change on would be fresh, and nothing would count it."""
    job = job_of(tmp_path / "job", section(where, 9.0))
    assert weir("run", job).exit_code == 0
    results, first = job.parent / "out", bytes_in(job.parent / "out")
    more: tuple[str, ...] = ()
    if what == "moved":
        results.rename(job.parent / "elsewhere")
    elif what == "removed":
        shutil.rmtree(results)
    elif what == "cleared":  # as a run that released nothing left it
        for path in [*results.glob("ticks-*"), results / "_COMPLETE"]:
            path.unlink()
    else:
        shutil.copytree(results, job.parent / "copy")
        for path in [*(job.parent / "copy").glob("ticks-*"), job.parent / "copy" / "_COMPLETE"]:
            path.unlink()
        more = ("--set", out(job, "copy"))
    write(job, CHANGED)
    again = weir("run", job, *more)
    assert again.exit_code == 2 and "over other events" in again.stderr, again.output
    for folder in job.parent.glob("*/"):
        assert not (bytes_in(folder) and bytes_in(folder) != first), folder
    (entry,) = entries(job)
    closed = weir("ledger", "close", job, "--entry", entry.id, "--reason", "x", "--release")
    assert closed.exit_code == 2 and "--release" in closed.stderr
    assert spent(job) == pytest.approx(1.0)
    write(job, ROWS)
    same = weir("run", job, "--set", out(job, "same"))  # the same bits, in any folder
    assert same.exit_code == 0 and bytes_in(job.parent / "same") == first
    assert spent(job) == pytest.approx(1.0) and len(entries(job)) == 1


def test_a_run_that_was_killed_is_no_chance_for_other_events(
    weir: Weir, tmp_path: Path, where: tuple[str, str]
) -> None:
    """Nobody knows how far it came, whatever lies in its folder."""
    job = job_of(tmp_path / "job", section(where, 9.0))
    kill = (
        "import os, signal\n"
        "import weir.pipelines.run.run as command\n"
        "command._execute = lambda *words: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    dying = process(job, before=kill)
    dying.wait(120)
    assert dying.returncode == -signal.SIGKILL
    (entry,) = entries(job)
    assert entry.began and entry.state == "running"
    write(job, CHANGED)
    assert "over other events" in weir("run", job).stderr
    refused = weir("ledger", "close", job, "--entry", entry.id, "--reason", "x", "--release")
    assert refused.exit_code == 2 and "began" in refused.stderr
    write(job, ROWS)
    assert weir("run", job).exit_code == 0
    assert len(entries(job)) == 1


def test_what_was_held_back_is_spent_and_neither_given_back_nor_mended(
    weir: Weir, job: Path
) -> None:
    hold(weir, job)
    (entry,) = entries(job)
    closing = ("ledger", "close", job, "--entry", entry.id, "--reason", "x", "--release")
    for _ in ("as it is", "without what it holds back"):
        write(job, CHANGED)
        again = weir("run", job)
        assert again.exit_code == 2 and "over other events" in again.stderr
        assert weir(*closing).exit_code == 2
        shutil.rmtree(job.parent / "out" / "_held", ignore_errors=True)
    assert spent(job) == pytest.approx(1.0)


def test_publishing_asks_the_ledger(weir: Weir, job: Path, tmp_path: Path) -> None:
    stored = tmp_path / "ledger.db"
    hold(weir, job)
    held = bytes_in(job.parent / "out" / "_held")
    copy = stored.read_bytes()
    plan = job.parent / "out" / "_plan.json"
    noted = plan.read_text()
    stored.unlink()  # what it cost is counted nowhere
    refused = weir("run", job, "--publish")
    assert refused.exit_code == 2 and "is not the one, or not all of the one" in refused.stderr
    plan.write_text(json.dumps({**json.loads(noted), "ledger": None}))
    refused = weir("run", job, "--publish")
    assert refused.exit_code == 2 and "--publish" in refused.stderr, refused.output
    assert "ledger" in refused.stderr and bytes_in(job.parent / "out" / "_held") == held
    stored.write_bytes(copy)
    shutil.copytree(job.parent / "out", job.parent / "copied")
    assert weir("run", job, "--publish").exit_code == 0  # known by its place
    assert bytes_in(job.parent / "out") == held
    (job.parent / "copied" / "_plan.json").write_text(noted)
    moved = weir("run", job, "--publish", "--set", out(job, "copied"))  # by what it has noted
    assert moved.exit_code == 0, moved.output
    assert spent(job) == pytest.approx(1.0)


def test_what_no_ledger_counted_is_not_published_under_one(weir: Weir, tmp_path: Path) -> None:
    ledger = section(("sqlite", str(tmp_path / "ledger.db")))
    job = job_of(tmp_path / "job", "")
    hold(weir, job)
    job.write_text(job.read_text() + ledger)
    refused = weir("run", job, "--publish")
    assert refused.exit_code == 2 and "--publish" in refused.stderr
    other = ("--set", "aggregates.paid.clip=[0, 60]", "--set", out(job, "b"))
    write(job, ROWS)
    assert weir("run", job, *other).exit_code == 0  # of another plan: it counts nothing of this
    assert weir("run", job, "--publish").exit_code == 2


def test_a_held_run_says_that_the_ledger_counts_it(weir: Weir, job: Path, tmp_path: Path) -> None:
    write(job, [*ROWS, *["nonsense"] * len(ROWS) * 2])
    told = weir("run", job)
    (entry,) = entries(job)
    words = " ".join((told.stdout + told.stderr).split())
    assert "no budget is spent" not in words and "nothing as long as nobody" not in words
    assert f"counted in the ledger as spent (entry {entry.id}), published or not" in words
    screen = weir("run", job, "--set", "sink={stdout: true}")
    words = " ".join((screen.stdout + screen.stderr).split())
    assert screen.exit_code == 1 and "no budget is spent" not in words
    assert f"(entry {entry.id})" in words
    bare = job_of(tmp_path / "bare", "")
    write(bare, [*ROWS, *["nonsense"] * len(ROWS) * 2])
    assert "no budget is spent" in " ".join(weir("run", bare).stderr.split())


def test_an_error_promises_no_free_start_where_a_ledger_counts(weir: Weir, job: Path) -> None:
    """Messages of the folder, which tell what it costs to begin again."""
    hold(weir, job)
    write(job, [*ROWS, *["nonsense"] * len(ROWS) * 2])
    no = ("--set", "secret=null", "--set", "ledger.budget.epsilon=1.3")
    other = ("--secret-file", job.parent / "other.key")
    assert weir("ledger", "add", job, "--budget", 9, 1e-6).exit_code == 0
    for more in (no, other):
        told = weir("run", job, *more, "--set", "ledger.budget.epsilon=9")
        assert told.exit_code == 2, told.output
        assert "no cost" not in told.stderr and "cost nothing" not in told.stderr
        assert "ledger" in told.stderr


# ---- secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [ONE, ELEVEN])
def test_a_rotation_elsewhere_is_an_entry_of_its_own(
    weir: Weir, tmp_path: Path, where: tuple[str, str], first: str
) -> None:
    """Fresh noise on the same events, as often as one likes, for one spending."""
    job = job_of(tmp_path / "job", section(where, 1.6))
    assert weir("run", job).exit_code == 0
    rotated = ("--set", FRESH.format(first), "--set", out(job, "b"))
    told = weir("run", job, *rotated)
    assert told.exit_code == 0, told.output
    assert len(entries(job)) == 2 and 1.4 < spent(job) < 1.6
    same = ("--set", FRESH.format(first), "--set", out(job, "same"))
    assert weir("run", job, *same).exit_code == 0  # the same bits
    assert bytes_in(job.parent / "same") == bytes_in(job.parent / "b") and len(entries(job)) == 2
    (job.parent / "other.key").write_text("ef" * 32)  # the same name, another secret
    again = weir("run", job, "--set", FRESH.format(first), "--set", out(job, "c"))
    assert again.exit_code == 2 and "is not enough" in again.stderr
    assert not (job.parent / "c").exists()


@pytest.mark.parametrize("left", [0, 11])
def test_a_rotation_in_the_same_folder_is_an_entry_of_its_own(
    weir: Weir, job: Path, left: int
) -> None:
    """Files that were taken away show nothing: a run over files may have drawn every tick."""
    sets = ("--set", "sink.every=1")
    assert weir("run", job, *sets).exit_code == 0
    results = job.parent / "out"
    for path in [*sorted(results.glob("ticks-*"))[left:], results / "_COMPLETE"]:
        path.unlink()
    told = weir("run", job, *sets, "--set", FRESH.format(ELEVEN))
    assert told.exit_code == 2 and "is not enough" in told.stderr, told.output
    assert len(entries(job)) == 1


def test_a_rotation_over_other_events_is_refused(weir: Weir, tmp_path: Path) -> None:
    """Before it rotates, it shares the noise of the run before."""
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 9.0))
    assert weir("run", job).exit_code == 0
    write(job, CHANGED)
    told = weir("run", job, "--set", FRESH.format(ELEVEN), "--set", out(job, "b"))
    assert told.exit_code == 2 and "over other events" in told.stderr
    late = FRESH.format(ELEVEN).replace("secret.key", "x").replace("other.key", "secret.key")
    told = weir("run", job, "--set", late.replace("file: x", "file: other.key"),
                "--set", out(job, "b"))  # fmt: skip
    assert told.exit_code == 2 and "over other events" in told.stderr
    assert len(entries(job)) == 1


def test_a_secret_that_changes_on_the_way_to_the_workers_is_refused(weir: Weir, job: Path) -> None:
    """The ledger has entered one secret; noise of another one is not counted under it."""
    swap = (
        "import pathlib\n"
        "from weir.pipelines.ledger.reservations import Reservation\n"
        "begin = Reservation.begin\n"
        "def late(self):\n"
        f"    pathlib.Path({str(job.parent / 'secret.key')!r}).write_text('ef' * 32)\n"
        "    begin(self)\n"
        "Reservation.begin = late\n"
    )
    swapped = process(job, before=swap)
    stderr = swapped.stderr(120)
    assert swapped.returncode and "is not the secret that the ledger has entered" in stderr
    assert "ef" * 32 not in stderr and not bytes_in(job.parent / "out")


# ---- what the ledger tells ---------------------------------------------------------------------


def test_a_ledger_does_not_tell_whether_a_guess_of_the_events_is_right(
    weir: Weir, job: Path, tmp_path: Path
) -> None:
    """Who knows all events but one could try both versions against a digest without a key."""
    assert weir("run", job).exit_code == 0
    (entry,) = entries(job)
    digest = entry.began[-1].events
    assert digest is not None
    key = (tmp_path / "ledger.db.key").read_bytes()
    assert len(key) == 32 and key not in (tmp_path / "ledger.db").read_bytes()
    assert (tmp_path / "ledger.db.key").stat().st_mode & 0o777 == 0o600
    other = job_of(tmp_path / "twin", section(("sqlite", str(tmp_path / "other.db"))))
    assert weir("run", other).exit_code == 0  # the same plan, secret and events
    (twin,) = entries(other)
    assert twin.began[-1].events != digest
    for store in ("ledger.db", "other.db"):
        assert key.hex() not in (tmp_path / store).read_bytes().decode("latin-1")


def test_a_key_that_is_gone_is_said(weir: Weir, job: Path, tmp_path: Path) -> None:
    key = tmp_path / "ledger.db.key"
    assert weir("run", job).exit_code == 0
    kept = key.read_bytes()
    key.unlink()
    told = weir("run", job, "--set", out(job, "b"))
    assert told.exit_code == 2 and "ledger.db.key" in told.stderr and not key.exists()
    key.write_bytes(os.urandom(32))  # another: what ran before is not known again
    told = weir("run", job, "--set", out(job, "b"))
    assert told.exit_code == 2 and "cannot be known" in told.stderr
    key.write_bytes(kept)
    assert weir("run", job, "--set", out(job, "b")).exit_code == 0


def test_the_ledger_of_a_version_before_counts_what_ran(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records say that a run was submitted, and nothing of its events."""
    from weir.pipelines.ledger import reservations as desk

    monkeypatch.setattr(
        desk, "begun", lambda name, identity: desk.move(
            name, "running", place=identity.output.to_json())
    )  # fmt: skip
    assert weir("run", job).exit_code == 0
    monkeypatch.undo()
    (entry,) = entries(job)
    assert len(entry.began) == 1
    again = weir("run", job, "--set", out(job, "b"))
    assert again.exit_code == 2 and "cannot be known" in again.stderr
    closing = ("ledger", "close", job, "--entry", entry.id, "--reason", "x", "--release")
    assert weir(*closing).exit_code == 2
    section = load(job).ledger
    assert section is not None
    store = section.store(create=False)
    assert store is not None and entries_of(store, "customers").entries[entry.id].counts
    store.close()
