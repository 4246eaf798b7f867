"""Where folders are, however they are spelt. Reads nothing but links of the file system."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from urllib.parse import unquote, urlsplit


def local(place: str) -> str:
    """``file:`` URIs as absolute paths; other URIs as they are; paths absolute."""
    if place[:5].lower() == "file:":
        return unquote(urlsplit(place).path)
    if "://" in place:
        return place.rstrip("/")
    return str(Path(place).expanduser().absolute())


def resolved(place: str) -> str:
    """The one spelling of a folder: absolute, no ``..``, links followed, no slash at its end."""
    found = local(place)
    scheme, mark, path = found.partition("://")
    if mark:
        return f"{scheme.lower()}://{posixpath.normpath(path)}"
    return os.path.realpath(found)


def is_inside(place: str, folder: str) -> bool:
    """Whether a folder is another one, or lies in it."""
    inner, outer = resolved(place), resolved(folder)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


__all__ = ["is_inside", "local", "resolved"]
