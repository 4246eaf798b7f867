"""What the site adds to the pages of this folder: the README as its first page, the changes, and
fields of a config and options of commands, generated from the code at the end of their pages.
Links that leave the folder lead to copies.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")
MADE = {"README.md": "index.md", "CHANGELOG.md": "reference/changes.md"}
GENERATED = ("reference/commands.md", "reference/config.md")
COPIES = "repository"


def target_of(page: str, target: str) -> str | None:
    """Where a link of a page leads: a path of the repository; None: inside of the docs already.

    Args:
      page: path of the page in the repository. target: as written, without its anchor.
    """
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return None if page.startswith("docs/") and path.startswith("docs/") else path


def placed(path: str) -> str:
    """Path of the repository -> path of the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in MADE:
        return MADE[path]
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return f"{COPIES}/{path}"


def moved(text: str, page: str, place: str) -> str:
    """Links of a page of the repository, as they are from its place in the site."""

    def one(match: re.Match[str]) -> str:
        path = target_of(page, match[1])
        if path is None:
            return match[0]
        there = posixpath.relpath(placed(path), posixpath.dirname(place) or ".")
        return f"]({there}{match[2] or ''})"

    return LINK.sub(one, text)


def pages() -> dict[str, str]:
    """Path in the repository -> text, of all that is a page of the site and written by hand."""
    paths = sorted((ROOT / "docs").rglob("*.md"))
    found = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    return found | {name: (ROOT / name).read_text() for name in MADE}


def generated() -> dict[str, str]:
    """Page -> what the code adds to it."""
    from weir.pipelines.cli.main import main
    from weir.pipelines.show.algorithms import commands_markdown as markdown
    from weir.pipelines.show.algorithms import fields_page

    return {"reference/commands.md": markdown(main, "weir"), "reference/config.md": fields_page()}


def on_files(files: Files, config: Any) -> Files:
    """Adds what is made and what is linked."""
    written = pages()
    for name, place in MADE.items():
        files.append(File.generated(config, place, content=moved(written[name], name, place)))
    done: set[str] = set()
    while written:
        page, text = written.popitem()
        for match in LINK.finditer(text):
            path = target_of(page, match[1])
            if path is None or path.startswith("docs/") or path in MADE or path in done:
                continue
            done.add(path)
            source = ROOT / path
            source = source / "README.md" if source.is_dir() else source
            content = source.read_bytes()
            if source.suffix == ".md":
                page_of = source.relative_to(ROOT).as_posix()
                written[page_of] = content.decode()
                content = moved(written[page_of], page_of, placed(path)).encode()
            files.append(File.generated(config, placed(path), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of the docs that leave their folder."""
    if page.file.generated_by is not None:
        return markdown
    place = page.file.src_uri
    added = generated()[place].partition("\n")[2] if place in GENERATED else ""
    return moved(markdown, f"docs/{place}", place) + (f"\n{added}" if added else "")
