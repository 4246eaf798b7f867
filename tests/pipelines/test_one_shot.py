"""Jobs without a clock, from files of any format to each sink, report and ledger."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import weir as public
from tests.pipelines.conftest import Weir
from weir.dpcore.accounting.scope import charge
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.registry import MODELS as REGISTERED
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger.charge_request import opened, price_of

TIMES = ("tick", "tick_start", "tick_end")
KILL = """
import os, signal, sys
from weir.transforms.operators.write import Write
Write.process = lambda self, batch: os.kill(os.getpid(), signal.SIGKILL)
from weir.pipelines.cli.main import main
main()
"""
"""A run that dies when it has released in memory and written nothing."""
ROWS = [
    {"user": f"u{i % 200}", "city": ("Oslo", "Rome", "Bern")[i % 3], "spent": float(i % 50)}
    for i in range(600)
]
EVENTS = """\
name: visits
source: {SOURCE}
key: {column: city, declared: [Oslo, Rome, Bern]}
privacy: {epsilon: 1, delta: 1e-6}
aggregates:
  visits: {count: events}
  spent: {sum: spent, clip: [0, 50]}
  sizes: {histogram: spent, edges: [0, 10, 50]}
secret: {file: secret.key}
sink: {csv: out/}
"""
USERS = """\
name: visits
source: {csv: rows.csv}
schema: {unit: user}
key: {column: city, discover: {min_users: 3}}
privacy: {epsilon: 2, delta: 1e-6, unit: user, contributions: {keys: 2, events: 5}}
aggregates:
  visits: {count: events}
  people: {count: users}
