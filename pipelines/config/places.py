"""Where folders are, however they are spelt. Reads nothing but links of the file system."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dpcore.errors import ConfigError
from pipelines.sinks.dead_letters import DeadLetters
from pipelines.sinks.sink import Sink


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


def refuse_mixed(letters: DeadLetters | None, sink: Sink | None) -> None:
    """Refuses dead letters in the folder of the releases, and releases in that of dead letters.

    Raises:
      ConfigError: names ``dead_letters.<format>``.
    """
    if letters is None or sink is None or letters.place is None or sink.place is None:
        return
    if is_inside(letters.place, sink.place):
        how = "is or lies in the folder of the releases"
    elif is_inside(sink.place, letters.place):
        how = "holds the folder of the releases"
    else:
        return
    raise ConfigError(
        letters.field,
        letters.place,
        f"{how} ({sink.field} = {sink.place!r}), and only operators may see dead letters: give "
        "them a folder of their own beside it.",
    )


__all__ = ["is_inside", "local", "refuse_mixed", "resolved"]
