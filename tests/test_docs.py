"""What the documentation shows is true: configs plan, links lead somewhere, commands exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click import Group
from click.testing import CliRunner

from examples.shop.truth import CLIP, EDGES, EVENTS, MONTHS, TICKS
from weir.dpcore.accounting.scope import gdp_of_pure
from weir.dpcore.leaves.hash_sets import entries
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS
from weir.dpcore.users.unit import ContributionBounds
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import JobConfig, load, loads
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger.reservations import look
from weir.pipelines.results.verdict import COUNTERS
from weir.transforms.operators.timed_cells import FOREVER, segment
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.runtime.dead_letters import REASONS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
README = (ROOT / "README.md").read_text()
TEXT = {page.relative_to(DOCS).with_suffix("").as_posix(): page.read_text() for page in PAGES[2:]}
"""Page, like how-to/ledger -> its text."""
GUARANTEE = " ".join(TEXT["explanation/the-guarantee"].split())
"""The page on one line."""
OPERATORS = "\n".join(
    TEXT[page]
    for page in (
        "how-to/flink",
        "how-to/dataflow",
        "how-to/run-over-files",
        "how-to/upgrade",
        "how-to/troubleshoot",
        "reference/counters",
        "explanation/threat-model",
    )
)
"""What operators read."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [body for named, body in found if named == language]


def shop() -> JobConfig:
    return load(ROOT / "examples" / "shop" / "shop.yaml")


def customers() -> JobConfig:
    return load(ROOT / "examples" / "shop" / "customers.yaml")


@pytest.mark.slow
def test_config_in_the_readme_plans() -> None:
    (text,) = blocks(README, "yaml")
    job, demo = loads(text), customers()
    assert job.aggregates == demo.aggregates and job.clock == demo.clock
    assert job.privacy == demo.privacy
    made, other = (plan_of(one).to_json() for one in (job, demo))
    for ours, theirs in zip(made["releases"], other["releases"], strict=True):
        assert ours["stddev_worst"] == theirs["stddev_worst"]
    shown = CliRunner().invoke(main, ["plan", str(ROOT / "examples" / "shop" / "customers.yaml")])
    (output,) = (text for text in blocks(README, "") if text.startswith("$ weir plan"))
    for line in output.partition("\n\n")[0].splitlines()[1:]:
        assert line.strip() in shown.output


def test_the_readme_is_one_screen() -> None:
    assert len(README.splitlines()) <= 90


def test_models_of_their_page_plan() -> None:
    whole = (ROOT / "examples" / "shop" / "shop.yaml").read_text()
    models = [
        text for text in blocks(TEXT["tutorial/first-model"], "") if text.startswith("model:")
    ]
    head, _, tail = whole.partition("aggregates:")
    for text in models:
        plan_of(loads(f"{head}{text}sink:{tail.partition('sink:')[2]}"))
    assert len(models) == 2


def test_the_config_of_its_page_plans() -> None:
    (text,) = blocks(TEXT["reference/config"], "yaml")
    plan = plan_of(loads(text, environ={}))
    told = [(one.name, one.over) for one in plan.outputs]
    assert told[1:3] == [("orders", 168), ("returned", 168)]


def test_the_ledger_of_its_page_counts(tmp_path: Path) -> None:
    """Its section under a config: what the page says of it is what it does."""
    (text,), (ledger,) = (
        blocks(TEXT["tutorial/first-release"], "yaml"),
        blocks(TEXT["how-to/ledger"], "yaml"),
    )
    job = loads(text + ledger.replace("ledger.db", str(tmp_path / "ledger.db")))
    assert job.ledger is not None
    found = look(job.ledger, plan_of(job))
    assert (found.epsilon, found.delta, found.spent, found.fits) == (2, 1e-6, 0, True)
    assert gdp_of_pure(1.0) == pytest.approx(1.23, abs=0.005)


def test_python_of_the_commands_page_compiles() -> None:
    for text in blocks(TEXT["reference/commands"], "python"):
        compile(text, "commands.md", "exec")


