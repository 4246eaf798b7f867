"""The package of examples/extensions adds a continual sum, an aggregate, a learner, a batch solver,
a sink and a format, each by one file and one entry point; docs/contributors/extending.md quotes it.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tests.constant_noise import NoNoise
from tests.contracts.cases import Case
from tests.contracts.test_loss import TICKS, replayed
from weir.dpcore import registry
from weir.dpcore.bounded_events import Events
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.plan import Plan
from weir.dpcore.registry import CONTINUAL_SUMS, MODELS
from weir.dpcore.simulate import simulate
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import json_schema

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "examples" / "extensions"
START, HOUR = 1_704_067_200_000_000, 3_600_000_000
COMMON = """
name: toys
schema: {time: {column: t, zone: UTC}}
source: {csv: events.csv}
secret: {file: secret.key}
sink: {parquet: out/}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T12:00:00Z}
privacy: {epsilon: 8.0, delta: 1e-5, protect_for: all}
"""
MODEL = """
model:
  algorithm: %s
  features: [u]
  target: y
  ranges: {u: [0, 2], y: [0, 8]}
"""
CONFIGS = {
    "fresh": "mechanism: {continual_sum: fresh}\naggregates: {n: {count: events, over: [all, 3]}}",
    "share_above": "aggregates: {high: {share_above: u, threshold: 1, over: [all, 2]}}",
    "toys.calm": MODEL % "toys.calm" + "  calm: 3.0\n",
    "brief": MODEL % "regression.erm" + "  solver: brief\n  every: 4\n  cap: 64\n",
}


def forget() -> None:
    """Installed packages are looked up again."""
    importlib.invalidate_caches()
    registry.installed.cache_clear()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the page prints, as an installed package."""
    site = tmp_path_factory.mktemp("site")
    about = site / "weir_toys-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: weir-toys\nVersion: 1.0\n")
    groups = tomllib.loads((EXTENSIONS / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    shutil.copytree(EXTENSIONS / "weir_toys", site / "weir_toys")
    sys.path.insert(0, str(site))
    forget()
    yield site
    sys.path.remove(str(site))
    for name in [name for name in sys.modules if name.startswith("weir_toys")]:
        del sys.modules[name]
    forget()


@pytest.fixture(params=CONFIGS)
def job(request: pytest.FixtureRequest, package: Path, tmp_path: Path) -> Path:
    """A config that uses one of them, next to its events."""
    rng = np.random.default_rng(4)
    lines = ["t,u,y"]
    for i in range(240):
        u = rng.uniform(0, 2)
        lines.append(f"2024-01-01T{i // 20:02d}:{i % 20 * 3:02d}:00Z,{u:.3f},{1 + 3 * u:.3f}")
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "secret.key").write_text("11" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    (tmp_path / "job.yaml").write_text(COMMON + CONFIGS[request.param])
    return tmp_path / "job.yaml"


def weir(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_each_goes_from_plan_to_report(job: Path) -> None:
    made = Plan.from_yaml(job.read_text())
    assert made.guarantee.expiration[0].epsilon <= 8.0
    planned = json.loads(weir("plan", str(job), "--json"))
    assert planned["digest"] == made.digest
    assert all(one["what"] for one in planned["releases"]), "said in words of its own"
    assert weir("plan", str(job))
    weir("run", str(job))
    results = json.loads((job.parent / "out" / "_plan.json").read_text())
    assert results["digest"] == made.digest
    weir("report", str(job.parent / "out"))
    (page,) = (job.parent / "out").glob("*.html")
    assert made.name in page.read_text()
    jsonschema.Draft202012Validator(json_schema()).validate(yaml.parse_mapping(job.read_text(), {}))


def test_their_bounds_and_words_are_known_everywhere(package: Path) -> None:
    known = {entry["name"]: entry for entry in json.loads(weir("algorithms", "--json"))}
    assert {"fresh", "toys.calm"} <= known.keys()
    assert "calm" in known["toys.calm"]["fields"]
    assert {"share_above", "threshold"} <= known["aggregates"]["fields"].keys()
    validator = jsonschema.Draft202012Validator(json_schema())
    for text, field in (
        (CONFIGS["toys.calm"].replace("3.0", "0.5"), "model.calm"),
        (CONFIGS["share_above"].replace("threshold: 1", "threshold: high"), "threshold"),
        (CONFIGS["brief"].replace("brief", "short"), "model.solver"),
    ):
        with pytest.raises(ConfigError) as refused:
            Plan.from_yaml(COMMON + text)
        assert field in refused.value.field
        assert list(validator.iter_errors(yaml.parse_mapping(COMMON + text, {})))


def test_a_format_is_written_and_read(package: Path, tmp_path: Path) -> None:
    from weir.transforms.formats.registry import FORMATS, format_of

    path = tmp_path / "events.orc"
    columns = {"t": ["2024-01-01T00:00:00Z"] * 3, "u": [1.0, 2.0, 0.5], "y": [4.0, 7.0, 2.5]}
    writer = FORMATS["orc"].writer(path.open("wb"))
    writer.write(pa.RecordBatch.from_pydict(columns))
    writer.close()
    form = format_of(path)
    assert form is not None
    assert [row for table in form.tables(str(path)) for row in table.to_pydict()["u"]] == [
        1,
        2,
        0.5,
    ]
    assert f"source: {{orc: {path}}}" in weir("init", str(path))


@pytest.mark.slow
@pytest.mark.parametrize("job", ["fresh"], indirect=True)
def test_a_sink_keeps_each_release_once(job: Path) -> None:
    job.write_text(job.read_text().replace("sink: {parquet: out/}", "sink: {sqlite: out.db}"))
    for _ in range(2):
        weir("run", str(job), "--runner", "direct")
    with sqlite3.connect(job.parent / "out.db") as database:
        stored = [json.loads(row) for (row,) in database.execute("SELECT release FROM releases")]
    assert {(row["tick"], row["over"]) for row in stored} == {
        (tick, over) for tick in range(12) for over in (None, 3)
    }
    assert len(stored) == 24
    refused = CliRunner().invoke(main, ["run", str(job), "--runner", "local"])
    assert refused.exit_code != 0 and "--runner" in refused.output


@pytest.mark.parametrize("language", ["toml", "python"])
def test_the_page_quotes_the_package(language: str) -> None:
    page = (ROOT / "docs" / "contributors" / "extending.md").read_text()
    blocks = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        named = re.match(r"# (weir_toys/\w+\.py)\n", block)
        file = named[1] if named else "pyproject.toml"
        text = (EXTENSIONS / file).read_text()
        for part in re.split(
            r"^ *# \.\.\.\n", block[named.end() if named else 0 :], flags=re.MULTILINE
        ):
            for piece in re.split(r"\n\n(?=\[)", part) if language == "toml" else [part]:
                assert piece.strip("\n") in text, (file, piece)


def test_installing_a_sum_changes_no_plan(package: Path) -> None:
    text = COMMON + "aggregates: {n: {count: events}}"
    with_it = Plan.from_yaml(text)
    assert "fresh" not in {one.mechanism for one in with_it.alternatives}
    assert "fresh" in CONTINUAL_SUMS and "fresh" not in CONTINUAL_SUMS.own


@pytest.mark.parametrize("kind", ["gaussian", "k_norm"])
@pytest.mark.parametrize("window", [1, 4, None])
def test_what_the_sum_claims_holds_by_replay(kind: str, window: int | None, package: Path) -> None:
    case = Case("fresh", kind, window, (None, 3))
    mechanism = case.make(TICKS)
    for ticks in (1, 2, TICKS):
        assert replayed(case, mechanism, ticks) <= mechanism.loss(ticks).value * (1 + 1e-9)


def test_the_share_is_the_true_one_without_noise(package: Path) -> None:
    u = np.array([0.1, 0.9, 1.0, 1.7, 1.9])
    made = Plan.from_yaml(COMMON + CONFIGS["share_above"])
    events = Events(START + np.arange(5) * HOUR, None, {"u": u})
    (one,) = simulate(made, events, bytes(32), noise=NoNoise())
    whole, last = one.released
    np.testing.assert_allclose(whole.value[4, 0, 0], 3 / 5, atol=0.2)
    assert last.value.shape == (12, 1, 1)


def test_two_packages_cannot_share_a_name(package: Path) -> None:
    about = package / "others-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[weir.algorithms.models]\ntoys.calm = others.calm:Calm\n"
    )
    forget()
    try:
        with pytest.raises(WeirError, match=r"toys\.calm"):
            list(MODELS)
    finally:
        for file in about.iterdir():
            file.unlink()
        about.rmdir()
        forget()
