"""A bare value wherever a config has a section is answered with what to write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest

from weir.dpcore.aggregates.algorithm import AnyAggregate
from weir.dpcore.config import yaml
from weir.dpcore.config.section import Section
from weir.dpcore.config.section_examples import parsed, skeleton
from weir.dpcore.config.validation import Chosen
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.connectors.connector import PluginField
from weir.transforms.formats.registry import file_formats

Path = tuple[str, ...]
BASE: dict[str, Any] = yaml.parse("""
name: visits
schema: {time: at}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {visits: {count: events}}
""")
BARE = ("places/name.x", "1d", 7, 0.5, True, ["a", "b"])


def sections(cls: type[Section], at: Path = (), around: Any = None) -> Iterator[tuple[Path, Any]]:
    """(path, config around it) of every section that a config may have, to any depth."""
    for name, info in cls.model_fields.items():
        name, found = info.alias or name, (info.annotation, *info.metadata)
        for part in _parts(found):
            if isinstance(part, Chosen):
                where = (*at, name, "x") if _is_mapping(info.annotation) else (*at, name)
                yield where, around
                for one in part.every().values():
                    more = {part.tag: one.model_fields["algorithm"].examples[0]} if part.tag else {}
                    yield from sections(one, where, put(around, where, skeleton(one) | more))
            elif isinstance(part, PluginField):
                yield (*at, name), around
                for kind in part.kinds.values():
                    yield from sections(kind, (*at, name), put(around, (*at, name), skeleton(kind)))
            elif isinstance(part, type) and issubclass(part, Section) and not _tagged(found):
                listed = re.search(r"tuple\[(?!str)", str(info.annotation))
                where = (*at, name, "0") if listed else (*at, name)
                yield where, around
                yield from sections(part, where, put(around, where, skeleton(part)))


def _parts(found: Any) -> Iterator[Any]:
    for one in found:
        yield one
        if not isinstance(one, type):
            yield from _parts(get_args(one))


def _tagged(found: Any) -> bool:
    return any(isinstance(part, Chosen | PluginField) for part in _parts(found))


def _is_mapping(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict


def put(data: Any, path: Path, value: Any) -> Any:
    """A copy with a value at a path; entries of a list are named by their places."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if first == "0":
        return [put({}, rest, value)]
    inside = data.get(first) if isinstance(data, Mapping) else None
    return {**(data or {}), first: put(inside or {}, rest, value)}


FOUND: dict[Path, Any] = {}
for place, around in sections(JobConfig, around=BASE):
    FOUND.setdefault(place, around)


def refusal(data: Any) -> ConfigError | None:
    try:
        JobConfig.from_dict(data)
    except ConfigError as error:
        return error
    return None


def without_aggregates(path: Path, data: Any) -> Any:
    """A model stands alone."""
    return {k: v for k, v in data.items() if k != "aggregates"} if path[0] == "model" else data


def test_all_sections_are_found() -> None:
    names = {".".join(path) for path in FOUND}
    assert names >= {
        *("schema", "schema.arrival", "key", "key.discover", "key.discover.retire", "clock"),
        *("privacy", "privacy.contributions", "expect", "aggregates.x", "model", "model.clip"),
        *("source", "source.pubsub", "source.pubsub.replay", "sink", "dead_letters", "ledger"),
        *("ledger.budget", "secret", "secret.rotate.0", "engine", "limits", "deduplicate"),
        *("mechanism", "model.projection"),
    }
    assert any(isinstance(part, Chosen) for part in get_args(AnyAggregate))