def test_figures_of_the_guarantees_page_are_those_of_the_demos_plan() -> None:
    made = plan_of(shop()).to_json()
    whole = next(row["epsilon"] for row in made["expiration"] if row["ticks"] >= made["ticks"])
    assert f"Within the whole 546 days its epsilon is {whole:.4g}." in GUARANTEE


def test_figures_of_the_guarantees_page_are_those_of_the_demos_customers() -> None:
    made, events = (plan_of(job).to_json() for job in (customers(), shop()))
    (two,) = (row for row in made["user"]["periods"] if row["count"] == 2)
    assert f"Two quarters of a customer have epsilon = {two['epsilon']:.4g} together." in GUARANTEE
    every = made["user"]["every_period"]
    assert every["count"] == 6
    assert f"A customer of all six quarters has epsilon = {every['epsilon']:.4g}:" in GUARANTEE
    assert f'{made["releases"][0]["left_out"]}", which leaves out 7.9 %' in GUARANTEE
    score = {(a["mechanism"], a["noise"]): a["score"] for a in made["alternatives"]}
    told = f"the binary tree has {score['tree', 'gaussian']:.2f} times the least error"
    assert f"In the plan of the demo {told}" in GUARANTEE
    assert next(a for a in made["alternatives"] if a["chosen"])["mechanism"] == "blt"
    noise = [plan["releases"][0]["stddev_worst"] for plan in (made, events)]
    assert f"have {noise[0] / noise[1]:.1f} times less noise" in GUARANTEE