secret: {file: secret.key}
sink: {csv: out/}
"""
BARE = "name: n\nprivacy: {epsilon: 1, delta: 1e-6}\naggregates: {n: {count: events}}\n"


def written(folder: Path, form: str) -> str:
    """The rows in a file; how a source names it."""
    table, path = pa.Table.from_pylist(ROWS), folder / f"rows.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(table, path)
    elif form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    elif form == "avro":
        import fastavro

        kinds = {"user": "string", "city": "string", "spent": "double"}
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, ROWS)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return f"{form}: rows.{form}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, value in (("secret.key", "ab"), ("other.key", "cd")):
        (tmp_path / name).write_text(value * 32)
        (tmp_path / name).chmod(0o600)
    return tmp_path


@pytest.fixture
def users(folder: Path) -> Path:
    written(folder, "csv")
    path = folder / "users.yaml"
    path.write_text(USERS)
    return path


def read(folder: Path) -> list[dict[str, Any]]:
    """Rows of the only file."""
    (path,) = folder.glob("ticks-*")
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    if path.suffix == ".ndjson":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return list(csv.DictReader(path.open()))


def values(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], float]:
    return {(row["key"], row["name"], row["label"]): float(row["value"]) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet", "ndjson", "arrow", "avro"])
def test_every_format_and_both_engines_give_the_same_bits(
    weir: Weir, folder: Path, form: str
) -> None:
    source = written(folder, form)
    job = folder / "visits.yaml"
    job.write_text(EVENTS.replace("SOURCE", source))
    released = []
    for runner in ("local", "direct"):
        result = weir("run", job, "--runner", runner, "--set", f"sink.csv={runner}/")
        assert result.exit_code == 0, result.output
        released.append(values(read(folder / runner)))
    frame = public.release(pa.Table.from_pylist(ROWS), load(job).model_copy(update={"sink": None})
                           .model_copy(update={"secret": None}))  # fmt: skip
    assert released[0] == released[1] and len(released[0]) == 3 * 4
    assert {(row.key, row.name, row.label) for row in frame} == released[0].keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sink",
    ["{csv: out/}", "{parquet: out/}", "{ndjson: out/}", "{parquet: out/, layout: packed}"],
)
def test_tick_columns_are_empty_in_every_file(weir: Weir, users: Path, sink: str) -> None:
    users.write_text(USERS.replace("{csv: out/}", sink))
    result = weir("run", users)
    assert result.exit_code == 0, result.output
    rows = read(users.parent / "out")
    assert rows and {row[name] or None for row in rows for name in (*TIMES, "over")} == {None}
    assert "tick" not in result.stdout.partition("For the operator")[0]
    for words in (
        ("report", users.parent / "out", "--statement"),
        ("status", users.parent / "out"),
        ("report", users.parent / "out", "--wide"),
    ):
        shown = weir(*words)
        assert shown.exit_code == 0, shown.output
        assert "1970" not in shown.output
    for name in ("report.html", "statement.html"):
        text = (users.parent / "out" / name).read_text()
        assert "1970" not in text.partition("<script")[0]
        assert "in this release" in text or "this release" in text


@pytest.mark.slow
def test_tables_on_the_terminal_have_no_ticks(weir: Weir, users: Path) -> None:
    users.write_text(USERS.replace("{csv: out/}", "{stdout: true}"))
    plain = weir("run", users)
    wide = weir("run", users, "--wide")
    assert plain.exit_code == wide.exit_code == 0, (plain.output, wide.output)
    assert wide.stdout.splitlines()[0].split()[:2] == ["key", "visits"]
    assert "1970" not in plain.output + wide.output


@pytest.mark.slow
def test_a_plan_says_this_release_and_nothing_of_ticks(weir: Weir, users: Path) -> None:
    result = weir("plan", users, "--full")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "Whatever an observer looks for in this release" in text
    assert "none: all rows are one release" in text and "> independent" in text
    assert "tick" not in text and "since the start" not in text and "period" not in text
    assert "blt" not in text and "tree" not in text.replace("window_tree discrete", "")
    (facts,) = [json.loads(weir("plan", users, "--json").stdout)]
    assert facts["clock"] == {"once": True} and facts["user"]["every_period"] is None
    dbt = weir("schema", "--dbt", users)
    if dbt.exit_code == 0:
        assert "tick" in dbt.stdout


@pytest.mark.slow
def test_a_rehearsal_and_a_diff_know_no_clock(weir: Weir, users: Path) -> None:
    result = weir("rehearse", users, "--events", "500")
    assert result.exit_code == 0, result.output
    assert "all rows" in result.stdout and "1970" not in result.output
    again = weir("diff", users, users)
    assert again.exit_code == 0, again.output


@pytest.mark.slow
def test_it_is_held_back_published_and_gone_on_with(weir: Weir, users: Path) -> None:
    good = (users.parent / "rows.csv").read_text()
    bad = "".join(f",Oslo,{n}\n" for n in range(400))
    (users.parent / "rows.csv").write_text(good + bad)
    held = weir("run", users)
    out = users.parent / "out"
    assert held.exit_code == 1 and not list(out.glob("ticks-*")), held.output
    assert weir("run", users, "--publish").exit_code == 0
    rows = values(read(out))
    (out / "_COMPLETE").unlink()
    again = weir("run", users)
    assert again.exit_code in (0, 1) and values(read(out)) == rows


def test_a_stream_without_a_clock_is_refused(weir: Weir, folder: Path) -> None:
    job = folder / "stream.yaml"
    section = "pubsub: {subscription: projects/acme-data/subscriptions/visits}"
    job.write_text(EVENTS.replace("SOURCE", section).replace("{csv: out/}", "{stdout: true}"))
    result = weir("plan", job)
    assert result.exit_code == 2 and "clock is missing" in result.stderr, result.output
    assert "has no end" in result.stderr
    from weir.transforms.beam.private_releases import PrivateReleases

    with pytest.raises(ConfigError, match="clock is missing"):
        PrivateReleases(Plan.from_yaml(BARE), bounded=False)


@pytest.mark.parametrize("extra", ["", "key: {column: city, declared: [Oslo]}\n"])
def test_a_secret_rotates_by_no_tick(weir: Weir, folder: Path, extra: str) -> None:
    written(folder, "csv")
    job = folder / "visits.yaml"
    rotate = "rotate: [{from: 2025-01-01T00:00:00Z, file: other.key}]"
    job.write_text(
        EVENTS.replace("SOURCE", "csv: rows.csv").replace("secret.key}", f"secret.key, {rotate}}}")
    )
    result = weir("plan", job)
    assert result.exit_code == 2 and "secret.rotate" in result.stderr, result.output
    assert "needs a clock" in result.stderr


LEDGER = "ledger: {sqlite: ledger.db, scope: people, budget: {epsilon: 4, delta: 1e-5}PER}\n"
YEARS = """\
name: years
source: {csv: rows.csv}
schema: {time: at, unit: user}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2026-01-01T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all, unit: user, per: 30d,
          contributions: {ticks: 1, keys: 1, events: 1}}
