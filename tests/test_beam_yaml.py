"""Beam YAML: the example runs as its first line says, and rows of other steps are events too."""

from __future__ import annotations

import shutil
import tomllib
from datetime import datetime
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.yaml import main as yaml_main
from apache_beam.yaml.yaml_transform import YamlTransform
from packaging.requirements import Requirement

from weir.beam_yaml import PrivateReleases
from weir.dpcore.errors import ConfigError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "beam_yaml"
CONFIG: dict[str, Any] = {
    "name": "visits",
    "schema": {"time": "at"},
    "clock": {"start": "2025-01-01T00:00:00Z", "period": "1d", "end": "2025-01-04T00:00:00Z"},
    "privacy": {"epsilon": 1, "delta": "1e-6", "protect_for": "all"},
    "aggregates": {"spent": {"sum": "amount", "clip": [0, 5], "over": ["all", 2]}},
}


def test_the_example_runs_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    said = (EXAMPLE / "visits.yaml").read_text().splitlines()[1]
    _, _, command = said.partition("python -m apache_beam.yaml.main ")
    monkeypatch.chdir(tmp_path)
    yaml_main.run(command.split())
    lines = "".join(file.read_text() for file in tmp_path.glob("out/releases.csv*")).splitlines()
    assert len(lines) == 3 * 14 * 2 and {line.split(",")[0] for line in lines} == {
        "Bern",
        "Lyon",
        "Turin",
    }
    refused = "".join(file.read_text() for file in tmp_path.glob("out/refused.csv*")).splitlines()
    assert sorted(refused) == ["10,visited_at,unreadable_time", "8,amount,not_a_number"]


def test_rows_of_a_step_before_are_events_and_parquet_takes_the_releases(tmp_path: Path) -> None:
    spec = f"""
type: chain
transforms:
  - type: Create
    config:
      elements: [{{at: "2025-01-01T00:00:00Z", amount: 3.5}}, {{at: "no time", amount: 1.5}}]
  - type: PrivateReleases
    config: {CONFIG}
  - type: WriteToParquet
    config: {{path: "{tmp_path / "out"}", num_shards: 1}}
"""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        pipeline | YamlTransform(spec, {"PrivateReleases": _provider()})
    (file,) = tmp_path.glob("out*")
    rows = pq.read_table(file).to_pylist()
    assert len(rows) == 3 * 2 and {row["over"] for row in rows} == {None, 2}
    assert {row["tick_start"] for row in rows} >= {"2025-01-01T00:00:00Z"}
    assert all(row["low"] < row["value"] < row["high"] for row in rows)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2025-01-01T00:00:00Z", "2025-01-04T00:00:00Z"),
        ("2025-01-01", "2025-01-04"),
        ("2025-01-01T01:00:00+01:00", "'2025-01-04T00:00:00Z'"),
    ],
)
def test_times_need_no_quotes(start: str, end: str) -> None:
    """Beam reads them as times, and writes what it read as JSON."""
    privacy, aggregates = CONFIG["privacy"], CONFIG["aggregates"]
    spec = f"""
type: chain
transforms:
  - type: Create
    config:
      elements: [{{at: "2025-01-01T00:00:00Z", amount: 3.5}}]
  - type: PrivateReleases
    config:
      name: visits
      schema: {{time: at}}
      clock: {{start: {start}, period: 1d, end: {end}}}
      privacy: {privacy}
      aggregates: {aggregates}
"""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        pipeline | YamlTransform(spec, {"PrivateReleases": _provider()})


def test_a_time_without_a_zone_is_refused_in_words() -> None:
    clock = {**CONFIG["clock"], "start": datetime(2025, 1, 1, 5)}
    with pytest.raises(ConfigError, match="clock.start = '2025-01-01T05:00:00': must say its zone"):
        PrivateReleases(**{**CONFIG, "clock": clock})


def test_the_extra_installs_what_beam_yaml_needs() -> None:
    """Beam's own extra says which pandas its readers work with: the newest is none."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (base,) = [one for one in extras["dependencies"] if one.startswith("apache-beam")]
    (beam_yaml,) = extras["optional-dependencies"]["yaml"]
    assert beam_yaml == base.replace("apache-beam", "apache-beam[yaml]")
    asked = [Requirement(one) for one in requires("apache-beam") or ()]
    pandas = [
        one.specifier
        for one in asked
        if one.name == "pandas"
        and one.marker is not None
        and one.marker.evaluate({"extra": "yaml"})
    ]
    assert pandas and not any("3.0.0" in one for one in pandas)


def _provider() -> Any:
    from apache_beam.yaml.yaml_provider import InlineProvider

    return InlineProvider({"PrivateReleases": PrivateReleases})


def test_sections_that_have_their_place_elsewhere_are_refused_with_it() -> None:
    for name in ("sink", "dead_letters", "ledger", "engine", "deduplicate"):
        with pytest.raises(ConfigError, match=f"{name} = .*no place in Beam YAML"):
            PrivateReleases(**CONFIG, **{name: {"parquet": "out"}})
    with pytest.raises(ConfigError, match="epsilon"):
        PrivateReleases(**{**CONFIG, "privacy": {"epsilon": -1, "delta": 1e-6}})
    pipeline = beam.Pipeline()
    with pytest.raises(ConfigError, match="source.*is missing, and so is an input"):
        pipeline | PrivateReleases(**CONFIG)
    rows = pipeline | beam.Create([beam.Row(at="2025-01-01", amount=1.0)])
    with pytest.raises(ConfigError, match="source.*remove one of the two"):
        rows | "Both" >> PrivateReleases(**CONFIG, source={"csv": "a.csv"})
