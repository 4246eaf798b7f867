"""How a key of several columns reads: ``paris, shoes`` for ``["paris","shoes"]``."""

from __future__ import annotations

import json
import re

_PLAIN = re.compile(r"[^\s\",\x00-\x1f]+( +[^\s\",\x00-\x1f]+)*\Z")


def shown_key(key: str) -> str:
    """The values of a key, with commas between them; one that could be misread stays in quotes.

    No two keys read alike. A text that is no list of texts stays as it is.

        >>> shown_key('["paris","shoes"]'), shown_key('["a, b",""]')
        ('paris, shoes', '"a, b", ""')
    """
    try:
        values = json.loads(key)
    except ValueError:
        return key
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return key
    return ", ".join(map(_value, values))


def _value(value: str) -> str:
    return value if _PLAIN.match(value) else json.dumps(value, ensure_ascii=False)
