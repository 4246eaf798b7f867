"""Several key columns in a config, and all the way to what people read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.bounded_events import Events
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import key_text, shown_key
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import simulate
from weir.pipelines.config.job import json_schema, load, loads
from weir.pipelines.feed.synthetic import Shares, batches
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.report.data import gather
from weir.pipelines.report.page import page
from weir.pipelines.report.score import score
from weir.pipelines.results.run import ResultFolder

ONE = "key: {column: store, declared: [north, south]}"
PAIRS = [("paris", "shoes"), ("rome", "hats"), ("a,b", "c"), ("a", 'b",c')]
DECLARED = json.dumps(PAIRS)
TWO = SMALL.replace(ONE, f"key: {{columns: [city, product], declared: {DECLARED}}}")


def refusal(key: str, schema: str = "{time: at, id: id}") -> ConfigError:
    text = SMALL.replace(ONE, f"key: {key}").replace("{time: at, id: id}", schema)
    with pytest.raises(ConfigError) as refused:
        loads(text)
    return refused.value


@pytest.mark.parametrize(
    ("key", "field", "says"),
    [
        ("{column: a, columns: [b, c], declared: [x]}", "key.columns", "cannot be combined with"),
        ("{declared: [x]}", "key.column", "columns: [city, product]"),
        ("{columns: [a], declared: [[x]]}", "key.columns", "two columns or more"),
        ("{columns: [a, a], declared: [[x, y]]}", "key.columns", "'a': is named twice"),
        ("{columns: [a, '@b'], declared: [[x, y]]}", "key.columns.1", "names that start with @"),
        ("{columns: [a, b], declared: [[x]]}", "key.declared", "a value for each of a, b"),
        ("{columns: [a, b], declared: [[x, y, z]]}", "key.declared", "a value for each of a, b"),
        ("{columns: [a, b], declared: [x]}", "key.declared", "'x': must be a list"),
        ("{columns: [a, b], declared: [[x, 7]]}", "key.declared.0.1", "must be text"),
        ("{columns: [a, b], declared: [[x, y], [x, y]]}", "key.declared", "listed twice"),
        ("{columns: [a, b], declared: []}", "key.declared", "at least one"),
        ("{columns: [a, b]}", "key.declared", "[[paris, shoes], [rome, hats]]"),
        ("{column: a, declared: [[x, y]]}", "key.declared", "columns: [...]"),
        ("{column: a, declared: [7]}", "key.declared.0", "must be text"),
        ("{columns: [a, at], declared: [[x, y]]}", "key.columns", "schema.time"),
        ("{columns: [id, a], declared: [[x, y]]}", "key.columns", "schema.id"),
    ],
)
def test_refusals(key: str, field: str, says: str) -> None:
    error = refusal(key)
    assert error.field == field
    assert says in str(error)


def test_the_plan_knows_the_columns_and_not_the_keys() -> None:
    job = loads(TWO)
    plan = plan_of(job)
    assert plan.canonical["key"] == ["city", "product"]
    assert plan.keys.declared == tuple(map(key_text, PAIRS))
    turned = plan_of(loads(TWO.replace("[city, product]", "[product, city]")))
    fewer = plan_of(loads(TWO.replace(DECLARED, json.dumps(PAIRS[:2]))))
    assert turned.digest != plan.digest == fewer.digest
    assert PlanConfig.from_dict(job.plan_config().to_dict()) == job.plan_config()


def test_a_single_column_keeps_its_digest() -> None:
    assert plan_of(loads(SMALL)).canonical["key"] == "store"
    assert plan_of(loads(SMALL)).keys.declared == ("north", "south")


def test_feed_makes_up_declared_combinations() -> None:
    made = pa.Table.from_batches(list(batches(loads(TWO).plan_config(), 2000, 1, Shares())))
    found = set(zip(made["city"].to_pylist(), made["product"].to_pylist(), strict=True))
    assert found == set(PAIRS)
    observed = TWO.replace(f"declared: {DECLARED}", "observed_keys_are_public: true")
    made = pa.Table.from_batches(list(batches(loads(observed).plan_config(), 2000, 1, Shares())))
    assert len(set(made["product"].to_pylist())) == 10


@pytest.mark.slow
def test_a_run_releases_what_is_simulated_and_shows_it(
    weir: Weir, small: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    every = [*PAIRS, ("paris", "hats")]
    drawn = [every[i] for i in rng.integers(0, len(every), 400)]
    hours = rng.integers(0, 24, 400)
    with (tmp_path / "events.ndjson").open("w") as file:
        for i, ((city, product), hour) in enumerate(zip(drawn, hours, strict=True)):
            event = {"at": f"2024-01-01T{hour:02d}:00:00Z", "id": f"e{i}", "amount": i % 60}
            file.write(json.dumps({**event, "city": city, "product": product}) + "\n")
        file.write('{"at":"2024-01-01T00:00:00Z","id":"x","amount":1,"city":"paris"}\n')
    (tmp_path / "secret.key").write_text("ab" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    text = TWO.replace("csv: events.csv", "ndjson: events.ndjson")
    # A fifth of the events is of a pair that is not declared.
    small.write_text(text + "secret: {file: secret.key}\nlimits: {refused: 0.5}\n")
    result = weir("run", small)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for part in ("paris, shoes", "events read"):
        assert part in words, (part, words)

    job = load(small)
    keep = [i for i, pair in enumerate(drawn) if pair in PAIRS]
    start = plan_of(job).clock.start
    events = Events(
        start + hours[keep].astype(np.int64) * 3_600_000_000,
        [key_text(drawn[i]) for i in keep],
        {"amount": np.array([i % 60 for i in keep], dtype=np.float64)},
    )
    wanted: dict[Any, list[float]] = {}
    for one in simulate(plan_of(job), events, bytes.fromhex("ab" * 32)):
        for released in one.released:
            for tick, row in enumerate(released.value[:, 0]):
                wanted[one.key, tick, released.name] = row.tolist()
    rows = result_rows(tmp_path / "out")
    assert {(r["key"], r["tick"], r["name"]): r["value"] for r in rows} == wanted
    in_order = [row["key"].encode() for row in rows if (row["tick"], row["name"]) == (0, "visits")]
    assert in_order == sorted(key_text(pair).encode() for pair in PAIRS)

    data = gather(ResultFolder.open(tmp_path / "out"), ['["paris","shoes"]', "rome, hats"])
    assert data.drawn == ("paris, shoes", "rome, hats")
    everyone = gather(ResultFolder.open(tmp_path / "out"))
    assert set(everyone.listed) == {"paris, shoes", "rome, hats", '"a,b", c', 'a, "b\\",c"'}
    assert "paris, shoes" in page(everyone)
    assert weir("status", tmp_path / "out").exit_code == 0
    assert weir("diff", small, small).exit_code == 0
    assert "city, product" in weir("plan", small, "--full").stdout


def test_the_schema_knows_both_forms() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())

    def passes(key: str) -> bool:
        text = SMALL.replace(ONE, f"key: {key}")
        return not list(validator.iter_errors(yaml.parse_mapping(text, {})))

    assert passes("{column: a, declared: [x]}")
    assert passes("{columns: [a, b], declared: [[x, y]]}")
    assert passes("{columns: [a, b], observed_keys_are_public: true}")
    for wrong in (
        "{declared: [x]}",
        "{column: a, columns: [b, c], declared: [[x, y]]}",
        "{columns: [a], declared: [[x]]}",
        "{columns: [a, b], declared: [[x, 7]]}",
        "{columns: a, declared: [[x, y]]}",
    ):
        assert not passes(wrong), wrong


@pytest.mark.slow
def test_models_are_scored_by_keys_of_several_columns(weir: Weir, small: Path) -> None:
    rng = np.random.default_rng(8)
    lines = ["at,city,product,u,y"]
    for i in range(120):
        city, product = PAIRS[i % 2]
        u = rng.uniform(-1, 1)
        slope = 3 if city == "paris" else -3
        lines.append(f"2024-01-01T{i % 24:02d}:00:00Z,{city},{product},{u:.3f},{slope * u:.3f}")
    (small.parent / "events.csv").write_text("\n".join(lines) + "\n")
    head, _, rest = TWO.replace("{time: at, id: id}", "{time: at}").partition("aggregates:")
    model = (
        "model: {algorithm: online.follow_the_leader, features: [u], target: y, "
        "ranges: {u: [-1, 1], y: [-3, 3]}}\n"
    )
    small.write_text(head + model + rest[rest.index("mechanism:") :])
    assert weir("run", small).exit_code == 0
    out = small.parent / "out"
    found = score(gather(ResultFolder.open(out)), small.parent / "events.csv")
    assert (found.events, found.left_out) == (120, 0)
    assert {one.key for one in found.scatters} >= {"paris, shoes", "rome, hats"}
    assert {one.key: len(one.actual) for one in found.scatters}["paris, shoes"] == 60


def test_a_look_at_the_first_records_names_what_is_wrong(weir: Weir, small: Path) -> None:
    small.write_text(TWO)
    events = small.parent / "events.csv"
    events.write_text("at,id,amount,city,product\n2024-01-01,1,5,Paris,Shoes \n")
    result = weir("run", small)
    assert result.exit_code == 2
    told = " ".join(result.output.split())
    assert "columns city, product" in told and "But for spaces and capitals" in told
    events.write_text("at,id,amount,city,product\n2024-01-01,1,5,paris,\n")
    told = " ".join(weir("run", small).output.split())
    assert "key.columns" in told and "product" in told
    events.write_text("at,id,amount,town,product\n2024-01-01,1,5,paris,shoes\n")
    told = " ".join(weir("run", small).output.split())
    assert "key.columns = 'city': is not a column of" in told


def test_no_two_keys_read_alike() -> None:
    odd = ["a", "a, b", "", " ", "b ", '"a"', "a b", "\u00fc", "\n", '", "']
    keys = [key_text([one, two]) for one in odd for two in odd]
    assert len({shown_key(key) for key in keys}) == len(keys)
    assert shown_key('["paris","shoes"]') == "paris, shoes"
    assert shown_key("[1]") == "[1]" and shown_key("north") == "north"
