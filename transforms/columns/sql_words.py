"""A predicate as SQL writes it, in the words of ours: for the message that says what to write."""

from __future__ import annotations

import re

_DOUBLE, _SINGLE = r"\"(?:[^\"\\]|\\.)*\"", r"'(?:[^'\\]|\\.)*'"
_OTHERS = r"`[^`]*`|[A-Za-z_][\w.]*|\d[\w.]*|<>|&&|\|\||=~|[<>=!]=|\S"
_TOKEN = re.compile(rf"{_DOUBLE}|'(?:[^'\\]|\\.|'')*'|{_OTHERS}")
"""A word, a number, a sign, or a text in quotes; as in SQL, two single quotes stand for one."""
_OURS = re.compile(rf"{_DOUBLE}|{_SINGLE}|{_OTHERS}")
_SIGNS = {"<>": "!=", "=": "==", "&&": "and", "||": "or", "!": "not"}
_WORDS = ("and", "or", "not", "in", "is", "between")
_NAMES = {"null": "None", "true": "True", "false": "False"}
_PATTERNS = ("like", "ilike", "rlike", "regexp", "glob", "similar", "=~")


def has_pattern(text: str) -> bool:
    """Whether a predicate compares with a pattern: there is nothing like that here."""
    return any(token.lower() in _PATTERNS for token in _TOKEN.findall(text))


def has_neighbours(text: str) -> bool:
    """Whether two texts in quotes stand side by side: Python would take them for one."""
    quoted = [token[0] in "\"'" for token in _OURS.findall(text)]
    return any(item and other for item, other in zip(quoted, quoted[1:], strict=False))


def translated(text: str) -> str:
    """A predicate with words and signs of SQL, or of C, as ours; what else is in it stays."""
    result = [_ours(token) for token in _TOKEN.findall(text)]
    result = _between(result[:-1] if result[-1:] == [";"] else result)
    return _joined(_of_none(_lists(result)))


def _ours(token: str) -> str:
    lower = token.lower()
    if token[0] == "'" and "''" in token[1:-1] and '"' not in token:
        return '"' + token[1:-1].replace("''", "'") + '"'
    return lower if lower in _WORDS else _SIGNS.get(token) or _NAMES.get(lower) or token


def _between(found: list[str]) -> list[str]:
    """``x between a and b`` -> ``(a <= x <= b)``, of words and numbers."""
    built: list[str] = []
    at = 0
    while at < len(found):
        low, behind = _operand(found, at + 1)
        if found[at] == "between" and built and found[behind : behind + 1] == ["and"]:
            high, at = _operand(found, behind + 1)
            denied = ["not"] if built[-1] == "not" else []
            column = built[-1 - len(denied)]
            built[-1 - len(denied) :] = [*denied, "(", *low, "<=", column, "<=", *high, ")"]
            continue
        built.append(found[at])
        at += 1
    return built


def _operand(found: list[str], at: int) -> tuple[list[str], int]:
    """A word or number with its sign, and the place behind it."""
    stop = at + 1 + (found[at : at + 1] == ["-"])
    return found[at:stop], stop


def _lists(found: list[str]) -> list[str]:
    """``in (a, b)`` -> ``in [a, b]``: one value in parentheses would be no list."""
    built = list(found)
    for at, token in enumerate(found):
        if token == "in" and found[at + 1 : at + 2] == ["("] and ")" in found[at:]:
            built[at + 1], built[found.index(")", at)] = "[", "]"
    return built


def _of_none(found: list[str]) -> list[str]:
    """``== None`` -> ``is None``."""
    built = list(found)
    for at, token in enumerate(found[:-1]):
        if token in ("==", "!=") and found[at + 1] == "None":
            built[at] = "is" if token == "==" else "is not"
    return built


def _joined(found: list[str]) -> str:
    """Tokens with spaces between them, but for those within brackets and before commas."""
    text, before, unary = "", "", True
    for token in found:
        tight = not text or before in ("(", "[") or token in (")", "]", ",")
        text += token if tight or (before == "-" and unary) else f" {token}"
        if token == "-":
            unary = before in ("", "(", "[", ",", *_WORDS) or before[-1:] in "<>="
        before = token
    return text