@pytest.mark.parametrize("path", FOUND, ids=".".join)
def test_a_bare_value_is_answered_with_what_to_write(path: Path) -> None:
    around = without_aggregates(path, FOUND[path])
    name, answered = path[-1], 0
    for value in BARE:
        error = refusal(put(around, path, value))
        if error is None or error.field != ".".join(path) or "must be a section" not in str(error):
            continue  # the field takes it, or says what it takes in addition a section
        answered += 1
        assert not error.remedy.endswith("fields ."), error
        line = re.search(r"Write something like `(.*)`\.$", error.remedy)
        assert line is not None, error
        meant = parsed(line[1])
        meant = meant if name == "0" else meant[name]
        assert meant, error
        again = refusal(put(around, path, meant))
        assert again is None or not (
            again.field == error.field and "must be a section" in str(again)
        ), again
    others = ("time", "arrival", "map", "projection", "inputs", *file_formats())
    assert answered or name in others, "nothing is said"


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("sink", "o3/", "sink: {parquet: o3/, every: 128}"),
        ("sink", "out/res.csv", "sink: {csv: out/res/}"),
        ("sink", "csv", "sink: {csv: out/}"),
        ("sink", "projects/acme-1/topics/t", "sink: {pubsub: projects/acme-1/topics/t}"),
        ("source", "f.csv", "source: {csv: f.csv}"),
        ("source", "in/*.ndjson.gz", "source: {ndjson: in/*.ndjson.gz}"),
        ("source", "projects/acme-1/subscriptions/s",
         "source: {pubsub: {subscription: projects/acme-1/subscriptions/s}}"),
        ("dead_letters", "dead/", "dead_letters: {parquet: dead/}"),
        ("ledger", "l.db",
         "ledger: {sqlite: l.db, scope: customers, budget: {epsilon: 4, delta: 1e-06}}"),
        ("key", "country", "key: {column: country, declared: [north, south]}"),
        ("schema", "ts", "schema: {time: ts}"),
        ("clock", "1d", "clock: {start: 1997-01-01T00:00:00Z, period: 1d}"),
        ("privacy", 2, "privacy: {epsilon: 2, delta: 1e-06, protect_for: 365d}"),
        ("secret", "secret.key", "secret: {file: secret.key}"),
        ("deduplicate", "7d", "deduplicate: {horizon: 7d}"),
        ("engine", 4, "engine: {parallelism: 4}"),
        ("limits", 0.05, "limits: {refused: 0.05}"),
        ("mechanism", "blt", "mechanism: {continual_sum: blt}"),
        ("expect", 400, "expect: {events: 400}"),
        ("aggregates", "count", "aggregates: {purchases: {count: events}}"),
        ("model", "erm.sampled", "model: {algorithm: erm.sampled, features: [hour], "),
    ],
)  # fmt: skip
def test_the_value_itself_is_in_it_where_a_field_takes_it(
    field: str, value: Any, line: str
) -> None:
    error = refusal({**BASE, field: value})
    assert error is not None and error.field == field and error.value == value
    assert f"Write something like `{line}" in error.remedy


def test_an_aggregate_without_a_name_is_given_one() -> None:
    error = refusal({**BASE, "aggregates": {"count": "events"}})
    assert error is not None
    assert error.remedy == "needs a name of its own. Write `aggregates: {total: {count: events}}`."


def test_a_secret_in_the_place_of_its_section_is_not_repeated() -> None:
    secret = "a1" * 32
    error = refusal({**BASE, "secret": secret})
    assert error is not None and secret not in f"{error} {error.value} {error.remedy}"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("name", None, "has no value. Write something like `name: shop`."),
        ("name", 5, 'must be text; put it in quotes, like "5".'),
        ("name", True, 'must be text; put it in quotes, like "true".'),
        ("name", ["a"], "must be text. Write something like `name: shop`."),
        ("secret", {"file": "a", "rotate": "b"}, "must be a list. Write something like `rotate: ["),
        ("key", {"column": "a", "declared": "CH"}, "like `declared: [north, south]`."),
        ("privacy", {**BASE["privacy"], "unit": "customer"}, "Name the column of users"),
        ("source", {"csv": ["a/x.csv", 7]}, "must list at least one path or glob, like"),
        ("source", {"csv": 7}, "must be a path or glob, a list of them, or {dataset: DIR"),
        ("source", {"csv:f.csv": None}, "write a space after the colon, like csv: f.csv."),
        ("source", {"duckdb": "x.db"}, "Tables of DuckDB, SQLite and PostgreSQL are read by sql"),
        ("source", {"csv": "http://x.org/a.csv"}, "copy files from elsewhere to one of these"),
        ("source", {"csv": "file:///a.csv"}, "Write the path without file://"),
        ("sink", {"parquet": "https://x.org/out"}, "Use a folder of a disk"),
        ("sink", {"csv": "out/res.csv"}, "Write the name of a folder, like out/res/."),
        ("sink", {"parquet": "gs://b/x.parquet"}, "Write the name of a folder, like gs://b/x/."),
        ("dead_letters", {"ndjson": "dead.jsonl.gz"}, "Write the name of a folder, like dead/."),
    ],
)  # fmt: skip
def test_other_values_are_answered_too(field: str, value: Any, says: str) -> None:
    error = refusal({**BASE, field: value})
    assert error is not None and says in error.remedy, error
