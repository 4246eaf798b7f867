"""Where files and folders are, however they are spelt. Reads nothing but links of the file
system."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field

from weir.dpcore.config.section import Section
from weir.dpcore.config.validation import nested
from weir.transforms.formats.registry import format_of

STDIN = "-"
"""Standard input, in place of a path."""
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


class Dataset(Section):
    """A folder whose folders say which column has which value: region=EU/day=2025-01-01/."""

    dataset: str = Field(
        min_length=1,
        description="The folder that holds the folders COLUMN=VALUE, at any depth.",
        examples=["events/"],
    )
    partitioning: Literal["hive"] = Field(
        default="hive",
        description="How folders are named: hive is COLUMN=VALUE. These columns are read from the "
        "names, and folders of which `where` lets no record through are not opened.",
        examples=["hive"],
    )


def _files(value: Any) -> Any:
    """A path, several, or a dataset."""
    if isinstance(value, Dataset):
        return value
    if isinstance(value, Mapping):
        return nested(Dataset, value)
    if isinstance(value, list | tuple):
        if not value or not all(isinstance(path, str) and path for path in value):
            raise ValueError(
                "must list at least one path or glob, like [events/2024.csv, events/2025-*.csv]."
            )
        if STDIN in value:
            raise ValueError("lists - (standard input), which is read alone. Write '-' for it.")
        return value[0] if len(value) == 1 else tuple(value)
    if not isinstance(value, str):
        raise ValueError(
            "must be a path or glob, a list of them, or {dataset: DIR, partitioning: hive}."
        )
    return value


def on_folder(folder: Path, value: Any) -> Any:
    """A place as a config spells it, a list of such or a dataset, with relative paths in a folder;
    anything else as it is."""
    if isinstance(value, str) and value and value != STDIN and not _is_uri(value):
        return str(folder / Path(value).expanduser())
    if isinstance(value, list | tuple):
        return [on_folder(folder, item) for item in value]
    if isinstance(value, Mapping) and "dataset" in value:
        return {**value, "dataset": on_folder(folder, value["dataset"])}
    if isinstance(value, Mapping) and isinstance(value.get("url"), str):
        return {**value, "url": _url_in(folder, value["url"])}
    return value


def _url_in(folder: Path, url: str) -> str:
    """The URL of a file, ``duckdb:///shop.db``, of a folder; others as they are."""
    scheme, mark, path = url.partition(":///")
    if not mark or not path or "?" in path:
        return url
    return f"{scheme}:///{(folder / Path(path).expanduser()).absolute()}"


def _is_uri(place: str) -> bool:
    return "://" in place or place[:5].lower() == "file:"


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


FilesText = Annotated[str | tuple[str, ...] | Dataset, BeforeValidator(_files)]
"""Files that are read: a path or glob, several, or a partitioned folder."""
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