aggregates: {visits: {count: events}}
sink: {csv: years/}
"""


def test_it_is_charged_in_every_period_of_a_ledger(users: Path) -> None:
    """Its rows have no times: whoever has spent in any period may be in them."""
    users.write_text(USERS + LEDGER.replace("PER", ", per: 30d"))
    job = load(users)
    plan = plan_of(job)
    assert job.ledger is not None
    scope = opened(job.ledger, plan)
    charged = charge(price_of(plan, scope), scope)
    assert charged.first <= -(2**61) and charged.last is None
    # All rows of a user in one of these periods are a part of all their rows: a replacement.
    alone = opened(job.ledger.model_copy(update={"per": "all"}), plan)
    whole = charge(price_of(plan, alone), alone)
    assert charged.loss == pytest.approx(4 * whole.loss) and charged.slack == 2 * whole.slack
    other = users.parent / "years.yaml"
    other.write_text(YEARS + LEDGER.replace("PER", ", per: 30d"))
    dated = charge(price_of(plan_of(load(other)), scope), scope)
    assert dated.first > charged.first and dated.last is not None  # and so it meets them all


def test_events_are_charged_whenever_they_happened(users: Path) -> None:
    text = EVENTS.replace("SOURCE", "csv: rows.csv") + LEDGER.replace("PER", "")
    users.write_text(text)
    job = load(users)
    assert job.ledger is not None
    scope = opened(job.ledger, plan_of(job))
    charged = charge(price_of(plan_of(job), scope), scope)
    assert charged.first <= -(2**61) and charged.last is None


@pytest.mark.slow
def test_a_second_run_with_a_fresh_secret_spends_again(weir: Weir, users: Path) -> None:
    users.write_text(USERS.replace("secret: {file: secret.key}\n", "") + LEDGER.replace("PER", ""))

    def spent() -> float:
        shown = weir("ledger", "show", users, "--json")
        assert shown.exit_code == 0, shown.output
        return float(json.loads(shown.stdout)["scopes"][0]["spent"])

    assert weir("run", users).exit_code == 0
    once = spent()
    second = weir("run", users, "--set", "sink.csv=again/")
    assert second.exit_code == 0, second.output
    assert spent() > once * 1.2
    page = weir("ledger", "show", users)
    assert "since ever" in page.stdout or "the first on" in page.stdout, page.stdout
    third = weir("run", users, "--set", "sink.csv=third/", "--set", "privacy.epsilon=3.9")
    assert third.exit_code == 2 and "left" in third.stderr  # refused before it reads


@pytest.mark.slow
def test_a_secret_that_is_kept_is_no_second_look(weir: Weir, users: Path) -> None:
    users.write_text(USERS + LEDGER.replace("PER", ""))
    assert weir("run", users).exit_code == 0
    again = weir("run", users, "--set", "sink.csv=again/")
    assert again.exit_code == 0, again.output
    assert values(read(users.parent / "again")) == values(read(users.parent / "out"))
    (users.parent / "rows.csv").write_text((users.parent / "rows.csv").read_text() + "u1,Oslo,3\n")
    other = weir("run", users, "--set", "sink.csv=other/")
    assert other.exit_code == 2 and "was used for this very plan" in other.stderr


@pytest.mark.slow
def test_bounds_of_a_user_hold_over_all_rows(folder: Path) -> None:
    draw = random.Random(3)
    rows = [{"user": "one", "city": draw.choice("abcdef")} for _ in range(500)]
    found = public.release(
        rows,
        {
            "name": "n",
            "schema": {"unit": "user"},
            "key": {"column": "city", "declared": list("abcdef")},
            "privacy": {
                "epsilon": 1e9, "delta": 1e-6, "unit": "user",
                "contributions": {"keys": 2, "events": 5},
            },
            "aggregates": {"n": {"count": "events"}},
        },
    )  # fmt: skip
    counts = sorted(round(row.value or 0) for row in found)
    assert counts == [0, 0, 0, 0, 5, 5]


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(weir: Weir, users: Path) -> None:
    """It reads everything again: nothing of a run that died is needed."""
    whole = weir("run", users, "--set", "sink.csv=whole/")
    assert whole.exit_code == 0, whole.output
    dying = subprocess.run(
        [sys.executable, "-c", KILL, "run", str(users)],
        capture_output=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert dying.returncode == -signal.SIGKILL
    out = users.parent / "out"
    assert out.exists() and not list(out.rglob("ticks-*"))
    again = weir("run", users)
    assert again.exit_code == 0, again.output
    (one,), (other,) = (list(path.glob("ticks-*")) for path in (out, users.parent / "whole"))
    assert one.read_bytes() == other.read_bytes()
    assert weir("run", users).exit_code == 2, "it is complete"


def fitted(algorithm: str, more: str) -> Any:
    """theta of a one-shot plan over 3,000 rows: y = 2 + u, in units of its ranges."""
    rng, n = np.random.default_rng(0), 3000
    u, v = rng.uniform(-1, 1, (2, n))
    plan = Plan.from_yaml(
        "name: n\nschema: {id: i}\nprivacy: {epsilon: 50, delta: 1e-6}\n"
        f"model:\n  algorithm: {algorithm}\n  features: [u, v]\n  target: y\n"
        f"  ranges: {{u: [-1, 1], v: [-1, 1], y: [-5, 5]}}\n{more}"
    )
    columns = {"u": u, "v": v, "y": 2 + u}
    events = public.Events(np.zeros(n, np.int64), None, columns, [str(i) for i in range(n)])
    (one,) = public.simulate(plan, events, bytes(32), ticks=1)
    return next(out.value.ravel() for out in one.released if out.name == "theta")


BLOCK = "  block: 200\n"
MODELS = {
    "regression.incremental": "",
    "regression.two_trees": "",
    "regression.erm": "",
    "regression.naive": "",
    "erm.output_perturbation": BLOCK,
    "erm.independent_batches": BLOCK,
    "erm.sliding_window": BLOCK,
    "erm.multi_resolution": BLOCK,
    "erm.continual": BLOCK,
    "erm.basic_continual": BLOCK,
    "erm.sampled": BLOCK,
    "optimize.frank_wolfe": BLOCK + "  set: {l1_ball: 2}\n",
    "optimize.sfw_tree": "  records: 500\n  set: {l2_ball: 1}\n",
    "optimize.sfw_polyhedral": "  records: 500\n  set: {l1_ball: 2}\n",
    "optimize.phased_sgd": "  records: 500\n  set: {l2_ball: 1}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", MODELS)
def test_a_model_is_fitted_to_all_rows(algorithm: str) -> None:
    theta = fitted(algorithm, MODELS[algorithm])
    assert np.isfinite(theta).all() and np.abs(theta).max() > 0, theta


def test_every_model_is_fitted_or_refused_without_a_clock() -> None:
    others = [name for name in REGISTERED.own if name not in (*MODELS, "regression.projected")]
    assert others and all(name.startswith("online.") for name in others)


@pytest.mark.parametrize("name", ["erm.output_perturbation", "optimize.frank_wolfe"])
def test_blocks_of_a_time_need_a_clock(name: str) -> None:
    text = (
        "name: n\nSCHEMAprivacy: {epsilon: 1, delta: 1e-6}\nmodel: {algorithm: NAME, features: [u]"
        ", target: y, ranges: {u: [0, 1], y: [0, 1]}, block: BLOCK SET}\n"
    ).replace("NAME", name)
    text = text.replace(" SET", ", set: {l1_ball: 2}" if name.startswith("optimize") else "")
    with pytest.raises(ConfigError, match=r"model\.block = '24h': is a time.*like block: 1000"):
        Plan.from_yaml(text.replace("SCHEMA", "").replace("BLOCK", "24h"))
    with pytest.raises(ConfigError, match=r"schema\.id is needed") as refused:
        Plan.from_yaml(text.replace("SCHEMA", "").replace("BLOCK", "100"))
    assert "duration" not in str(refused.value) and "7d" not in str(refused.value)
