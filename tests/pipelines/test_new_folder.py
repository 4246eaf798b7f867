"""``weir run --new`` writes next to what is there, and says what that costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.pipelines.config.job import load
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.run.new_folder import beside


@pytest.fixture
def job(small: Path) -> Path:
    (small.parent / "events.csv").write_text("at,id,store,amount\n2024-01-01T05:00:00Z,a,north,5\n")
    for name, value in (("secret.key", "ab"), ("other.key", "cd")):
        (small.parent / name).write_text(value * 32)
        (small.parent / name).chmod(0o600)
    small.write_text(small.read_text() + "secret: {file: secret.key}\n")
    return small


def said(job: Path, *sets: str) -> tuple[str, str]:
    """Name of the folder, and what is said of it."""
    sink, note = beside(parts_of(load(job, sets)))
    return Path(str(sink.place)).name, note or ""


@pytest.mark.slow
def test_the_next_free_folder_is_taken_and_a_secret_kept_costs_nothing(
    weir: Weir, job: Path
) -> None:
    assert said(job) == ("out", "")
    assert weir("run", job, "--new").exit_code == 0
    name, note = said(job)
    assert name == "out-2" and "the same bytes and costs nothing more" in note
    again = weir("run", job, "--new", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["notes"][0].startswith("Writes to ")
    folders = [job.parent / name for name in ("out", "out-2")]
    first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert first == second and "_COMPLETE" in first
    assert said(job)[0] == "out-3"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sets", "together"),
    [
        (["secret.file=other.key"], "epsilon 2, delta 2e-06"),
        (["secret=null"], "epsilon 2, delta 2e-06"),
        (["privacy.epsilon=0.5"], "epsilon 1.5, delta 2e-06"),
    ],
)
def test_another_secret_or_plan_adds_up(
    weir: Weir, job: Path, sets: list[str], together: str
) -> None:
    assert weir("run", job).exit_code == 0
    assert weir("run", job, "--new").exit_code == 0  # the same bytes once more: no look of its own
    name, note = said(job, *sets)
    assert name == "out-3" and "spends the budget again" in note and together in note


@pytest.mark.slow
def test_a_folder_without_a_mark_counts_as_another_secret(weir: Weir, job: Path) -> None:
    assert weir("run", job).exit_code == 0
    (job.parent / "out" / "_marks.json").unlink()
    assert "epsilon 2, delta 2e-06" in said(job)[1]


def test_it_is_for_folders_and_files(weir: Weir, job: Path) -> None:
    for sets in (
        "sink={stdout: true}",
        "source={pubsub: {subscription: projects/acme-1/subscriptions/all}}",
    ):
        result = weir("run", job, "--new", "--set", sets, "--runner", "prism")
        assert result.exit_code == 2 and "--new" in result.stderr
