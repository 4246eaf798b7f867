"""Enough of PromQL to see that an expression is whole, and which metrics it reads.

Tokens, balanced brackets, known functions, and operators between operands; no types.
"""

from __future__ import annotations

import re

FUNCTIONS = frozenset({"absent", "increase", "rate", "time", "sum", "max", "min", "label_replace"})
WORDS = frozenset({"by", "on", "group_left", "and", "or", "unless", "bool", "job_name", "field"})
TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<matchers>\{[^{}]*\})
      | (?P<range>\[\d+[smhd](:\d+[smhd])?\])
      | (?P<text>"[^"]*")
      | (?P<number>\d+(\.\d+)?(e\d+)?)
      | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
      | (?P<operator>==|!=|<=|>=|[-+*/<>])
      | (?P<punctuation>[(),])""",
    re.VERBOSE,
)
MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|=|!=)\s*"([^"]*)"\s*')
CLOSERS = {")": "("}


def tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) in order.

    Raises:
      ValueError: something that is no part of the language.
    """
    found, place = [], 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"cannot be read from {text[place : place + 20]!r} on")
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match.group()))
        place = match.end()
    return found


def check(text: str) -> None:
    """Raises ValueError for an expression that Prometheus would not take."""
    parts = tokens(text)
    depth = 0
    for (kind, word), (before, last) in zip(parts, [("start", ""), *parts], strict=False):
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
            if depth < 0 or (before == "operator"):
                raise ValueError(f"{last} before ) is not whole")
        if kind == "operator" and (before in ("operator", "start") or last == "("):
            raise ValueError(f"{word} has nothing before it")
        sub = ":" in word
        if kind == "range" and (last != ")" if sub else before not in ("name", "matchers")):
            raise ValueError(f"{word} has no {'expression' if sub else 'selector'} before it")
        operand = kind in ("name", "number") and word not in WORDS
        if operand and before in ("number", "matchers", "range"):
            raise ValueError(f"{word} stands after {last}")
        if kind == "matchers":
            for part in filter(None, word[1:-1].split('",')):
                if not MATCHER.fullmatch(part if part.endswith('"') else part + '"'):
                    raise ValueError(f"{part} is no matcher")
    if depth or parts[-1][0] == "operator":
        raise ValueError("it is not whole")
    for (kind, word), (after_kind, after) in zip(parts, [*parts[1:], ("end", "")], strict=False):
        if kind == "matchers" and "__name__" in word and ":" not in after and after_kind == "range":
            raise ValueError("series of several names are alike once a function drops the names")
        if kind == "name" and after == "(" and word not in FUNCTIONS | WORDS:
            raise ValueError(f"{word} is no function")


def metrics(text: str) -> set[str]:
    """Names of metrics that an expression reads; alternatives of ``__name__`` spelled out.

    What ends on ``.+`` stands for all that begin so.
    """
    found = set()
    for kind, word in tokens(text):
        if kind == "name" and word not in FUNCTIONS | WORDS:
            found.add(word)
        if kind == "matchers":
            pattern = r'__name__=~"(\w+)\(([\w|]+)\)(\w*(?:\.\+)?)"'
            for stem, choices, rest in re.findall(pattern, word):
                found |= {f"{stem}{choice}{rest}" for choice in choices.split("|")}
    return found
