"""Several groupings in a config, in the plan, and in what people read."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import key_text, shown_key
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.audit.audit import Audited
from weir.pipelines.config.job import json_schema, loads
from weir.pipelines.feed.truth import Truth
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.report.data import gather
from weir.pipelines.report.page import page
from weir.pipelines.results.run import ResultFolder

ONE = "key: {column: store, declared: [north, south]}"
PAIRS = [("paris", "shoes"), ("paris", "hats"), ("rome", "hats")]
KEY = f"columns: [city, product], declared: {json.dumps(PAIRS)}"
GROUPS = "groups: [[city], [city, product], []]"
TWO = SMALL.replace(ONE, f"key: {{{KEY}, {GROUPS}}}")


def with_key(key: str) -> str:
    return SMALL.replace(ONE, f"key: {{{key}}}")


@pytest.mark.parametrize(
    ("key", "field", "says"),
    [
        (f"{KEY}, groups: []", "key.groups", "[[]] for the total"),
        (f"{KEY}, groups: [[town], []]", "key.groups.0", "allowed here: city, product"),
        (f"{KEY}, groups: [[city, city], [product]]", "key.groups.0", "names a column twice"),
        (f"{KEY}, groups: [[city, product], [product, city]]", "key.groups", "listed twice"),
        (f"{KEY}, groups: [[city], []]", "key.groups", "never names product"),
        (f"{KEY}, groups: [[city, product]]", "key.groups", "what key.columns says already"),
        (f"{KEY}, groups: [[city, 7], []]", "key.groups.0.1", "must be text"),
        ("column: store, declared: [a], groups: [[]]", "key.groups", "take it out of key.column"),
    ],
)
def test_refusals(key: str, field: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loads(with_key(key))
    assert refused.value.field == field
    assert says in str(refused.value)


def test_models_and_audits_are_refused_by_name() -> None:
    head, _, rest = TWO.partition("aggregates:")
    model = (
        "model: {algorithm: online.follow_the_leader, features: [u], target: y, "
        "ranges: {u: [-1, 1], y: [-3, 3]}}\n"
    )
    with pytest.raises(ConfigError, match=r"key\.groups.*is for aggregates"):
        loads(head + model + rest[rest.index("mechanism:") :])
    with pytest.raises(ConfigError, match=r"key\.groups.*audit the config without groups"):
        Audited.of(loads(TWO))
    with pytest.raises(ConfigError, match="--truth.*a single column, ungrouped"):
        Truth(loads(TWO).plan_config(), Path("truth.ndjson"))


def test_the_digest_has_groupings_and_combinations_where_they_are_used() -> None:
    plan, alone = plan_of(loads(TWO)), plan_of(loads(with_key(KEY)))
    assert "groups" not in alone.canonical and "combinations" not in alone.canonical
    turned = TWO.replace(GROUPS, "groups: [[], [product, city], [city]]")
    assert plan_of(loads(turned)).digest == plan.digest != alone.digest
    fewer = plan_of(loads(TWO.replace(json.dumps(PAIRS), json.dumps(PAIRS[:2]))))
    assert fewer.digest != plan.digest, "a further combination would change released totals"
    job = loads(TWO)
    assert PlanConfig.from_dict(job.plan_config().to_dict()) == job.plan_config()
    assert [len(plan.keys.declared), len(plan.keys.combinations)] == [6, 3]


def test_the_plan_prices_each_grouping(weir: Weir, small: Path) -> None:
    small.write_text(TWO)
    told = " ".join(weir("plan", small, "--full").stdout.split())
    for part in ("nothing: the total", "33.3 %", "1.73 x that of a plan of its own"):
        assert part in told, (part, told)
    assert "An event counts in one key of each of 3 groupings" in told
    facts = json.loads(weir("plan", small, "--json").stdout)["groupings"]
    assert [(one["columns"], one["keys"]) for one in facts] == [
        (["city"], 2),
        (["city", "product"], 3),
        ([], 1),
    ]
    alone = plan_of(loads(with_key(KEY))).outputs[0].stddev_worst
    together = plan_of(loads(TWO)).outputs[0].stddev_worst
    assert together / alone == pytest.approx(3**0.5, rel=1e-6)
    assert "groupings" not in json.loads(_plan(weir, small, with_key(KEY)))


USERS = TWO.replace("{time: at, id: id}", "{time: at, id: id, unit: who}").replace(
    "protect_for: 8 ticks}",
    "protect_for: 8 ticks, unit: user, per: 8h, contributions: {ticks: 2, keys: 2, events: 1}}",
)


@pytest.mark.slow
def test_the_plan_prices_groupings_of_users(weir: Weir, small: Path) -> None:
    small.write_text(USERS.replace(GROUPS, f"{GROUPS}, weights: [1, 1, 4]"))
    assert "times as much for" in " ".join(weir("plan", small).stdout.split())
    shown = " ".join(weir("plan", small, "--full").stdout.split())
    assert "An event counts in one key of each of 3 groupings" in shown
    facts = json.loads(weir("plan", small, "--json").stdout)["groupings"]
    assert [one["keys"] for one in facts] == [2, 3, 1]
    shares = [one["share"] for one in facts]
    assert sum(shares) == pytest.approx(1, abs=0.2) and shares[2] > shares[0], shares
    for one in facts:
        assert f"{one['noise']:.2f} x that of a plan of its own" in shown
    found = USERS.replace(f"declared: {json.dumps(PAIRS)}", "discover: {min_users: 20}")
    assert plan_of(loads(found)).discovery is not None


def _plan(weir: Weir, small: Path, text: str) -> str:
    small.write_text(text)
    return str(weir("plan", small, "--json").stdout)


@pytest.mark.parametrize("every", ["", "release_every: 4\n"])
@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_shares_fit_the_promise(every: str, delta: str) -> None:
    text = f"""
