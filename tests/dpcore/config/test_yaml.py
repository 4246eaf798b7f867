"""YAML 1.2 core: what words mean, what is refused, and where."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dpcore.config import yaml
from weir.dpcore.config.yaml import parse, parse_mapping
from weir.dpcore.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1.", 1.0),
        (".5", 0.5),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("-.5e3", -500.0),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("-0x1F", "-0x1F"),
        ("1:30", "1:30"),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("2024-01-01", "2024-01-01"),
        ("1997-01-01T00:00:00Z", "1997-01-01T00:00:00Z"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_words_mean_what_the_core_schema_says(text: str, value: object) -> None:
    parsed = parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(parse(".nan"))


def test_keys_are_always_text() -> None:
    assert parse("{1: a, true: b, 2024-01-01: c, ~: d}") == {
        "1": "a",
        "true": "b",
        "2024-01-01": "c",
        "~": "d",
    }


def test_anchors_repeat_a_value() -> None:
    assert parse("a: &x [1]\nb: *x") == {"a": [1], "b": [1]}


def doubled(levels: int, first: str = "[0, 0]") -> str:
    """Each level is a list of the one before, twice."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("levels", [20, 40, 60])
def test_aliases_that_stand_for_too_much_are_refused_at_once(levels: int) -> None:
    """Of ten values each, ten levels are ten billion; what walks over them would not end."""
    with pytest.raises(ConfigError, match=r"line \d+.*repeats more than 131,072 values.*Write"):
        parse_mapping(doubled(levels))


def test_what_aliases_stand_for_is_counted_as_if_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(yaml, "_MAX_REPEATED", 30)
    assert parse(f"a: &a [0, 0]\nb: [{', '.join(['*a'] * 10)}]")["b"] == [[0, 0]] * 10
    with pytest.raises(ConfigError, match="repeats more than 30 values"):
        parse(f"a: &a [0, 0]\nb: [{', '.join(['*a'] * 11)}]")
    assert len(parse(f"a: [{', '.join(['0'] * 100)}]")["a"]) == 100


def test_aliases_are_nested_no_deeper_than_values() -> None:
    deep = "[" * 40 + "]" * 40
    with pytest.raises(ConfigError, match="line 2.*nested deeper than 64"):
        parse(f"a: &a {deep}\nb: {deep[:40]}*a{deep[40:]}")
    parse(f"a: &a {deep}\nb: [[*a]]")
    with pytest.raises(ConfigError, match="line 3.*nested deeper than 64"):
        parse(f"a: &a {deep}\nb: &b [[[[*a]]]]\nc: {'[' * 30}*b{']' * 30}")


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("a:\n\tb: 1", "line 2, column 1", "a tab stands where only spaces may. Put spaces"),
        ("a: b\n c: d", "line 2", "indented too far. Put a text with a colon in quotes, or align"),
        ("where: a: b", "line 1, column 9", "Put a text with a colon in quotes"),
        ('where: "a" == "b"', "line 1, column 12", "Put all of the value in quotes"),
        ("a: @x", "line 1, column 4", "begins with @. Put the value in quotes"),
        ("a: `x`", "line 1, column 4", "begins with `. Put the value in quotes"),
        ("a: [1, 2\nb: 3", "line 2", "a comma or ] is missing. Close"),
        ("a: {b: 1", "line 1", "a comma or } is missing. Close"),
        ("a: 'x", "line 1", "a quote that is never closed. Close"),
        (r'a: "\d"', "line 1", "Use single quotes"),
        ("x: ,", "line 1", "or put the value in quotes"),
    ],
)
def test_what_is_no_yaml_says_what_to_write(text: str, place: str, says: str) -> None:
    with pytest.raises(ConfigError, match="is not YAML here") as refused:
        parse_mapping(text)
    assert place in str(refused.value) and says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1", "repeats the key 'a'"),
        ("a: [1,", "line 1", "not YAML"),
        ("a: b: c", "line 1, column 5", "not YAML"),
        ("\tx: 1", "line 1, column 1", "not YAML"),
        ("---\na: 1\n---\nb: 2", "line 3", "second document"),
        ("a: *x", "line 1, column 4", "anchor"),
        ("a: !python/object:os.system x", "line 1, column 4", "tag"),
        ("? [a]\n: 1", "line 1", "key"),
        ("a: x\x00y", "line 1", "character"),
        ("- 1", "line 1", "mapping of fields"),
        ("[" * 100, "line 1", ""),
    ],
)
def test_refusals_name_line_and_column(text: str, place: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_mapping(text)
    assert place in str(refused.value)
    assert says in str(refused.value)
    assert refused.value.__cause__ is None


def test_variables_take_part_in_the_schema_and_cannot_add_fields() -> None:
    variables = {"EPS": "0.5", "EVIL": "x\nprivacy: {epsilon: 99}", "N": "7"}
    text = 'a: {eps: ${EPS}, quoted: "${N}", mixed: d${N}d}\nb: ${EVIL}\nc: $${EPS}  # ${UNSET}'
    assert parse(text, variables) == {
        "a": {"eps": 0.5, "quoted": "7", "mixed": "d7d"},
        "b": variables["EVIL"],
        "c": "${EPS}",
    }


def test_a_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(ConfigError, match="line 2, column 4.*variable NO"):
        parse("a: 1\nb: ${NO}", {})


def test_without_variables_the_text_stays() -> None:
    assert parse("'${NO}'") == "${NO}"


@given(st.text(max_size=60))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    try:
        parse(text, {})
    except ConfigError as error:
        assert "Traceback" not in str(error)
