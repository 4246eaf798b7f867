"""The header of many files: a folder or a glob, whose files a source reads as one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.init.header import sniff
from weir.transforms.decode.encoding import UTF_8
from weir.transforms.sources.matching import match

MOST_FILES = 50
"""Files whose headers are compared."""


def sniff_all(
    path: str,
    columns: Sequence[str] | None = None,
    header: bool = True,
    encoding: str = UTF_8,
) -> dict[str, Any]:
    """As ``sniff``, of a file, or of all files of a folder or glob: what all of them allow.

    A column is of the type that holds its values in every file; what is a time, an id or a user is
    told by the first.

    Raises:
      ConfigError: there is none, or one is in another format or has other columns than the first.
    """
    if not any(sign in path for sign in "*?[") and not os.path.isdir(path):
        return sniff(path, columns, header, encoding)
    files = [one.path for one in match(path, "FILE")][:MOST_FILES]
    found = sniff(files[0], columns, header, encoding)
    for other in files[1:]:
        _join(found, sniff(other, columns, header, encoding), files[0], other)
    return found


def _join(found: dict[str, Any], more: Mapping[str, Any], first: str, other: str) -> None:
    """Widens types, in place."""
    if more["format"] != found["format"]:
        raise ConfigError(
            "FILE",
            other,
            f"holds {more['format']}, and {first} {found['format']}: a source has one format; name "
            "files of one, like 'events-*.csv'.",
        )
    names = [{one["name"] for one in some["columns"]} for some in (found, more)]
    if names[0] != names[1]:
        apart = ", ".join(sorted(names[0] ^ names[1]))
        raise ConfigError(
            "FILE", other, f"has other columns than {first} ({apart}); name files of one kind."
        )
    types = {one["name"]: one["type"] for one in more["columns"]}
    for column in found["columns"]:
        kinds = {column["type"], types[column["name"]]}
        if len(kinds) > 1 and "other" in kinds:
            raise ConfigError(
                "FILE",
                other,
                f"holds values of another type in {column['name']} than {first}, of which one is "
                "nested or a duration; name files of one kind.",
            )
        if len(kinds) > 1:
            column["type"] = "number" if kinds == {"integer", "number"} else "text"
    kept = {one["name"] for one in found["columns"] if one["type"] in ("integer", "number")}
    found["numbers"] = [name for name in found["numbers"] if name in kept]