name: g
schema: {{time: t}}
key: {{column: k, declared: [a, b], groups: [[k], []]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}}
privacy: {{epsilon: 1, delta: {delta}, protect_for: 12 ticks}}
aggregates: {{n: {{count: events}}}}
{every}"""
    plan = Plan.from_yaml(text)
    for one in plan.groupings:
        assert one.share == 0.5
        assert 0.5 - 1e-6 <= one.epsilon <= (0.5 if delta == "0" else 0.75)
        assert one.noise >= 2**0.5 * (1 - 1e-6)


@pytest.mark.slow
def test_a_run_shows_groupings_wherever_keys_are_shown(
    weir: Weir, small: Path, tmp_path: Path
) -> None:
    with (tmp_path / "events.csv").open("w") as file:
        file.write("at,id,amount,city,product\n")
        for i in range(900):
            city, product = PAIRS[0 if i % 9 else 2]
            file.write(f"2024-01-01T{i % 24:02d}:00:00Z,e{i},5,{city},{product}\n")
        file.write("2024-01-01T00:00:00Z,x,5,paris,\n")
    (tmp_path / "secret.key").write_text("ab" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    small.write_text(TWO + "secret: {file: secret.key}\n")
    result = weir("run", small)
    assert result.exit_code == 0, result.output
    out = tmp_path / "out"
    rows = result_rows(out)
    last = {r["key"]: r["value"][0] for r in rows if (r["tick"], r["name"]) == (23, "visits")}
    assert set(last) == {key_text(pair) for pair in (*PAIRS, ("paris", None), ("rome", None))} | {
        key_text((None, None))
    }
    assert abs(last["[null,null]"] - 900) < 300 and abs(last['["rome",null]'] - 100) < 300

    top = json.loads(weir("top", out, "--of", "visits", "--json").stdout)
    assert top["by"] == ["city", "product"] and top["keys"] == 3
    by_city = json.loads(weir("top", out, "--of", "visits", "--by", "city", "--json").stdout)
    assert [row["key"] for row in by_city["ranked"]] == ["paris, (all)", "rome, (all)"]
    assert "by visits, of city, " in " ".join(
        weir("top", out, "--of", "visits", "--by", "city").stdout.split()
    )
    refused = weir("top", out, "--of", "visits", "--by", "town")
    assert refused.exit_code == 2 and "it has: city; city,product" in refused.output

    everyone = gather(ResultFolder.open(out))
    assert "(all), (all)" in everyone.listed and "paris, (all)" in page(everyone)
    assert weir("status", out).exit_code == 0
    assert weir("diff", small, small).exit_code == 0
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE releases (key, value)")
        db.executemany("INSERT INTO releases VALUES (?, ?)", list(last.items()))
        totals = db.execute(
            "SELECT json_extract(key, '$[0]') FROM releases "
            "WHERE json_extract(key, '$[1]') IS NULL ORDER BY 1"
        ).fetchall()
    assert totals == [(None,), ("paris",), ("rome",)]


def test_a_single_column_and_its_total(weir: Weir, small: Path, tmp_path: Path) -> None:
    events: list[Any] = ["at,id,amount,store"]
    events += [f"2024-01-01T00:00:00Z,{i},1,{('north', 'south')[i % 2]}" for i in range(40)]
    (tmp_path / "events.csv").write_text("\n".join(events) + "\n")
    small.write_text(
        with_key("column: store, observed_keys_are_public: true, groups: [[store], []]")
    )
    assert weir("run", small).exit_code == 0
    run = ResultFolder.open(tmp_path / "out")
    assert {row["key"] for row in result_rows(tmp_path / "out")} == {
        '["north"]', '["south"]', "[null]"
    }  # fmt: skip
    assert run.shown("[null]") == "(all)" and run.shown('["north"]') == "north"


def test_the_total_reads_like_no_key() -> None:
    odd = ["(all)", "a", "null", ", ", "", None]
    keys = [key_text([one, two]) for one in odd for two in odd]
    assert len(set(keys)) == len({shown_key(key) for key in keys}) == len(keys)


@pytest.mark.slow
def test_the_schema_knows_groups() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())

    def passes(text: str) -> bool:
        return not list(validator.iter_errors(yaml.parse_mapping(text, {})))

    assert passes(TWO)
    assert not passes(TWO.replace(GROUPS, "groups: [city, []]"))
    assert not passes(TWO.replace(GROUPS, "groups: [[7], []]"))
