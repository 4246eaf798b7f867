"""Runs in which no key is live, at first or at all: normal where keys are found in private."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.pipelines.results.run import ResultFolder

pytestmark = pytest.mark.slow

CONFIG = """\
name: pages
source: {{csv: events.csv}}
schema: {{time: at, unit: user, id: id}}
key: {{column: page, discover: {{min_users: 3}}}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-21T00:00:00Z}}
privacy: {{epsilon: 60, delta: 1e-6, unit: user, per: all, protect_for: all,
          contributions: {{ticks: 1, keys: 1, events: 1}}}}
aggregates: {{newcomers: {{count: users, per: period}}}}
secret: {{file: secret.key}}
sink: {{{form}: out/, every: 5}}
"""


def job(folder: Path, form: str, users: int) -> Path:
    """Users come on the twelfth day, to one page."""
    rows = [f"2025-01-12T00:00:00Z,u{i},e{i},home" for i in range(users)]
    (folder / "events.csv").write_text("\n".join(["at,user,id,page", *rows]) + "\n")
    (folder / "secret.key").write_bytes(b"s" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "pages.yaml").write_text(CONFIG.format(form=form))
    return folder / "pages.yaml"


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_run_that_finds_no_key_says_so(tmp_path: Path, weir: Weir, form: str) -> None:
    done = weir("run", job(tmp_path, form, users=2))
    assert done.exit_code == 0, done.output
    assert "No key was found: it takes 3 users of a key in a period" in " ".join(
        done.output.split()
    )
    assert "draws them" not in done.output
    status = weir("status", tmp_path / "out", "--json")
    assert status.exit_code == 0, status.output
    facts = json.loads(status.stdout)
    (entry,) = facts if isinstance(facts, list) else [facts]
    assert entry["last_tick"] == 19 and entry["complete"] and entry["last_tick_end"] is None
    assert weir("status", tmp_path / "out").exit_code == 0
    drawn = weir("report", tmp_path / "out")
    assert drawn.exit_code == 2 and "no key was live at any tick; keys are found" in drawn.output


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_key_that_is_found_late_is_shown_from_then_on(
    tmp_path: Path, weir: Weir, form: str
) -> None:
    done = weir("run", job(tmp_path, form, users=500))
    assert done.exit_code == 0 and "home" in done.output, done.output
    run = ResultFolder.open(tmp_path / "out")
    assert len(run.files) == 4 and run.first_tick == 11 and run.last_tick == 19
    drawn = weir("report", tmp_path / "out")
    assert drawn.exit_code == 0, drawn.output
    assert weir("report", tmp_path / "out", "--wide").exit_code == 0
