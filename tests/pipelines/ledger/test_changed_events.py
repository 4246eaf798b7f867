"""Events that change, or are read otherwise: before a run asks, between asking and reading, while
they are read, and in two runs at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.ledger.conftest import ROWS, job_of, section
from tests.pipelines.ledger.test_attacks import CHANGED, spent, write
from tests.pipelines.ledger.test_run import bytes_in, entries, out, process

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "change",
    [
        "source={csv: events.csv, header: false, columns: [at, store, id, amount]}",
        "limits.line_bytes=64",
        "source={csv: events.csv, delimiter: ';'}",
        "source={csv: events.csv, encoding: latin-1}",
        "source={csv: events.csv, quoted_newlines: true}",
    ],
)
def test_the_same_bytes_read_otherwise_are_other_events(
    weir: Weir, tmp_path: Path, change: str
) -> None:
    """A cap on lines leaves out the one record that is longer."""
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 9.0))
    write(job, [*ROWS, ROWS[-1].replace("e23-9", "e23-9" + "x" * 40)])
    loose = ("--set", "limits.refused=1", "--set", "limits.first_look=false")
    assert weir("run", job, *loose).exit_code == 0
    words = change.replace("events.csv", str(job.parent / "events.csv"))
    told = weir("run", job, *loose, "--set", words, "--set", out(job, "b"))
    assert told.exit_code == 2 and "over other events" in told.stderr, told.output


def test_a_file_that_is_unpacked_otherwise_is_another(weir: Weir, tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 9.0))
    assert weir("run", job).exit_code == 0
    (job.parent / "events.csv").rename(job.parent / "events.csv.gz")
    loose = ("--set", "limits.refused=1", "--set", "limits.first_look=false")
    gone = f"source.csv={job.parent / 'events.csv.gz'}"
    told = weir("run", job, *loose, "--set", gone, "--set", out(job, "b"))
    assert told.exit_code == 2 and "over other events" in told.stderr, told.output


def test_which_keys_are_declared_decides_which_events_of_a_user_count(
    weir: Weir, tmp_path: Path
) -> None:
    """Caps keep other keys of a user then, so sums of the same key differ under the same noise."""
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 9.0))
    users = (
        "--set", "schema={time: at, unit: id}", "--set", "privacy.unit=user",
        "--set", "privacy.per=1d", "--set", "privacy.protect_for=all",
        "--set", "privacy.contributions={ticks: 2, keys: 1, events: 2}",
        "--set", "mechanism=null",
    )  # fmt: skip
    assert weir("run", job, *users).exit_code == 0
    fewer = ("--set", "key.declared=[north]", "--set", out(job, "b"))
    told = weir("run", job, *users, *fewer)
    assert told.exit_code == 2 and "over other events" in told.stderr, told.output


def test_a_key_more_is_no_second_look_at_single_events(weir: Weir, job: Path) -> None:
    """But where they have ids: of two copies the one of an undeclared key does not count."""
    plain = ("--set", "schema.id=null")
    assert weir("run", job, *plain).exit_code == 0
    more = ("--set", "key.declared=[north, south, west]")
    assert weir("run", job, *plain, *more, "--set", out(job, "b")).exit_code == 0
    assert len(entries(job)) == 1
    assert weir("ledger", "add", job, "--budget", 9, 1e-6).exit_code == 0
    wide = ("--set", "ledger.budget.epsilon=9")
    assert weir("run", job, *wide, "--set", out(job, "c")).exit_code == 0
    told = weir("run", job, *wide, *more, "--set", out(job, "d"))
    assert told.exit_code == 2 and "over other events" in told.stderr


@pytest.mark.parametrize("how", ["written", "written, its time put back", "replaced", "joined"])
def test_a_file_that_changes_before_it_is_read_is_noticed(weir: Weir, job: Path, how: str) -> None:
    """The ledger holds the digest of one version; releases of another are not made."""
    events = job.parent / "events.csv"
    job.write_text(job.read_text().replace("events.csv", "events*.csv"))
    later = (
        "import os, pathlib, shutil\n"
        "from weir.pipelines.ledger.reservations import Reservation\n"
        "begin = Reservation.begin\n"
        f"events = pathlib.Path({str(events)!r})\n"
        "def late(self):\n"
        "    begin(self)\n"
        "    was = os.stat(events)\n"
        f"    text = {chr(10).join(CHANGED) + chr(10)!r}\n"
        f"    how = {how!r}\n"
        "    if how == 'joined':\n"
        "        events.with_name('events2.csv').write_text(text)\n"
        "    elif how == 'replaced':\n"
        "        events.with_name('new').write_text(text)\n"
        "        os.replace(events.with_name('new'), events)\n"
        "    else:\n"
        "        events.write_text(text)\n"
        "    if 'put back' in how:\n"
        "        os.utime(events, ns=(was.st_atime_ns, was.st_mtime_ns))\n"
        "Reservation.begin = late\n"
    )
    if how == "joined":  # one that comes before the files are listed for the job
        later = later.replace("Reservation.begin = late", (
            "import weir.pipelines.graph.budget as budget\n"
            "reserve = budget.reserve\n"
            "def first(*words):\n"
            "    found = reserve(*words)\n"
            "    events.with_name('events2.csv').write_text(events.read_text())\n"
            "    return found\n"
            "budget.reserve = first\n"
        ))  # fmt: skip
    changed = process(job, before=later)
    stderr = changed.stderr(120)
    assert changed.returncode in (1, 2) and "changed" in stderr, stderr
    assert str(CHANGED[-1]) not in stderr
    assert not bytes_in(job.parent / "out")


def test_a_file_that_changes_while_it_is_read_is_noticed(weir: Weir, job: Path) -> None:
    changing = (
        "import pathlib\n"
        "from weir.transforms.sources.files import FileSource\n"
        "read = FileSource._counted\n"
        "def late(self, split, *words):\n"
        "    for one in read(self, split, *words):\n"
        "        yield one\n"
        "        with open(split.path, 'a') as file: file.write(chr(10))\n"
        "FileSource._counted = late\n"
    )
    changed = process(job, before=changing)
    stderr = changed.stderr(120)
    assert changed.returncode == 1 and "changed while it was read" in stderr, stderr
    assert not bytes_in(job.parent / "out")


# ---- at the same time --------------------------------------------------------------------------


def test_of_two_runs_at_once_over_different_events_one_begins(
    tmp_path: Path, where: tuple[str, str]
) -> None:
    """Both ask before either begins."""
    job = job_of(tmp_path / "job", section(where, 9.0))
    write(job, CHANGED, "changed.csv")
    gate = tmp_path / "gate"
    wait = (
        "import pathlib, time\n"
        "import weir.pipelines.graph.budget as budget\n"
        "reserve = budget.reserve\n"
        "def first(*words):\n"
        "    found = reserve(*words)\n"
        f"    pathlib.Path({str(tmp_path)!r}, sys.argv[-1]).touch()\n"
        f"    while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\n"
        "    return found\n"
        "budget.reserve = first\n"
    )
    runs = [
        process(job, "--set", f"source.csv={job.parent / name}", "--set", out(job, folder),
                "--set", f"sink.parquet={job.parent / folder}", before=wait.replace(
                    "sys.argv[-1]", repr(folder)))
        for name, folder in (("events.csv", "a"), ("changed.csv", "b"))
    ]  # fmt: skip
    until = time.monotonic() + 120
    while not ((tmp_path / "a").exists() and (tmp_path / "b").exists()):
        assert time.monotonic() < until
        time.sleep(0.02)
    gate.touch()
    stderr = [one.stderr(300) for one in runs]
    assert sorted(one.returncode for one in runs) == [0, 2], stderr
    assert len([text for text in stderr if "over other events" in text]) == 1, stderr
    assert len([f for f in ("a", "b") if bytes_in(job.parent / f)]) == 1
    (entry,) = entries(job)
    assert entry.state == "closed" and len(entry.began) == 1


def test_an_entry_that_was_given_back_does_not_begin(weir: Weir, job: Path) -> None:
    """Somebody closes it between asking and beginning."""
    release = (
        "from weir.pipelines.graph import budget\n"
        "reserve = budget.reserve\n"
        "def first(ledger, *words):\n"
        "    found = reserve(ledger, *words)\n"
        "    from weir.pipelines.ledger import adjustments\n"
        "    store = ledger.store(True)\n"
        "    adjustments.close(store, ledger.scope, found.entry, 'x', True)\n"
        "    store.close()\n"
        "    return found\n"
        "budget.reserve = first\n"
    )
    run = process(job, before=release)
    stderr = run.stderr(120)
    assert run.returncode == 2 and "given back" in stderr, stderr
    assert not bytes_in(job.parent / "out") and spent(job) == 0.0


def test_one_that_was_killed_before_it_began_may_be_mended(weir: Weir, job: Path) -> None:
    """No noise was drawn: other events under the same secret are the first."""
    kill = (
        "import os, signal\n"
        "from weir.pipelines.ledger.reservations import Reservation\n"
        "Reservation.begin = lambda self: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process(job, before=kill).wait(120)
    (entry,) = entries(job)
    assert entry.state == "reserved" and not entry.began and spent(job) == pytest.approx(1.0)
    write(job, CHANGED)
    assert weir("run", job).exit_code == 0
    assert len(entries(job)) == 1
    write(job, ROWS)
    assert "over other events" in weir("run", job, "--set", out(job, "b")).stderr
