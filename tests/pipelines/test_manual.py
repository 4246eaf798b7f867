"""The command line about itself: completion, manual page, page of the site, and sources of dbt."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click import Group
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from ruamel.yaml import YAML

from weir.pipelines.cli.base import SHELLS
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.show.algorithms import commands_markdown as markdown
from weir.pipelines.show.algorithms import man, told
from weir.pipelines.show.export import DBT_COLUMNS as COLUMNS
from weir.pipelines.show.export import place_of, source_file
from weir.transforms.release.table import RELEASE_SCHEMA

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "examples" / "shop" / "shop.yaml"
ALL = list(told(main, "weir"))


def out(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def names() -> set[str]:
    below = {
        f"weir {name} {one}"
        for name, command in main.commands.items()
        if isinstance(command, Group)
        for one in command.commands
    }
    return {"weir", *(f"weir {name}" for name in main.commands), *below}


def test_every_command_and_option_is_told() -> None:
    assert {one.name for one in ALL} == names()
    page, site = man(main, "weir", "1.2.3"), markdown(main, "weir")
    for one in ALL:
        assert one.paragraphs and all(about for _, about in one.options), one.name
        assert f"# `{one.name}`" in site
        for written, _ in one.options:
            assert written.replace("-", r"\-").replace("\\\\", r"\e") in page, written
    assert '"weir 1.2.3"' in page.replace(r"\-", "-")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_sound() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c"], input=out("man"), capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == ""
    shown = done.stdout.replace("\u2010", "-")
    for one in ALL:
        assert one.name in shown


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_call_what_answers(shell: str) -> None:
    script = out("completion", shell)
    assert f"_WEIR_COMPLETE={shell}_complete" in script and "weir" in script
    checker = shutil.which(shell)
    if checker is not None and shell == "bash":
        assert subprocess.run([checker, "-n"], input=script, text=True).returncode == 0


def test_commands_and_options_are_completed() -> None:
    def found(words: list[str], begun: str) -> set[str]:
        kinds = ShellComplete(main, {}, "weir", "_WEIR_COMPLETE").get_completions(words, begun)
        return {one.value for one in kinds}

    assert found([], "re") >= {"rehearse", "report"}
    assert found(["ledger"], "") >= {"add", "close", "show", "export"}
    assert found(["run"], "--runn") == {"--runner"}
    assert found(["run", "--runner"], "") == {"local", "direct", "prism", "flink", "dataflow"}
    assert found(["completion"], "") == set(SHELLS)


def test_dbt_reads_every_column_and_what_the_config_says() -> None:
    assert list(COLUMNS) == RELEASE_SCHEMA.names
    told = YAML(typ="safe").load(out("schema", "--dbt", str(SHOP)))
    (source,) = told["sources"]
    (table,) = source["tables"]
    job = load(SHOP)
    assert table["name"] == "shop" and plan_of(job).guarantee.statement in table["description"]
    place = table["config"]["meta"]["external_location"]
    assert job.sink is not None and place == f"read_parquet('{job.sink.place}/*.parquet')"
    assert [column["name"] for column in table["columns"]] == list(COLUMNS)
    tests = {column["name"]: column.get("data_tests", []) for column in table["columns"]}
    assert tests["tick"] == ["not_null"] and tests["over"] == [] == tests["value"]
    listed = [one.name for one in plan_of(job).outputs]
    assert tests["name"][1]["accepted_values"]["arguments"]["values"] == list(dict.fromkeys(listed))


def test_dbt_without_a_config_names_no_place() -> None:
    (table,) = YAML(typ="safe").load(out("schema", "--dbt"))["sources"][0]["tables"]
    assert table["name"] == "releases" and "config" not in table
    assert source_file() == out("schema", "--dbt")
    job = load(SHOP, ["sink={stdout: true}"])
    assert job.sink is not None and place_of(job.sink) is None
    refused = CliRunner().invoke(main, ["schema", str(SHOP)])
    assert refused.exit_code == 2 and "--dbt" in refused.output
