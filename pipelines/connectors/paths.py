"""Where files and folders are, however they are spelt. Reads nothing but links of the file
system."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator

from weir.transforms.formats.registry import format_of

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Endings of packed files, behind that of their format."""


def local(place: str) -> str:
    """``file:`` URIs as absolute paths; other URIs as they are; paths absolute."""
    if place[:5].lower() == "file:":
        return unquote(urlsplit(place).path)
    if "://" in place:
        return place.rstrip("/")
    return str(Path(place).expanduser().absolute())


def ending(place: str) -> str:
    """The ending of a file's name, without the dot and that of a packed file."""
    for packed in PACKED:
        place = place.removesuffix(packed)
    return posixpath.splitext(place)[1][1:].lower()


def _files(value: Any) -> Any:
    if isinstance(value, list | tuple):
        raise ValueError(
            "must be one path or glob. Write a glob that all of the files match, like "
            f"{_glob_of(value)}."
        )
    return value


def _folder(value: Any) -> Any:
    if isinstance(value, str) and (suffix := ending(value)) and format_of(f"_.{suffix}"):
        raise ValueError(
            "is the name of a file, and many files are written into a folder. Write the name of a "
            f"folder, like {folder_of(value)}."
        )
    return value


def folder_of(place: str) -> str:
    """A folder in place of a file: ``out/res.csv`` -> ``out/res/``."""
    for packed in PACKED:
        place = place.removesuffix(packed)
    return f"{posixpath.splitext(place)[0]}/"


def meant_folder(kind: str, text: str) -> dict[str, str] | None:
    """The section that a bare text in the place of a folder of files of a kind is meant as."""
    named = ending(text)
    if "/topics/" in text or named not in ("", kind):
        return None
    return {kind: folder_of(text) if named else text}


def _glob_of(paths: Any) -> str:
    """A glob as an example, with the ending of the first of several paths."""
    first = next((path for path in paths if isinstance(path, str)), "")
    return f"{posixpath.dirname(first) or 'events'}/*.{ending(first) or 'csv'}"


FilesText = Annotated[str, BeforeValidator(_files)]
"""A path or glob of files that are read."""
FolderText = Annotated[str, BeforeValidator(_folder)]
"""A folder that files are written into."""


def resolved(place: str) -> str:
    """The one spelling of a folder: absolute, no ``..``, links followed, no slash at its end."""
    result = local(place)
    scheme, mark, path = result.partition("://")
    if mark:
        return f"{scheme.lower()}://{posixpath.normpath(path)}"
    return os.path.realpath(result)


def is_inside(place: str, folder: str) -> bool:
    """Whether a folder is another one, or lies in it."""
    inner, outer = resolved(place), resolved(folder)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")
