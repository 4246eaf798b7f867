"""What bounds and clips leave out stands under every figure, and what a user of every period has.

No margin of error covers it: a figure without it passes for exact.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import vl_convert

import weir as public
from tests.contracts import versions
from tests.pipelines.conftest import Weir
from weir.dpcore.config.schema import PLAN_VERSION
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.words import number, plural
from weir.pipelines.report.page import page, parts
from weir.pipelines.report.report import gather
from weir.pipelines.results.run import ResultFolder

CONFIG = """
name: visits
source: {csv: visits.csv}
schema: {time: at, unit: visitor_id, noun: visit}
key: {column: page, declared: [a, b, c]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-29T00:00:00Z}
privacy: {epsilon: 20, delta: 1e-6, protect_for: all, unit: user, per: 1w,
          contributions: {ticks: 3, keys: 2, events: 4}}
aggregates:
  visits: {count: events}
  spent: {sum: x, clip: [0, 200]}
  usual: {mean: x, clip: [0, 200]}
  sizes: {histogram: x, edges: [1, 2, 5]}
  middle: {quantile: x, at: 0.5, edges: {linear: [0, 100, 10]}}
sink: {parquet: out/}
"""
CAPS = "at most 3 days a week, 2 keys a day and 4 visits a key and day per visitor"
CLIP = "values outside [0, 200] count as the nearer bound, missing ones as 0"
NOT_KNOWN = (
    "How much that is, is not known. With 97.5 % certainty the true figure is at least the low end "
    "of the margin"
)
CAVEATS = {
    "visits": NOT_KNOWN,
    "spent": f"{NOT_KNOWN}, if no value of x is below 0",
    "usual": "The margin is for the mean of clipped values within the contribution bounds",
    "sizes": "",
    "middle": "",
}
LEFT_OUT = {
    "visits": f"undercount: {CAPS}",
    "spent": f"undercount: {CAPS}; {CLIP}",
    "usual": f"bias: {CAPS}; {CLIP.replace('as 0', 'do not count')}",
    "sizes": f"undercount: {CAPS}; values outside [1, 5] are left out",
    "middle": f"bias: {CAPS}; values outside [0, 100] count in the bin at that end",
}
WHOLE = {name: f"{text}. {CAVEATS[name]}".rstrip(". ") for name, text in LEFT_OUT.items()}
EVERY = "user present in every period (4)"
EVENTS = [
    {"at": f"2025-01-{1 + n % 28:02d}T10:00:00Z", "page": "abc"[n % 3], "x": n % 7, "visitor_id": n}
    for n in range(84)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of releases, with its config."""
    place = tmp_path_factory.mktemp("visits")
    rows = [",".join(map(str, event.values())) for event in EVENTS]
    (place / "visits.csv").write_text("\n".join([",".join(EVENTS[0]), *rows]) + "\n")
    (place / "visits.yaml").write_text(CONFIG)
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Any:
    """What ``weir run`` printed."""
    from click.testing import CliRunner

    from weir.pipelines.cli.main import main

    result = CliRunner().invoke(main, ["run", str(folder / "visits.yaml")])
    assert result.exit_code == 0, result.output
    return result


def flat(text: str) -> str:
    """Without line breaks."""
    return " ".join(text.split())


def missing(text: str) -> list[str]:
    """Outputs whose sentence is not in a text."""
    return [name for name, sentence in WHOLE.items() if sentence not in flat(text)]


def test_the_plan_says_it(weir: Weir, folder: Path) -> None:
    told = weir("plan", folder / "visits.yaml")
    assert missing(told.stdout) == [] and EVERY in told.stdout
    facts = json.loads(weir("plan", folder / "visits.yaml", "--json").stdout)
    assert {one["name"]: one["left_out"] for one in facts["releases"]} == LEFT_OUT
    assert {one["name"]: one["caveat"] for one in facts["releases"]} == CAVEATS
    assert facts["user"]["every_period"]["count"] == 4
    plan = Plan.from_yaml(CONFIG)
    assert missing(plan._repr_html_()) == [] and EVERY in plan._repr_html_()


def test_the_table_of_a_run_says_it(run: Any) -> None:
    assert missing(run.stdout) == [] and EVERY in flat(run.stdout)


