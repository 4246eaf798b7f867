"""The command line: help that teaches, exit codes, and refusals in one sentence."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.registry import CONTINUAL_SUMS, MODELS, SOLVERS
from weir.pipelines.cli.main import main

SECRET = "0f1e2d3c4b5a6978" * 4
SLASHES = "q7Zp//Kd83hTbW//Lm2x//Yc5RgU0vNaEi4sJoFf9Ht="

COMMANDS = [
    "init", "plan", "rehearse", "run", "status", "report", "feed", "diff", "doctor", "algorithms",
    "schema", "ledger", "predict", "advise", "completion", "man", "top", "watch", "audit",
    "estimate", "keygen", "verify",
]  # fmt: skip


def test_the_commands_are_these(weir: Weir) -> None:
    assert sorted(main.commands) == sorted(COMMANDS)
    text = weir("--help").stdout
    for command in COMMANDS:
        assert command in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches(weir: Weir, command: str) -> None:
    result = weir(command, "--help")
    assert result.exit_code == 0
    assert f"weir {command}" in result.stdout, "an example"
    assert len(result.stdout) > 300


def test_version(weir: Weir) -> None:
    assert weir("--version").stdout.startswith("weir ")


def test_an_unknown_command_names_the_nearest(weir: Weir) -> None:
    result = weir("plna", "x")
    assert result.exit_code == 2
    assert "did you mean plan?" in result.stderr


@pytest.mark.parametrize(
    ("sets", "field"),
    [
        (["privacy.epsilon=0"], "privacy.epsilon"),
        (["privacy.epsilon=.nan"], "privacy.epsilon"),
        (["privacy.delta=0"], "privacy.delta"),
        (["privacy.delta=1"], "privacy.delta"),
        (["privacy.delta=-1"], "privacy.delta"),
        (["privacy.protect_for=0"], "privacy.protect_for"),
        (["privacy.protect_for=90m"], "privacy.protect_for"),
        (["privacy.unit=user"], "privacy.contributions"),
        (["schema.unit=who"], "schema.unit"),
        (["aggregates.paid.clip=[5, 1]"], "aggregates.paid.clip"),
        (["aggregates.paid.clip=[0, .inf]"], "aggregates.paid.clip"),
        (["aggregates.paid.clap=1"], "aggregates.paid.clap"),
        (["aggregates=null"], "aggregates"),
        (["aggregates=null", "model={algorithm: ftal}"], "model.algorithm"),
        (["mechanism.continual_sum=magic"], "mechanism.continual_sum"),
        (["mechanism.noise=gumbel"], "mechanism.noise"),
        (["where=amount >"], "where"),
        (["schema.time={column: at, format: '%Q'}"], "schema.time.format"),
        (["clock.end=null"], "clock.end"),
        (["clock.start=2024-01-01T00:00:00"], "clock.start"),
        (["key.declared=null"], "key.declared"),
        (["nonsense=1"], "nonsense"),
        (["dead_letters={parquet: out}"], "dead_letters.parquet"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_refused_before_any_data_are_read(
    weir: Weir, small: Path, command: str, sets: list[str], field: str
) -> None:
    words = [word for one in sets for word in ("--set", one)]
    result = weir(command, small, *words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"weir: refused: {field} ")
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr
    assert not (small.parent / "out").exists()


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("content", ["", "5", "a: [", "a: 1\na: 2", "- x"])
def test_files_that_are_no_config(weir: Weir, tmp_path: Path, command: str, content: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(content)
    result = weir(command, path)
    assert result.exit_code == 2
    assert "line 1" in result.stderr or "line 2" in result.stderr


def test_a_missing_config(weir: Weir) -> None:
    result = weir("plan", "none.yaml")
    assert result.exit_code == 2
    assert "weir init" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--runner", "flink"], "needs a secret"),
        (["--runner", "prism"], "needs a secret"),
        (["--runner", "dataflow"], "needs a secret"),
        (["--runner", "spark"], "'direct', 'prism', 'flink', 'dataflow'"),
        (["--set", "source=null"], "source is missing"),
        (["--set", "sink=null"], "sink is missing"),
        (
            ["--set", "source={pubsub: {subscription: projects/acme-1/subscriptions/all}}"],
            "--runner prism on a laptop",
        ),
        (["--resume"], "is for --runner flink"),
        (["--detach"], "is for --runner flink"),
        (["--flink-master", "localhost:8081"], "is for --runner flink"),
        (["--dry-run"], "is for --runner dataflow"),
        (["--runner", "prism", "--parallelism", "2"], "is for --runner flink"),
        (["--secret-file", "none.key"], "cannot be read"),
        (["--set", "secret.env=WEIR_UNSET_SECRET"], "not set"),
        (["--secretfile", "x"], "did you mean --secret-file?"),
        (["--direct_num_workers=x"], "invalid int"),
        (["stray"], "is not an option"),
    ],
)
def test_what_a_run_refuses(weir: Weir, small: Path, words: list[str], says: str) -> None:
    result = weir("run", small, *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (small.parent / "out").exists()


def test_a_foreign_folder_is_refused_by_run(weir: Weir, small: Path) -> None:
    out = small.parent / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("x")
    result = weir("run", small)
    assert result.exit_code == 2
    assert "sink.parquet" in result.stderr
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_exit_codes_of_the_real_process(small: Path) -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weir", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good = call("plan", str(small), "--json")
    assert good.returncode == 0 and json.loads(good.stdout)["name"] == "shop"
    assert good.stderr == ""
    bad = call("plan", str(small), "--set", "privacy.epsilon=-1")
    assert bad.returncode == 2 and bad.stdout == ""
    assert bad.stderr.splitlines() == [
        "weir: refused: privacy.epsilon = -1: must be a finite number above 0, like 1.0."
    ]


def test_algorithms_lists_every_mechanism(weir: Weir) -> None:
    text = weir("algorithms").stdout
    for name in (*CONTINUAL_SUMS, *MODELS, *SOLVERS):
        assert name in text


def test_algorithms_as_json(weir: Weir) -> None:
    found = json.loads(weir("algorithms", "--json").stdout)
    assert {entry["name"] for entry in found} == {"aggregates", *CONTINUAL_SUMS, *MODELS, *SOLVERS}
    for entry in found:
        assert set(entry) == {"name", "kind", "title", "about", "source", "noises", "fields"}
        assert entry["title"] and entry["noises"] and entry["fields"]


def test_one_algorithm(weir: Weir) -> None:
    text = weir("algorithms", "tree").stdout
    assert "mechanism.continual_sum" in text and "Source" in text
    assert json.loads(weir("algorithms", "blt", "--json").stdout)["name"] == "blt"
    text = weir("algorithms", "online.conditional_gradient").stdout
    assert "model.step" in text and "[low, high] of every feature" in text and "Source" in text
    assert "model.clip" not in weir("algorithms", "online.pqftl").stdout
    result = weir("algorithms", "tre")
    assert result.exit_code == 2
    assert "did you mean tree?" in result.stderr


def test_a_defect_is_told_without_its_text(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ValueError("PRIVATE")

    monkeypatch.setattr("weir.pipelines.config.job.json_schema", broken)
    result = weir("schema")
    assert result.exit_code == 1
    assert "ValueError" in result.stderr and "PRIVATE" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--secret-file", SECRET),
        ("run", "--set", f"secret.file={SECRET}"),
        ("run", "--set", f"secret={SECRET}"),
        ("run", "--set", f"secrets={SECRET}"),
        ("run", "--set", f"secret.key={SECRET}"),
        ("run", "--set", f"secret.kubernetes=weir/{SECRET}"),
        ("plan", "--set", f"secret={SECRET}"),
    ],
)
def test_a_secret_in_the_wrong_place_is_never_quoted(
    weir: Weir, small: Path, words: tuple[str, ...]
) -> None:
    refused = weir(words[0], small, *words[1:])
    assert refused.exit_code == 2 and "secret" in refused.stderr
    assert SECRET[:16] not in refused.stderr + refused.stdout
    assert not (small.parent / "out").exists()


ROTATED = f"{{file: a.key, rotate: [{{from: 2024-01-01T05:00:00Z, file: {SLASHES}}}]}}"


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("--secret-file", ("run", "--secret-file", SLASHES)),
        ("secret.file", ("run", "--set", f"secret.file={SLASHES}")),
        ("secret.file", ("plan", "--set", f"secret.file=keys/{SLASHES}")),
        ("secret.rotate[0].file", ("plan", "--set", f"secret={ROTATED}")),
    ],
)
def test_a_secret_that_a_path_would_shorten_is_never_quoted(
    weir: Weir, small: Path, field: str, words: tuple[str, ...]
) -> None:
    refused = weir(words[0], small, *words[1:])
    assert refused.exit_code == 2, refused.output
    assert f"{field} = '...': looks like the secret itself" in refused.stderr
    assert not any(part in refused.output for part in SLASHES.rstrip("=").split("//"))


@pytest.mark.parametrize("words", [("status", "out"), ("report", "out"), ("schema",)])
def test_no_command_lets_libraries_talk(
    weir: Weir, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    command = main.commands[words[0]]
    assert command.callback is not None

    def noisy(**_: object) -> None:
        logging.warning("PRIVATE: not there")

    monkeypatch.setattr(command, "callback", noisy)
    result = weir(*words)
    assert (result.exit_code, result.stderr) == (0, "")


def test_status_of_nothing_says_what_it_needs(weir: Weir) -> None:
    result = weir("status")
    assert result.exit_code == 2 and "PLACE" in result.stderr and "None" not in result.stderr