def test_the_demos_truth_is_about_the_demos_plans() -> None:
    for job in (shop(), customers()):
        assert job.aggregates["dollars"].clip == job.aggregates["basket"].clip == (0, CLIP)
        assert job.aggregates["sizes"].edges == EDGES
        assert plan_of(job).clock.ticks == 546
    assert customers().aggregates == shop().aggregates
    person = plan_of(customers()).person
    assert person is not None and str(person.periods.per) == f"{MONTHS} months"
    assert person.caps == ContributionBounds(TICKS, 1, EVENTS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", t).strip().lower().replace(" ", "-") for t in titles
            }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_benchmarks_and_tests_that_are_cited_exist(page: Path) -> None:
    text = page.read_text()
    for module in re.findall(r"-m ((?:benchmarks|tests)[\w.]*\w)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for path in re.findall(r"\b((?:benchmarks|tests)/[\w/.-]*\w)", text):
        assert (ROOT / path).exists() or (ROOT / path).with_suffix(".py").exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_exist(page: Path) -> None:
    found = re.findall(r"(?:`|^)weir ([a-z]+)([^`\n#]*)", page.read_text(), re.MULTILINE)
    for name, rest in found:
        assert name in main.commands, name
        command = main.commands[name]
        if isinstance(command, Group):
            words = rest.split()
            if not words or not words[0].isalpha():
                continue
            assert words[0] in command.commands, f"weir {name} {words[0]}"
            command = command.commands[words[0]]
        options = {o for p in command.params for o in p.opts}
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in options, f"weir {name} {option}"


def test_every_command_is_on_its_page() -> None:
    assert all(f"`weir {name}" in TEXT["reference/commands"] for name in main.commands)


def test_tables_of_algorithms_are_those_of_the_registry() -> None:
    written = CliRunner().invoke(main, ["algorithms", "--markdown"]).output
    place = "docs/reference/algorithms.md"
    assert written == TEXT["reference/algorithms"], f"run `weir algorithms --markdown > {place}`"
    for registry in (CONTINUAL_SUMS, AGGREGATES, MODELS, SOLVERS):
        assert all(f"| `{name}` |" in written for name in registry.own)
    assert "Eleven mechanisms" in GUARANTEE and len(CONTINUAL_SUMS) == 11


def test_every_counter_and_reason_is_explained() -> None:
    for name in {*COUNTERS, *REASONS, "ticks_released", "releases"}:
        assert f"`{name}`" in TEXT["reference/counters"], name


def test_columns_of_results_are_those_of_their_page() -> None:
    assert f"`{', '.join(RELEASE_SCHEMA.names)}`" in TEXT["reference/results"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_speak_of_the_project_alone(page: Path) -> None:
    assert not re.findall(r"TODO|FIXME|#\d+\b|\bTBD\b|@@", page.read_text())


def prose(text: str) -> list[str]:
    """Lines outside code and tables."""
    without = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in without.splitlines() if not line.lstrip().startswith("|")]


def test_nothing_is_said_twice() -> None:
    """A long line that stands twice is a merge that went wrong: one of both will not be true."""
    places: dict[str, list[str]] = {}
    for page in PAGES:
        for line in prose(page.read_text()):
            if len(line.strip()) > 80:
                places.setdefault(line.strip(), []).append(page.name)
    assert {line: where for line, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_has_a_title_twice(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # whose sections come again with every version
    without = re.sub(r"^( *)```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", without, re.MULTILINE)
    assert len(titles) == len(set(titles))


def test_bytes_of_an_id_are_those_that_are_stored_and_held() -> None:
    n = 1000
    words = np.arange(n, dtype=np.uint64)
    part = entries(words, words, np.zeros(n, dtype=np.int64))

    def stored(width: int) -> int:
        kept = part._replace(ticks=part.ticks.astype(np.uint8)) if width == FOREVER else part
        sizes = [len(segment(kept.take(np.arange(m)), 0, width, b"")) for m in (n, n // 2)]
        return round((sizes[0] - sizes[1]) / (n // 2))

    assert [stored(width) for width in (256, 257, 65_536, 65_537, FOREVER)] == [17, 18, 18, 20, 17]
    held = sum(column.nbytes for column in part) // n
    (ids,) = re.findall(r"^## Ids\n(.*?)^## ", TEXT["how-to/flink"], re.DOTALL | re.MULTILINE)
    assert "18 bytes an id (16 of its hash, 2 of its tick in a slice of 257 to 65,536 ticks" in ids
    assert "17 bytes for shorter slices, 20 for longer ones" in ids
    assert "17 without a horizon" in ids and f"*Memory*: {held} bytes an id" in ids
    others = OPERATORS.replace(ids, "")
    assert not re.search(r"\d+ bytes an id|\d+ bytes of hash|\d+ of tick", others)


def test_there_is_one_cure_for_overdue_events() -> None:
    """That of the alert: what moves the frontier of the reader, which is too far ahead."""
    rules = (ROOT / "deploy" / "alerts" / "weir.rules.yaml").read_text()
    assert "raise ack_deadline or slack of the source" in rules
    told = OPERATORS
    assert len(re.findall(r"should be 0[.:]", told)) == 1
    cure = told.partition("## When events are overdue")[2].partition("\n## ")[0]
    assert "`source.pubsub.ack_deadline`" in cure and "`source.pubsub.slack`" in cure
    assert "`clock.delay` is no cure" in cure and not re.search(r"raise\s+`clock\.delay`", told)


def test_the_pages_are_short() -> None:
    """Words outside of code and tables."""
    words = {page: len(" ".join(prose(text)).split()) for page, text in TEXT.items()}
    assert sum(words.values()) + len(" ".join(prose(README)).split()) <= 30_000
    decisions = {page: n for page, n in words.items() if page.startswith("contributors/decisions/")}
    assert sum(decisions.values()) <= 3_000 and max(decisions.values()) <= 600


def links(page: Path) -> set[Path]:
    """Pages that a page leads to."""
    text = re.sub(r"^( *)```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+\.md)", text)
    return {(page.parent / target).resolve() for target in targets}


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("tutorial/first-release", "# A first release"),
        ("tutorial/live-stream", "# A live stream"),
        ("how-to/troubleshoot", "my job died"),
        ("explanation/errors-and-bias", "## What the margin of error does not contain"),
        ("explanation/may-i-publish", "# May I publish this number"),
    ],
)
def test_what_readers_look_for_is_two_links_away(page: str, words: str) -> None:
    first = links(ROOT / "README.md")
    second = {there for each in first if each.suffix == ".md" for there in links(each)}
    assert words in TEXT[page] and DOCS / f"{page}.md" in first | second


def test_the_answer_of_a_page_stands_first() -> None:
    first = TEXT["how-to/choose-a-learner"].splitlines()[:25]
    for name in ("online.follow_the_leader", "regression.incremental", "erm.", "optimize."):
        assert any(f"`{name}" in line for line in first), name
    (died,) = (line for line in TEXT["how-to/troubleshoot"].splitlines()[1:3] if line)
    assert died.startswith("Run `weir status ")


def test_every_page_is_in_the_navigation() -> None:
    named = re.compile(r"^ +- (?:[^#:\n]+: )?([\w/-]+)\.md$", re.MULTILINE)
    nav = set(named.findall((ROOT / "mkdocs.yml").read_text()))
    apart = {page for page in TEXT if page.startswith("contributors/decisions/")}
    assert nav - {"index", "reference/changes"} == set(TEXT) - apart | {
        "contributors/decisions/index"
    }
    assert all(f"]({page.rpartition('/')[2]}.md)" in TEXT["contributors/decisions/index"]
               for page in apart - {"contributors/decisions/index"})  # fmt: skip


def test_the_notebook_of_the_tutorial_is_its_page() -> None:
    cells = json.loads((DOCS / "tutorial" / "visits.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    shown = [text.strip() for text in blocks(TEXT["tutorial/notebook"], "python")]
    assert ["".join(cell["source"]).strip() for cell in code] == shown
    assert all(cell["outputs"] for cell in code)
    assert any("image/png" in output.get("data", {}) for output in code[-1]["outputs"])
    used = set(re.findall(r"^(?:from|import) (\w+)", "\n".join(shown), re.MULTILINE))
    assert used == {"pandas", "weir"}


def test_the_plan_of_the_tutorial_is_what_is_printed(tmp_path: Path) -> None:
    (text,) = blocks(TEXT["tutorial/first-release"], "yaml")
    (tmp_path / "visits.yaml").write_text(text)
    shown = CliRunner().invoke(main, ["plan", str(tmp_path / "visits.yaml")]).output
    output = next(
        text for text in blocks(TEXT["tutorial/first-release"], "") if "noise (std)" in text
    )
    for line in output.partition("...")[0].splitlines():
        assert line.strip() in shown


@pytest.mark.parametrize("page", [page for page in TEXT if "benchmarks/results/" in TEXT[page]])
def test_pages_with_measurements_say_of_which_version(page: str) -> None:
    assert re.search(r"version \d+\.\d+\.\d+", TEXT[page])


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of all tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_errors_of_learners_are_those_that_were_measured() -> None:
    """Those at epsilon = 1, over the whole stream."""
    text = (ROOT / "benchmarks" / "results" / "learners.md").read_text()
    measured = {
        (row[0].replace("`", ""), row[2].endswith("%")): [
            cell.partition(" (")[0] for cell in row[2:]
        ]
        for row in rows(text)
        if len(row) == 9 and row[1] == "1"
    }
    shown = [row for row in rows(TEXT["how-to/choose-a-learner"]) if re.match(r"[\d.]+%?$", row[1])]
    assert len(shown) == 7
    for name, *cells in shown:
        assert measured[name.replace("`", ""), cells[0].endswith("%")] == cells, name


@pytest.mark.parametrize(
    ("page", "file"),
    [("explanation/scale", "scale_model.md"), ("explanation/performance", "stages.md")],
)
def test_times_are_those_that_were_measured(page: str, file: str) -> None:
    measured = (ROOT / "benchmarks" / "results" / file).read_text()
    costs = TEXT[page].partition("## What it comes to")[0]
    times = re.findall(r"[\d.]+ (?:s|µs)\b", costs.replace("| 3.6 µs |", ""))
    assert len(times) >= 3 and all(time in measured for time in times)


def test_the_plan_of_active_users_is_what_is_printed(tmp_path: Path) -> None:
    page = TEXT["how-to/active-users"]
    (tmp_path / "active.yaml").write_text(blocks(page, "yaml")[0])
    shown = CliRunner().invoke(main, ["plan", str(tmp_path / "active.yaml")]).output
    (output,) = (text for text in blocks(page, "") if text.startswith("$ weir plan"))
    for line in output.splitlines()[1:]:
        assert line.strip() in shown
