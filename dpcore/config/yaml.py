"""YAML 1.2 core schema: text -> plain values, and nothing that surprises.

YAML 1.2 core schema: text -> plain values, and nothing that surprises.

Under the core schema ``1e-6`` is a number, ``no`` and timestamps are text, ``007`` is 7.
Keys of mappings are always text, a key that stands twice is an error, and ``${NAME}`` in a value is
replaced after the text has been parsed, so that what a variable holds can never add a field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from weir.dpcore.errors import ConfigError

YAML11_NUMBER = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"
"""Numbers that tools of YAML 1.1 read as text, and write in quotes."""
_YAML11_NUMBER = re.compile(YAML11_NUMBER)


def with_numbers(value: Any) -> Any:
    """Plain values with text that YAML 1.1 made of numbers as numbers, at any depth.

    For fields that are checked by a function of their own and hold no text that spells a number.
    """
    if isinstance(value, Mapping):
        return {name: with_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_numbers(item) for item in value]
    return float(value) if is_yaml11_number(value) else value


def is_yaml11_number(value: Any) -> bool:
    """Whether a text is a number by YAML 1.2 that YAML 1.1 takes for text: ``1e-6``, ``1.5e6``."""
    return isinstance(value, str) and _YAML11_NUMBER.match(value) is not None


# The core schema to the letter. The parser's own resolver for YAML 1.2 knows more (0b11, 1_000,
# -0x1F, timestamps, <<) and less (-.5e3).
_NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITY = re.compile(r"[-+]?(?:\.inf|\.Inf|\.INF)\Z")
_NAN = re.compile(r"(?:\.nan|\.NaN|\.NAN)\Z")
_VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# A variable travels through the parser as private-use characters of the same length, because a
# brace would end a flow mapping: ``{epsilon: ${EPS}}``.
_OPEN, _CLOSE, _ESCAPED = "\ue000", "\ue001", "\ue002"
_MARKED = re.compile(f"{_OPEN}{_OPEN}([A-Za-z0-9_]+){_CLOSE}|{_ESCAPED}+([A-Za-z0-9_]+){_CLOSE}")
_MAX_DEPTH = 64
_MAX_REPEATED = 1 << 17
"""Values that aliases may repeat in all: a few lines of them can stand for any number."""
_PROBLEMS = (
    (r"character '\\t'", "a tab stands where only spaces may. Put spaces in its place."),
    (r"character '(.)' that", r"a value begins with \1. Put the value in quotes."),
    (
        r"mapping values are not allowed",
        "a second colon, or a line that is indented too far. Put a text with a colon in quotes, or "
        "align the line with the one above.",
    ),
    (
        r"expected <block end>, but found '<scalar>'",
        "something follows a text in quotes. Put all of the value in quotes of the other kind.",
    ),
    (r"expected ',' or '([]}])'", r"a comma or \1 is missing. Close what is open above."),
    (r"unknown escape character", "a backslash in double quotes. Use single quotes."),
    (r"unexpected end of stream", "a quote that is never closed. Close it."),
)
"""What the parser says -> what is wrong, and what to do."""
_TAG = "tag:yaml.org,2002:"


def parse(text: str, variables: Mapping[str, str] | None = None) -> Any:
    """One YAML document as dicts, lists, text, int, float, bool and None.

    Args:
      text: the document.
      variables: values of ``${NAME}``; None leaves such text alone. ``$${NAME}`` means ``${NAME}``.

    Raises:
      ConfigError: not YAML, a key that stands twice, a variable without a value; with its place.
    """
    if variables is not None:
        text = _VARIABLE.sub(_mark, text)
    builder = _Builder(variables)
    try:
        events = YAML(typ="safe", pure=True).parse(text)
        return builder.document(iter(events))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(
            "config", _where(mark), f"is not YAML here: {_problem(_unmark(str(error.problem)))}"
        ) from None
    except YAMLError as error:
        result = re.search(r"position (\d+)", str(error))
        line = text.count("\n", 0, int(result.group(1))) + 1 if result else 1
        raise ConfigError(
            "config", f"line {line}", "holds a character that YAML does not allow."
        ) from None


def parse_mapping(text: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """As ``parse``, for a document that must be a mapping of fields."""
    value = parse(text, variables)
    if not isinstance(value, dict):
        raise ConfigError("config", "line 1", "must be a mapping of fields, like `name: shop`.")
    return value


def scalar(text: str) -> Any:
    """What an unquoted word means under the core schema."""
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text[0] in "tT"
    if len(text) > 1000:
        return text
    if _INT.match(text):
        return int(text)
    if _OCTAL.match(text):
        return int(text[2:], 8)
    if _HEX.match(text):
        return int(text[2:], 16)
    if _FLOAT.match(text):
        return float(text)
    if _INFINITY.match(text):
        return -math.inf if text[0] == "-" else math.inf
    if _NAN.match(text):
        return math.nan
    return text


def _mark(found: re.Match[str]) -> str:
    if found.group(1):
        return f"{_ESCAPED * 3}{found.group(2)}{_CLOSE}"
    return f"{_OPEN}{_OPEN}{found.group(2)}{_CLOSE}"


def _unmark(text: str) -> str:
    return _MARKED.sub(lambda found: f"${{{found.group(1) or found.group(2)}}}", text)


def _problem(said: str) -> str:
    for pattern, words in _PROBLEMS:
        result = re.search(pattern, said)
        if result is not None:
            return result.expand(words)
    return f"{said}. Correct it, or put the value in quotes."


def _where(mark: Any) -> str:
    return "line 1" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"


class _Anchored(NamedTuple):
    """A value that aliases may stand for: how many it holds, itself included, and how deep."""

    value: Any
    size: int
    height: int


class _Builder:
    """Builds plain values from parser events. Lives for one document."""

    def __init__(self, variables: Mapping[str, str] | None) -> None:
        self._variables = variables
        self._anchors: dict[str, _Anchored] = {}
        self._values = self._repeated = self._deepest = 0

    def document(self, events: Iterator[Any]) -> Any:
        value: Any = None
        documents = 0
        for event in events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise ConfigError(
                        "config", _where(event.start_mark), "starts a second document; keep one."
                    )
            elif kind not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                value = self._value(event, events, 0)
        return value

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._repeat(event, depth)
        self._reach(event, depth)
        before, around, self._deepest = self._values, self._deepest, depth
        self._values += 1
        value: Any
        if kind == "ScalarEvent":
            value = self._scalar(event)
        elif kind == "SequenceStartEvent":
            value = []
            for child in events:
                if type(child).__name__ == "SequenceEndEvent":
                    break
                value.append(self._value(child, events, depth + 1))
        else:
            value = self._mapping(events, depth)
        if event.anchor is not None:
            size, height = self._values - before, self._deepest - depth
            self._anchors[event.anchor] = _Anchored(value, size, height)
        self._deepest = max(around, self._deepest)
        return value

    def _repeat(self, event: Any, depth: int) -> Any:
        """What an alias stands for; counted as if it were written out."""
        where = _where(event.start_mark)
        if event.anchor not in self._anchors:
            raise ConfigError("config", where, f"names no earlier anchor: *{event.anchor}.")
        result = self._anchors[event.anchor]
        self._reach(event, depth + result.height)
        self._values += result.size
        self._repeated += result.size
        if self._repeated > _MAX_REPEATED:
            raise ConfigError(
                "config",
                where,
                f"repeats more than {_MAX_REPEATED:,} values by its aliases. Write out what is "
                "needed of them.",
            )
        return result.value

    def _reach(self, event: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ConfigError(
                "config", _where(event.start_mark), f"is nested deeper than {_MAX_DEPTH} levels."
            )
        self._deepest = max(self._deepest, depth)

    def _mapping(self, events: Iterator[Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for child in events:
            if type(child).__name__ == "MappingEndEvent":
                break
            where = _where(child.start_mark)
            if type(child).__name__ != "ScalarEvent":
                raise ConfigError("config", where, "is a key that is not a word.")
            key = self._substitute(child.value, child)
            if key in out:
                raise ConfigError("config", where, f"repeats the key {key!r}; keep one.")
            out[key] = self._value(next(events), events, depth + 1)
        return out

    def _scalar(self, event: Any) -> Any:
        text = self._substitute(event.value, event)
        tag = str(event.ctag) if getattr(event, "ctag", None) is not None else event.tag
        tag = None if tag in (None, "None", "") else tag
        plain = event.style in (None, "") and tag is None
        if plain:
            return scalar(text)
        if tag in (None, "!", "!!str", f"{_TAG}str"):
            return text
        for name, types in (("int", (int,)), ("float", (float, int)), ("bool", (bool,))):
            if tag in (f"!!{name}", f"{_TAG}{name}"):
                value = scalar(text)
                if type(value) in types:
                    return float(value) if name == "float" else value
        raise ConfigError("config", _where(event.start_mark), "has a tag that is not allowed here.")

    def _substitute(self, text: str, event: Any) -> str:
        if self._variables is None:
            return text
        variables = self._variables

        def value_of(found: re.Match[str]) -> str:
            if found.group(2) is not None:
                return f"${{{found.group(2)}}}"
            name = found.group(1)
            if name not in variables:
                raise ConfigError(
                    "config",
                    _where(event.start_mark),
                    f"needs the environment variable {name}, which is not set; set it, "
                    f"or write $${{{name}}} for the text itself.",
                )
            return variables[name]

        return _MARKED.sub(value_of, text)


def yaml11_numbers(written: Any, read: Any, at: str = "") -> Iterator[str]:
    """Paths of texts that were read as numbers.

    Args:
      written: plain values of a config. read: the section that they became.
    """
    if isinstance(written, Mapping):
        for name, one in written.items():
            below = f"{at}.{name}" if at else str(name)
            yield from yaml11_numbers(one, _named(read, str(name)), below)
    elif isinstance(written, list | tuple) and isinstance(read, list | tuple):
        for place, (one, two) in enumerate(zip(written, read, strict=False)):
            yield from yaml11_numbers(one, two, f"{at}[{place}]")
    elif is_yaml11_number(written) and isinstance(read[0] if _many(read) else read, float):
        yield at


def _many(read: Any) -> bool:
    return isinstance(read, tuple) and len(read) > 0


def _named(section: Any, name: str) -> Any:
    if _many(section):  # edges, of {log: [low, high, bins]}
        return section
    if isinstance(section, Mapping):
        return section.get(name)
    return getattr(section, name, None) or getattr(section, f"{name}_", None)
