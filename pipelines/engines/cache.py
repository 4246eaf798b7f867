"""Where fetched and built programs are kept: a folder for each version, whole or not there at all.

A component is made in a folder beside its place and moved there when it is complete, so nobody ever
sees half of one; a lock file lets several processes ask for the same component at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir.dpcore.errors import WeirError
from weir.pipelines.engines.tools import say


class EngineMissing(WeirError):
    """A program that a run needs is not in the cache."""


@dataclass(frozen=True)
class Component:
    """A program of a pinned version.

    Attributes:
      name: what people call it; a folder of the cache.
      target: what ``make`` calls it.
      version: changes whenever the content would; part of the folder's name.
      file: path inside the folder that proves it is there and is what callers want.
      make: fills a given empty folder.
    """

    name: str
    target: str
    version: str
    file: str
    make: Callable[[Path], None]

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name / self.version

    def located(self) -> Path:
        """The wanted file.

        Raises:
          EngineMissing: it was never installed.
        """
        path = self.folder / self.file
        if not path.exists():
            raise EngineMissing(f"{self.name} is not installed: run make {self.target}")
        return path

    def install(self) -> Path:
        """The wanted file, after fetching or building it if it is not there.

        Raises:
          WeirError: a tool is missing, or a step failed.
        """
        path = self.folder / self.file
        if path.exists():
            return path
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder.parent / f"{self.version}.lock", self.name):
            if path.exists():
                return path
            say(f"{self.name}: installing {self.version}")
            began = time.monotonic()
            made = Path(tempfile.mkdtemp(prefix=".making-", dir=self.folder.parent))
            try:
                self.make(made)
                if not (made / self.file).exists():
                    raise WeirError(f"installing {self.name} made no {self.file}.")
                made.chmod(0o755)
                made.rename(self.folder)
            finally:
                _remove(made)
            say(f"{self.name}: installed in {time.monotonic() - began:.0f} s")
        return path


def cache_folder() -> Path:
    """``WEIR_CACHE``, else ``weir`` in the user's cache folder."""
    own = os.environ.get("WEIR_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "weir"


@contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    """Holds a lock that the system lets go of when this process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is installing it; waiting")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(folder: Path) -> None:
    """Removes a folder, read-only folders inside it too (Go makes its module cache so)."""
    if not folder.exists():
        return
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o755)
    shutil.rmtree(folder, ignore_errors=True)
