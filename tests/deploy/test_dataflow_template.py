"""The Flex Template: its metadata, its scripts, and the way from a launch to a described job."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.cloud import dataflow_v1beta3
from google.protobuf import json_format

from weir.dpcore.errors import ConfigError
from weir.pipelines.runners import dataflow_template

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "dataflow"
METADATA: dict[str, Any] = json.loads((FOLDER / "metadata.json").read_text())
PARAMETERS = {item["name"]: item for item in METADATA["parameters"]}
NEWER = {"supportsAtLeastOnce", "supportsExactlyOnce", "defaultStreamingMode", "streaming"}
"""Fields of the service that the client library does not name yet."""


def test_metadata_is_of_the_services_schema() -> None:
    message = dataflow_v1beta3.TemplateMetadata.pb(dataflow_v1beta3.TemplateMetadata())
    plain = {name: value for name, value in METADATA.items() if name not in NEWER}
    json_format.ParseDict(plain, message)
    assert METADATA["streaming"] is True
    assert METADATA["defaultStreamingMode"] == "EXACTLY_ONCE"
    assert METADATA["supportsAtLeastOnce"] is False  # an event counted twice is one too many


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_is_documented_and_passed_on(name: str) -> None:
    item = PARAMETERS[name]
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", name)
    assert item["label"] and item["helpText"].endswith(".")
    known, rest = dataflow_template.parameters([f"--{name}=x", "--config=y"])
    assert not rest and known


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("config", "gs://acme/job.yaml", "/home/me/job.yaml"),
        ("set", "sink.parquet=gs://a/b/; privacy.epsilon=0.5", "no assignment"),
    ],
)
def test_pattern_takes_what_is_meant(name: str, good: str, bad: str) -> None:
    (pattern,) = PARAMETERS[name]["regexes"]
    assert re.search(pattern, good) and not re.search(pattern, bad)


def test_no_parameter_could_hold_a_secret() -> None:
    assert set(PARAMETERS) == {"config", "set"}


CONFIG = """
name: shop
source: {csv: gs://acme-weir/events.csv}
schema: {time: at}
clock: {start: 2026-01-01T00:00:00Z, period: 1h, end: 2026-02-01T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 1d}
aggregates: {purchases: {count: events}}
secret: {gcp: projects/acme-data/secrets/weir/versions/1}
sink: {parquet: gs://acme-weir/out/}
"""


def test_config_is_fetched_and_changed(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(CONFIG)
    job = dataflow_template.fetch(str(path), ["privacy.epsilon=0.5; sink.every=64"])
    assert (job.privacy.epsilon, job.sink and job.sink.every) == (0.5, 64)
    assert job.sink is not None and job.sink.place == "gs://acme-weir/out/"


def test_launchers_flags_are_beams_but_for_the_runner() -> None:
    launch = ["--config=gs://a/j.yaml", "--runner=DataflowRunner", "--project=p", "--set=a=b"]
    known, rest = dataflow_template.parameters([*launch, "--template_location=gs://a/t"])
    assert (known.config, known.sets) == ("gs://a/j.yaml", ["a=b"])
    assert rest == ["--project=p", "--template_location=gs://a/t"]


def test_refusals_exit_2_and_name_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(CONFIG.replace("gs://acme-weir/out/", "out/"))
    assert dataflow_template.main([f"--config={path}"], "registry/weir:1") == 2
    assert "sink.parquet" in capsys.readouterr().err


def test_missing_config_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        dataflow_template.fetch("/nowhere/job.yaml")


def test_scripts_and_template_agree() -> None:
    build, launch = ((FOLDER / name).read_text() for name in ("build.sh", "launch.sh"))
    place = "gs://$BUCKET/templates/weir-$version.json"
    assert place in build and place in launch
    assert "--metadata-file deploy/dataflow/metadata.json" in build
    for name in re.findall(r"(?:^|\|)(\w+)=\$", launch, re.MULTILINE):
        assert name in PARAMETERS or name in {"account", "changes", "parameters"}
    assert "deploy/dataflow/Dockerfile" in build and "deploy/Dockerfile" in build


FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
case "$*" in *"images describe"*) exit "${IMAGE_EXISTS:-1}" ;; esac
"""


def commands(script: str, *arguments: str, folder: Path, **more: str) -> tuple[int, list[str]]:
    """Exit code of a script, and what it asks of a gcloud and a docker that only write it down."""
    for name in ("gcloud", "docker"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    log = folder / "log"
    log.write_text("")
    environment = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "LOG": str(log),
        "PROJECT": "acme-data",
        "REGION": "europe-west1",
        "BUCKET": "acme-weir",
        **more,
    }
    done = subprocess.run(
        ["bash", str(FOLDER / script), *arguments], env=environment, capture_output=True
    )
    return done.returncode, log.read_text().splitlines()


def test_build_makes_both_images_and_the_template(tmp_path: Path) -> None:
    code, found = commands("build.sh", "0.1.0", folder=tmp_path)
    registry = "europe-west1-docker.pkg.dev/acme-data/weir"
    assert code == 0
    built = [line for line in found if line.startswith("docker build")]
    assert f"-t {registry}/weir:0.1.0 ." in built[0]
    assert f"--build-arg WEIR_IMAGE={registry}/weir:0.1.0" in built[1]
    assert "flex-template build gs://acme-weir/templates/weir-0.1.0.json" in found[-1]
    assert f"--image {registry}/weir-template:0.1.0" in found[-1]


def test_build_never_replaces_a_version(tmp_path: Path) -> None:
    code, found = commands("build.sh", "0.1.0", folder=tmp_path, IMAGE_EXISTS="0")
    assert code == 2 and not [line for line in found if line.startswith("docker")]


def test_launch_passes_parameters_that_the_template_has(tmp_path: Path) -> None:
    launch = ("0.1.0", "shop", "gs://acme-weir/job.yaml")
    code, (found,) = commands("launch.sh", *launch, "sink.every=64", folder=tmp_path)
    assert code == 0
    words = found.split()
    mark, *given = words[words.index("--parameters") + 1].removeprefix("^").split("^")
    assert mark == "|"
    assert dict(pair.split("=", 1) for pair in "^".join(given).split("|")) == {
        "config": "gs://acme-weir/job.yaml",
        "set": "sink.every=64",
    }
    assert "--enable-streaming-engine" in words and "--update" not in words
    _, (replaced,) = commands("launch.sh", *launch, folder=tmp_path, UPDATE="1")
    assert replaced.endswith("--update") and "set=" not in replaced