@pytest.mark.slow
def test_the_report_says_it_on_page_picture_and_statement(
    weir: Weir, folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    real = vl_convert.vegalite_to_png
    monkeypatch.setattr(
        vl_convert,
        "vegalite_to_png",
        lambda spec, **more: drawn.append(json.dumps(spec)) or real(spec, **more),
    )
    result = weir("report", folder / "out", "--statement")
    assert result.exit_code == 0, result.output
    assert missing(result.stdout) == [], "the table on the terminal"
    (spec,) = map(json.loads, drawn)
    under = [
        " ".join(chart["title"].get("subtitle", []))
        for chart in spec["concat"]
        if isinstance(chart["title"], dict)
    ]
    assert len(under) == len(LEFT_OUT)
    assert all(any(text in line for line in under) for text in WHOLE.values())
    height = int.from_bytes((folder / "out" / "report.png").read_bytes()[20:24], "big")
    assert height > 1.5 * 150 * len(LEFT_OUT) / 2 * 1.3, "rows of charts do not lie on each other"
    data = gather(ResultFolder.open(folder / "out"))
    for live in (False, True):  # the report, and the page that weir watch serves
        text = page(data, live=live)
        found = json.loads(text.split('id="data">')[1].split("</script>")[0])
        assert {one["name"]: one["left_out"] for one in found["figures"]} == {
            name: f"Margin of noise only; {text}." for name, text in WHOLE.items()
        }
        table = text.split('id="last"')[1].split("</section>")[0]
        assert missing(table) == [] and EVERY in text and "one user in 7d" in text
    assert missing(parts(data)["last"]) == []
    assert "adds within 7d of the clock" in (folder / "out" / "statement.html").read_text()
    signed = (folder / "out" / "statement.html").read_text()
    assert missing(signed) == []
    assert f"{EVERY} has epsilon" in flat(signed).replace("A user", "user")


def test_top_says_it(weir: Weir, folder: Path, run: Any) -> None:
    told = weir("top", folder / "out", "--of", "visits")
    assert f"Margin of noise only; {WHOLE['visits']}." in flat(told.stdout)
    found = json.loads(weir("top", folder / "out", "--of", "visits", "--json").stdout)
    assert found["left_out"] == WHOLE["visits"]


def test_a_notebook_says_it() -> None:
    config = CONFIG.replace("source: {csv: visits.csv}\n", "").replace("sink: {parquet: out/}", "")
    shown = public.release(EVENTS, config)._repr_html_()
    assert missing(shown) == [] and EVERY in shown


@pytest.mark.slow
def test_a_single_key_has_the_low_end_in_numbers(weir: Weir, tmp_path: Path) -> None:
    text = CONFIG.replace("key: {column: page, declared: [a, b, c]}\n", "")
    rows = [",".join(map(str, event.values())) for event in EVENTS]
    (tmp_path / "visits.csv").write_text("\n".join([",".join(EVENTS[0]), *rows]) + "\n")
    (tmp_path / "visits.yaml").write_text(text)
    result = weir("run", tmp_path / "visits.yaml")
    assert result.exit_code == 0, result.stderr
    shown = flat(weir("report", tmp_path / "out", "--statement").stdout)
    data = gather(ResultFolder.open(tmp_path / "out"))
    lows = {p.output.name: float(p.series[0].newest.low[0, 0]) for p in data.panels}
    for name, end in (("visits", ""), ("spent", ", if no value of x is below 0")):
        low = number(max(lows[name], 0.0))
        line = f"2025-01-28: with 97.5 % certainty the true figure is at least {low}{end}."
        assert line in shown and line in flat(page(data)), (name, low)
    assert shown.count("the true figure is at least") == 4, "in general and in numbers, for two"
    signed = flat((tmp_path / "out" / "statement.html").read_text())
    assert "With 97.5 % certainty the true figure is at least" in signed


SHARES = "dry_run: {file: last-year.csv, date: 2025-11-26, lost: {spent: 0.0789, visits: 0}}\n"


@pytest.mark.slow
def test_a_rehearsed_share_is_shown_with_its_file_and_date(weir: Weir, folder: Path) -> None:
    plain, shared = Plan.from_yaml(CONFIG), Plan.from_yaml(CONFIG + SHARES)
    assert plain.digest == shared.digest, "it shapes no release"
    fact = "It was 7.89 % in a dry run on last-year.csv (2025-11-26); here it may be more or less"
    assert shared.caveat("spent").startswith(fact)
    assert shared.caveat("visits").startswith("It was 0 % in a dry run")
    assert fact in flat(shared._repr_html_())
    (folder / "shared.yaml").write_text(CONFIG.replace("out/", "shared/") + SHARES)
    assert fact in flat(weir("plan", folder / "shared.yaml").stdout)
    assert weir("run", folder / "shared.yaml").exit_code == 0
    assert fact in flat(weir("report", folder / "shared", "--statement").stdout)
    assert fact in flat((folder / "shared" / "statement.html").read_text())


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("{usual: 0.1}", "is of no count, and of no sum with a clip from 0 on"),
        ("{nobody: 0.1}", "visits or spent"),
        ("{spent: 1.5}", "must be a share between 0 and 1"),
    ],
)
def test_what_has_no_rehearsed_share(lost: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Plan.from_yaml(CONFIG + f"dry_run: {{file: a.csv, date: 2025-11-26, lost: {lost}}}\n")


def test_which_low_ends_are_below_the_true_figure() -> None:
    """Only of what bounds can lower and nothing else: a clip from above 0 raises values."""
    for old, new, below in (
        ("", "", "if no value of x is below 0"),
        ("spent: {sum: x, clip: [0, 200]}", "spent: {sum: x, clip: [1, 200]}", None),
        ("spent: {sum: x, clip: [0, 200]}", "spent: {sum: x, clip: [-5, 200]}", None),
        ("spent: {sum: x, clip: [0, 200]}", "spent: {mean: x, clip: [0, 200]}", None),
        ("spent: {sum: x, clip: [0, 200]}", "spent: {count: events}", ""),
    ):
        assert Plan.from_yaml(CONFIG.replace(old, new)).biases["spent"].below == below


def bounded(config: str, **values: str) -> dict[str, str]:
    """What is left out where some texts of a config are others."""
    for old, new in values.items():
        assert old in config
        config = config.replace(old, new)
    plan = Plan.from_yaml(config)
    return {one.name: plan.left_out(one.name) for one in plan.outputs}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ticks: 3", "ticks: 5", "at most 5 days a week"),
        ("keys: 2", "keys: 1", "1 key a day"),
        ("events: 4", "events: 1", "1 visit a key and day"),
        ("events: 4", "events: 4, spacing: 2", "3 days a week, 2 days or more apart"),
        ("events: 4", "events: 4, period_keys: 2", "2 keys a week"),
        ("events: 4", "events: 4, total: 5", "5 pairs of a key and a day a week"),
        ("events: 4", "events: 4, ticks_per_key: 2", "2 days of a key a week"),
        ("per: 1w", "per: 1 month", "3 days a month"),
        ("per: 1w", "per: all", "3 days in all"),
        ("per: 1w", "per: 14d", "3 days in 14d"),
        ("period: 1d", "period: 1h", "3 hours a week, 2 keys an hour and 4 visits a key and hour"),
        ("period: 1d", "period: 6h", "3 ticks a week"),
        ("visitor_id", "who", "a key and day per user"),
        ("key: {column: page, declared: [a, b, c]}\n", "", "3 days a week and 4 visits a day per"),
    ],
)
def test_every_public_bound_on_a_user_is_told(old: str, new: str, words: str) -> None:
    told = bounded(CONFIG, **{old: new})
    assert all(words in text for text in told.values()), told


