"""``weir run`` with a ledger: entered before anything is submitted, spent whatever happens then."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.pipelines.conftest import Weir
from tests.pipelines.ledger.conftest import ROWS, asking, job_of, section
from weir.dpcore.errors import WeirError
from weir.pipelines.config.job import load
from weir.pipelines.graph.budget import Spent
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.ledger.entries import LedgerEntry, ScopeEntries, entries_of
from weir.pipelines.show.status import of_folder

pytestmark = pytest.mark.slow


def book(job: Path, scope: str = "customers") -> ScopeEntries:
    section = load(job).ledger
    assert section is not None
    store = section.store(create=False)
    if store is None:
        return ScopeEntries(scope)
    try:
        return entries_of(store, scope)
    finally:
        store.close()


def entries(job: Path) -> list[LedgerEntry]:
    return list(book(job).entries.values())


def out(job: Path, name: str) -> str:
    return f"sink.parquet={job.parent / name}"


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("ticks-*"))}


class Started(Forked):
    """``weir run`` in a process of its own, after some code."""

    def __init__(self, words: list[str], before: str, folder: Path) -> None:
        number, name = tempfile.mkstemp(prefix="errors-", dir=folder)
        os.close(number)
        self._errors = Path(name)
        super().__init__(words, Path.cwd(), os.environ, Path(f"{name}.out"), self._errors, before)

    def stderr(self, timeout: float) -> str:
        """Standard error, once the run has ended."""
        self.wait(timeout)
        return self._errors.read_text()


def process(job: Path, *words: str, before: str = "") -> Started:
    """Starts ``weir run``."""
    return Started(["run", str(job), *words], before, job.parent)


def test_a_run_is_entered_and_closed(weir: Weir, where: tuple[str, str], tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(where))
    before = json.loads(weir("plan", job, "--json").stdout)["ledger"]
    assert (before["spent"], before["fits"], before["known"]) == (0.0, True, None)
    result = weir("run", job, "--json")
    assert result.exit_code == 0, result.output
    (entry,) = entries(job)
    told = json.loads(result.stdout)["ledger"]
    assert told["entry"] == entry.id and told["together"] == pytest.approx(1.0)
    assert entry.state == "closed" and entry.running == ()
    assert entry.places == (str(job.parent / "out"),)
    kept = json.loads((job.parent / "out" / "_plan.json").read_text())["ledger"]
    assert kept == told and kept["head"] in book(job).hashes
    after = json.loads(weir("plan", job, "--json").stdout)["ledger"]
    assert after["spent"] == pytest.approx(1.0) and after["known"] == entry.id
    assert not after["fits"] and 0 < after["fitting"] < 1


def test_over_the_budget_nothing_is_read_or_written(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    told = bytes_in(job.parent / "out")
    (job.parent / "events.csv").unlink()  # anyone who opened it would say so
    refused = weir("run", job, "--secret-file", job.parent / "other.key", "--set", out(job, "b"))
    assert refused.exit_code == 2
    for part in (
        "weir: refused: ledger.budget = 'epsilon 1.3, delta 1e-06': is not enough",
        "1 is spent of epsilon 1.3",
        "asks for 1, and 0.",
        "is left: a plan like this one fits with privacy.epsilon: 0.",
    ):
        assert part in refused.stderr, part
    assert not (job.parent / "b").exists()
    assert len(entries(job)) == 1 and bytes_in(job.parent / "out") == told


def test_what_is_said_to_fit_fits(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    more = ("--secret-file", job.parent / "other.key", "--set", out(job, "b"))
    said = weir("run", job, *more).stderr
    epsilon = said.partition("privacy.epsilon: ")[2].split()[0]
    above = f"{float(epsilon) + 0.01:.3f}"
    assert weir("run", job, *more, "--set", f"privacy.epsilon={above}").exit_code == 2
    result = weir("run", job, *more, "--set", f"privacy.epsilon={epsilon}")
    assert result.exit_code == 0, result.output
    found = book(job)
    assert found.scope is not None
    assert found.scope.epsilon_of(found.spans[0].loss, 0.0) <= 1.3


def test_the_same_plan_and_secret_over_the_same_events_is_spent_once(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    (job.parent / "events.csv").rename(job.parent / "moved.csv")
    again = weir("run", job, "--set", out(job, "b"), "--set", f"source.csv={job.parent}/moved.csv")
    assert again.exit_code == 0, again.output
    assert bytes_in(job.parent / "out") == bytes_in(job.parent / "b")
    (entry,) = entries(job)
    assert len(entry.places) == 2 and entry.state == "closed"


def test_a_secret_that_was_used_on_other_events_is_refused(weir: Weir, job: Path) -> None:
    """Both releases would be the same up to the first difference."""
    assert weir("run", job).exit_code == 0
    (job.parent / "events.csv").write_text("\n".join(ROWS[:-1]) + "\n")
    again = weir("run", job, "--set", out(job, "b"))
    assert again.exit_code == 2 and "secret = '(not shown)'" in again.stderr
    assert "over other events" in again.stderr and "ab" * 32 not in again.stderr
    other = weir("run", job, "--set", out(job, "b"), "--secret-file", job.parent / "other.key")
    assert other.exit_code == 2 and "ledger.budget" in other.stderr  # an entry of its own
    assert len(entries(job)) == 1


def test_a_folder_that_is_gone_shows_nothing(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    (job.parent / "out").rename(job.parent / "archive")
    (job.parent / "events.csv").write_text("\n".join(ROWS[:-1]) + "\n")
    again = weir("run", job)
    assert again.exit_code == 2 and "over other events" in again.stderr


def test_what_was_held_back_is_corrected_under_a_secret_of_its_own(
    weir: Weir, tmp_path: Path
) -> None:
    """Noise was drawn for it: anyone who looked into the folder has seen it."""
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 4.0))
    bad = ["nonsense"] * len(ROWS) * 2
    (job.parent / "events.csv").write_text("\n".join([*ROWS, *bad]) + "\n")
    held = weir("run", job)
    assert held.exit_code == 1, held.output
    (entry,) = entries(job)
    assert entry.state == "closed"
    (job.parent / "events.csv").write_text("\n".join(ROWS) + "\n")
    assert "over other events" in weir("run", job).stderr
    for path in (job.parent / "out" / "_held").iterdir():
        path.unlink()
    assert "over other events" in weir("run", job).stderr
    new = ("--secret-file", job.parent / "other.key", "--set", out(job, "b"))
    assert weir("run", job, *new).exit_code == 0
    assert len(entries(job)) == 2


def test_a_fresh_secret_is_an_entry_each_time(weir: Weir, tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 2.0))
    job.write_text(job.read_text().replace("secret: {file: secret.key}\n", ""))
    for folder, code in (("a", 0), ("b", 0), ("c", 0), ("d", 2)):
        assert weir("run", job, "--set", out(job, folder)).exit_code == code
    assert len({entry.mark for entry in entries(job)}) == 3


def test_another_plan_under_the_same_secret_is_another_entry(weir: Weir, tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "a.db")), 4.0))
    assert weir("run", job).exit_code == 0
    changed = ("--set", "aggregates.paid.clip=[0, 60]", "--set", out(job, "b"))
    assert weir("run", job, *changed).exit_code == 0
    assert len(entries(job)) == 2


def test_events_of_other_times_have_a_budget_of_their_own(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    later = [
        ("--set", f"clock.start={start}", "--set", f"clock.end={end}", "--set", out(job, folder))
        for start, end, folder in (
            ("2024-01-01T23:00:00Z", "2024-01-02T23:00:00Z", "b"),
            ("2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z", "c"),
        )
    ]
    loose = ("--set", "limits.first_look=false", "--set", "limits.refused=1")
    assert "is not enough" in weir("run", job, *later[0], *loose).stderr
    result = weir("run", job, *later[1], *loose)
    assert result.exit_code == 0, result.output
    first, second = book(job).charges.values()
    assert [span.loss for span in book(job).spans] == [first.loss, second.loss]


def test_a_run_that_is_refused_before_it_starts_gives_its_entry_back(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job.parent / "events.csv").unlink()
    refused = weir("run", job)
    assert refused.exit_code == 2 and "source.csv" in refused.stderr
    (entry,) = entries(job)
    assert entry.state == "released" and not book(job).spans


def test_one_that_fails_after_it_started_stays_spent(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*words: object) -> None:
        raise WeirError("the machine is on fire.")

    monkeypatch.setattr("weir.pipelines.run.run._execute", fails)
    assert weir("run", job).exit_code == 1
    (entry,) = entries(job)
    assert entry.state == "running"
    monkeypatch.undo()
    assert weir("run", job).exit_code == 0
    (entry,) = entries(job)
    assert entry.state == "closed"


def test_killed_between_entering_and_starting_it_stays_spent_and_goes_on(
    weir: Weir, job: Path
) -> None:
    kill = (
        "import os, signal\n"
        "from weir.pipelines.graph.budget import Spent\n"
        "Spent.start = lambda self: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    dying = process(job, before=kill)
    dying.wait(120)
    assert dying.returncode == -signal.SIGKILL
    (entry,) = entries(job)
    assert entry.state == "reserved"
    other = weir("run", job, "--secret-file", job.parent / "other.key", "--set", out(job, "b"))
    assert other.exit_code == 2 and "is not enough" in other.stderr
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    (closed,) = entries(job)
    assert (closed.id, closed.state) == (entry.id, "closed")


def test_of_two_processes_at_once_exactly_one_runs(tmp_path: Path, where: tuple[str, str]) -> None:
    job = job_of(tmp_path / "job", section(where))
    pair = [
        process(job, "--set", out(job, name), "--secret-file", str(job.parent / f"{name}.key"))
        for name in ("secret", "other")
    ]
    stderr = [one.stderr(300) for one in pair]
    assert sorted(one.returncode for one in pair) == [0, 2], stderr
    assert len([text for text in stderr if "is not enough" in text]) == 1, stderr
    (entry,) = entries(job)
    assert entry.state == "closed"
    there = [name for name in ("secret", "other") if (job.parent / name).exists()]
    assert [str(job.parent / name) for name in there] == [entry.places[0]]


def test_an_entry_that_another_run_began_under_does_not_start(weir: Weir, job: Path) -> None:
    """Two runs of one plan and secret that see different files, one after the other."""
    code = (
        "import dataclasses\n"
        "from weir.pipelines.graph import budget\n"
        "start = budget.Spent.start\n"
        "def late(self):\n"
        "    asking = self.spending.asking\n"
        "    other = dataclasses.replace(asking.run, events='other')\n"
        "    asking = dataclasses.replace(asking, run=other)\n"
        "    budget.reserve(self.parts.ledger, asking).begin()\n"
        "    start(self)\n"
        "budget.Spent.start = late\n"
    )
    late = process(job, before=code)
    stderr = late.stderr(120)
    assert late.returncode == 2 and "over other events" in stderr
    (entry,) = entries(job)
    assert entry.state == "running" and [one.events for one in entry.began] == ["other"]
    assert not bytes_in(job.parent / "out")


def test_a_ledger_that_lost_its_end_is_found(weir: Weir, job: Path, tmp_path: Path) -> None:
    stored = tmp_path / "ledger.db"
    assert weir("run", job, "--set", "privacy.epsilon=0.1", "--set", out(job, "a")).exit_code == 0
    copy = stored.read_bytes()
    begun = process(job, before=(
        "import weir.pipelines.run.run as command\n"
        "def stop(*words): raise KeyboardInterrupt\n"
        "command._execute = stop\n"
    ))  # fmt: skip
    begun.wait(120)
    assert (job.parent / "out" / "_plan.json").exists()
    stored.write_bytes(copy)  # an old copy: the entry of the run is not in it
    again = weir("run", job)
    assert again.exit_code == 2 and "is not the one, or not all of the one" in again.stderr
    stored.unlink()
    assert "is not the one" in weir("run", job).stderr


def test_other_terms_than_the_scope_was_opened_with_are_refused(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    for field, value, remedy in (
        ("ledger.budget.epsilon", "9", "weir ledger add CONFIG --budget"),
        ("ledger.relation", "replace_one", "another scope"),
        ("ledger.accounting", "zcdp", "another scope"),
        ("ledger.protect_for", "90d", "another scope"),
        ("ledger.unit", "user", "another scope"),
    ):
        for command in ("plan", "run"):
            told = weir(command, job, "--set", f"{field}={value}", "--set", out(job, "b"))
            assert told.exit_code == 2, (field, command)
            assert field in told.stderr and remedy in told.stderr, told.stderr


def test_people_and_events_do_not_share_a_scope(weir: Weir, job: Path) -> None:
    refused = weir("run", job, "--set", "ledger.per=30d")
    assert refused.exit_code == 2 and "a scope of users takes plans of users" in refused.stderr
    assert weir("plan", job, "--set", "ledger.per=30d").exit_code == 2


def test_rehearsals_ask_nobody(weir: Weir, job: Path) -> None:
    assert weir("rehearse", job, "--events", 100, "--out", job.parent / "tried").exit_code == 0
    assert book(job).records == 0


def test_a_secret_that_cannot_be_read_is_refused(weir: Weir, job: Path) -> None:
    (job.parent / "secret.key").unlink()
    assert weir("run", job).exit_code == 2
    assert book(job).records == 0


def test_a_clock_without_end_has_an_open_range(tmp_path: Path) -> None:
    from weir.pipelines.graph.checks import plan_of
    from weir.pipelines.ledger.reservations import reserve

    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "ledger.db"))))
    stream = load(job, ["clock.end=null", "source=null", "mechanism=null"])
    assert stream.ledger is not None
    reserve(stream.ledger, asking(plan_of(stream), "mark", "topic"))
    (entry,) = entries(job)
    assert entry.price.last is None
    (span,) = book(job).spans
    assert span.last is None


def test_status_diff_and_summary_say_it(weir: Weir, job: Path) -> None:
    told = weir("run", job).stdout
    assert "Ledger, customers: 1 is spent of epsilon 1.3" in " ".join(told.split())
    assert of_folder(job.parent / "out")["ledger"]["entry"] == entries(job)[0].id
    assert "budget of customers" in weir("status", job.parent / "out").stdout
    other = job.with_name("other.yaml")
    other.write_text(job.read_text().replace("epsilon: 1.0,", "epsilon: 0.2,"))
    page = " ".join(weir("diff", job, other).stdout.split())
    assert "Budget of customers, A:" in page and "Budget of customers, B next to A:" in page
    found = json.loads(weir("diff", job, other, "--json").stdout)["ledger"]
    assert found[1]["spent"] == pytest.approx(1.0) and found[1]["fits"]
    assert weir("report", job.parent / "out").exit_code == 0
    page = next((job.parent / "out").rglob("*.html")).read_text()
    assert "Budget of customers when this run began" in page


def test_a_diff_counts_what_is_not_entered_yet(weir: Weir, job: Path) -> None:
    other = job.with_name("other.yaml")
    other.write_text(job.read_text().replace("[0, 50]", "[0, 60]"))
    found = json.loads(weir("diff", job, other, "--json").stdout)["ledger"]
    assert found[0]["fits"] and not found[1]["fits"]
    assert found[1]["spent"] == pytest.approx(1.0)
    assert book(job).records == 0


def test_nothing_of_a_ledger_is_in_what_is_not_asked(weir: Weir, tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", "")
    assert "ledger" not in json.loads(weir("run", job, "--json").stdout)
    assert "ledger" not in json.loads((job.parent / "out" / "_plan.json").read_text())
    assert "ledger" not in json.loads(weir("plan", job, "--json").stdout)
    assert Spent(parts_of(load(job))).facts is None
