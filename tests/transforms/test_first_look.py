"""What a first look finds, and that one record that fits ends every doubt."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.events import MARKER
from tests.transforms.running import run
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.input_validation import Doubt, Evidence, FirstLook
from weir.transforms.decode.lines import chunks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.validation_errors import RecordsPlace, refusal

TEXT = """
name: ratings
schema: {time: TIME, id: id}
key: {column: city, declared: [Ulm, Bonn]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-05T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates: {rating: {mean: COLUMN, clip: [1, 5]}}
"""
RECORD: dict[str, Any] = {
    "at": "2025-01-02T03:04:05Z",
    "s": 1735787045,
    "city": "Ulm",
    "id": "r1",
    "rating": 4,
    "title": MARKER,
    "fair": True,
}
PLACE = RecordsPlace(
    "source.ndjson", "r.ndjson", "records looked at in r.ndjson", "check its format"
)


def plan(time: str = "at", column: str = "rating", more: str = "") -> Plan:
    return Plan.from_yaml(TEXT.replace("TIME", time).replace("COLUMN", column) + more)


def looked(
    made: Plan, records: list[Any], named: bool = False
) -> tuple[tuple[Doubt, ...], str, Evidence]:
    """Doubts, the error's text, and what was seen."""
    schema = EventSchema.from_config(made.config, made.program.columns)
    look = FirstLook(made, schema, named)
    data = b"".join(
        one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in records
    )

    def read(other: EventSchema) -> Iterator[Decoded]:
        return decode_ndjson(chunks(io.BytesIO(data).read), other, "r.ndjson")

    seen = sum(map(look.evidence, read(schema)), Evidence())
    doubts = look.doubts(seen)
    if not doubts:
        return doubts, "", seen
    error = refusal(look, seen + look.tried(doubts, read), doubts, PLACE)
    assert MARKER not in str(error)
    return doubts, str(error), seen


def test_without_a_key_no_key_is_missed() -> None:
    single = "\n".join(line for line in TEXT.splitlines() if not line.startswith("key"))
    made = Plan.from_yaml(single.replace("TIME", "at").replace("COLUMN", "rating"))
    assert looked(made, [RECORD])[0] == ()


CASES = [
    ({"column": "ratng"}, {}, Doubt("absent", "ratng"), r"'ratng': is not in any of the 3 records"),
    ({"column": "title"}, {}, Doubt("kind", "title"), r"holds no numbers .*\(text instead\)"),
    ({"column": "fair"}, {}, Doubt("kind", "fair"), r"\(true or false instead\)"),
    ({}, {"rating": "4"}, Doubt("kind", "rating"), "without quotes"),
    ({}, {"rating": None}, Doubt("absent", "rating"), "would be missing throughout"),
    ({}, {"id": None}, Doubt("absent", "id", "@id"), r"schema\.id = 'id'.*copies"),
    ({}, {"id": 2.5}, Doubt("kind", "id", "@id"), r"schema\.id = 'id'.*text or whole numbers"),
    ({"time": "when"}, {}, Doubt("absent", "when", "@time"), r"schema\.time\.column = 'when'"),
    ({}, {"at": MARKER}, Doubt("time", "at", "@time"), r"reads no time .* epoch_ms"),
    ({}, {"at": "03.01.2025"}, Doubt("time", "at", "@time"), r"schema\.time\.format: %d\.%m\.%Y"),
    (
        {"time": "{column: s, format: epoch_ms}"},
        {},
        Doubt("clock"),
        r"as epoch_s .* write schema\.time\.format: epoch_s\.",
    ),
    (
        {"time": "{column: s, format: epoch_s}"},
        {"s": RECORD["s"] * 1000},
        Doubt("time", "s", "@time"),
        r"write schema\.time\.format: epoch_ms\.",
    ),
    (
        {"time": "{column: at, format: epoch_s}"},
        {},
        Doubt("time", "at", "@time"),
        "as ISO 8601 .* leave the format out",
    ),
    ({}, {"at": "2024-12-31T00:00:00Z"}, Doubt("clock"), "3 before its start"),
    ({}, {"at": "2025-01-05T00:00:00Z"}, Doubt("clock"), "2025-01-05.* 3 after its end"),
    ({}, {"city": MARKER}, Doubt("key", "city"), r"key\.declared .*does not name the key"),
    ({}, {"city": "ulm "}, Doubt("key", "city"), "for spaces and capitals, 3 would be"),
    ({}, {"city": None}, Doubt("absent", "city", "@key"), r"key\.column = 'city'"),
    ({"column": "city"}, {}, Doubt("kind", "city"), ".mean = 'city': holds no numbers"),
    (
        {"more": "where: refund > 0\n"},
        {},
        Doubt("absent", "refund"),
        "where = 'refund'.*leave out every event",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("config", "record", "doubt", "words"), CASES)
def test_what_no_record_has_is_named_with_the_remedy(
    config: dict[str, str], record: dict[str, Any], doubt: Doubt, words: str
) -> None:
    wrong = {name: value for name, value in {**RECORD, **record}.items() if value is not None}
    doubts, text, seen = looked(plan(**config), [wrong] * 3)
    assert doubts[0] == doubt and seen["records"] == 3
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(text)


@pytest.mark.parametrize(
    "record",
    [case[1] for case in CASES if case[1] and not case[0]],
)
def test_one_record_that_fits_ends_the_doubt(record: dict[str, Any]) -> None:
    wrong = {name: value for name, value in {**RECORD, **record}.items() if value is not None}
    assert looked(plan(), [wrong] * 50 + [RECORD])[0] == ()
    assert looked(plan(), [RECORD])[0] == ()


def test_no_record_at_all_is_no_doubt_and_no_readable_one_is() -> None:
    assert looked(plan(), [])[0] == ()
    doubts, text, _ = looked(plan(), [b"{broken}\n", b"[]\n"])
    assert doubts == (Doubt("record"),) and "source.ndjson = 'r.ndjson': holds no record" in text


def test_a_column_that_only_the_predicate_reads_may_be_rare() -> None:
    for where in ("refund is None", "not (refund > 0)", "refund > 0 or rating > 1"):
        assert looked(plan(more=f"where: {where}\n"), [RECORD])[0] == ()


def test_a_column_with_a_known_name_may_be_empty_and_not_of_another_sort() -> None:
    empty = {**RECORD, "rating": None}
    assert looked(plan(), [empty] * 3, named=True)[0] == ()
    assert looked(plan(), [{**RECORD, "rating": "x"}] * 3, named=True)[0]


def test_all_columns_that_are_not_there_are_named_at_once() -> None:
    both = "aggregates: {tip: {sum: tip, clip: [0, 1]}, "
    made = Plan.from_yaml(
        TEXT.replace("TIME", "at").replace("COLUMN", "ratng").replace("aggregates: {", both)
    )
    _, text, _ = looked(made, [RECORD])
    assert "the one record looked at in r.ndjson" in text and "The same goes for `" in text
    assert "tip" in text and "ratng" in text


def test_a_form_that_fits_few_is_not_named() -> None:
    odd = [{**RECORD, "at": "no time"}] * 9 + [{**RECORD, "at": "03.01.2025"}]
    doubts, text, _ = looked(plan(), odd)
    assert doubts == (Doubt("time", "at", "@time"),) and "%d.%m" not in text
    assert "%d.%m" in looked(plan(), odd[:1] + odd[-1:] * 2)[1]


def test_evidence_adds_up_in_any_order() -> None:
    a, b = Evidence({"records": 2, ("has", "x"): 1}), Evidence({"records": 3, "inside": 1})
    assert (a + b).counts == (b + a).counts
    assert (a + b)["records"] == 5 and (a + b)["absent"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("column", ["ratng", "title"])
def test_python_events_of_which_none_fits_release_nothing(column: str) -> None:
    with pytest.raises(ConfigError, match=f"aggregates.rating.mean = '{column}'.*first_look=False"):
        run(plan(column=column), [RECORD] * 5, kind=dict)
    assert run(plan(column=column), [RECORD] * 5, kind=dict, first_look=False).rows


@pytest.mark.slow
def test_what_counts_is_all_events_and_not_one_bundle() -> None:
    wrong = {**RECORD, "city": "Rome", "id": "r2", "rating": "x"}
    ran = run(plan(), [wrong] * 400 + [RECORD], kind=dict)
    assert ran.rows and len(ran.dead) >= 400
    assert run(plan(), [], kind=dict).rows
    with pytest.raises(ConfigError, match="give dictionaries"):
        run(plan(), ["a", "b"], kind=Any)
    decoded = pa.RecordBatch.from_pydict(
        {
            "@time": pa.array([1735787045_000_000], pa.timestamp("us", "UTC")),
            "@key": pa.array(["Ulm"]).dictionary_encode(),
            "@id": ["r9"],
            "@position": pa.array([0], pa.int64()),
            "rating": [3.0],
        }
    )
    assert run(plan(), [wrong, decoded], kind=Any).rows


@pytest.mark.parametrize("named", [False, True])
def test_records_of_nobody_are_told_where_the_unit_is_a_user(named: bool) -> None:
    users = TEXT.replace("schema: {", "schema: {unit: who, ", 1)
    protects = users.replace(
        "privacy: {",
        "privacy: {unit: user, per: all, contributions: {ticks: 1, keys: 1, events: 1}, ",
        1,
    )
    texts = (protects, users.replace("privacy: {", "privacy: {unit: event, ", 1))
    made, of_events = (
        Plan.from_yaml(text.replace("TIME", "at").replace("COLUMN", "rating")) for text in texts
    )
    nobody = [RECORD | {"who": ""}, RECORD | {"who": None}]
    doubts, said, _ = looked(made, nobody, named)
    assert doubts[0] == Doubt("absent", "who", "@unit")
    assert "schema.unit" in said and "no event would be anybody's" in said
    assert looked(made, [*nobody, RECORD | {"who": "ann"}], named)[0] == ()
    assert not looked(of_events, nobody, named)[0], "an event needs nobody"