def test_of_users_those_bounds_are_told_that_bear_on_them() -> None:
    users = CONFIG.replace("visits: {count: events}", "visits: {count: users}")
    assert bounded(users)["visits"] == (
        "undercount: at most 3 days a week and 2 keys a day per visitor"
    )
    new = CONFIG.replace("visits: {count: events}", "visits: {count: users, per: period}")
    assert bounded(new)["visits"].endswith("2 keys a day per visitor")
    alone = new.replace("key: {column: page, declared: [a, b, c]}\n", "")
    assert bounded(alone)["visits"] == "", "everybody is counted, once"
    totals = CONFIG.replace("clip: [0, 200]}\n  usual", "clip_user: [0, 200]}\n  usual")
    assert "what a user adds to a key and tick counts within [0, 200]" in bounded(totals)["spent"]


@pytest.mark.slow
@pytest.mark.parametrize("case", dict(versions.configs()))
def test_whatever_is_released_says_what_it_leaves_out(case: str) -> None:
    plan = versions.planned(dict(versions.configs())[case], PLAN_VERSION)
    for one in plan.to_json()["releases"]:
        counted = plan.algorithm == "aggregates" and "events" in one["what"]
        exact = one["name"] in ("model_of", "band") or (counted and one["role"] == "value")
        assert one["left_out"] or (exact and (plan.person is None or not counted)), one["name"]
        if plan.person is not None and one["left_out"]:
            assert "at most 4 hours in 8h" in one["left_out"]


def test_words() -> None:
    assert [plural(n, "visit") for n in (1, 2, 1000)] == ["1 visit", "2 visits", "1,000 visits"]
    assert plural(2, "query") == "2 queries" and plural(2, "day") == "2 days"
    assert plural(3, "box") == "3 boxes"
