"""Programs that engines need, and the cache that downloads and builds lie in."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir.dpcore.errors import WeirError

ATTEMPTS = 3
"""Tries of a command that needs the network."""

PAUSE = 5.0
"""Seconds before the second try; twice as long before the third."""

GO = threading.Lock()
"""Held while Go compiles: programs built one after another share most of what is compiled."""

KEPT = 12
"""Last lines of a failed command that are shown."""

HOW = {
    "go": "install Go 1.25 or later (https://go.dev/dl)",
    "mvn": "install Apache Maven 3.8 or later (Debian, Ubuntu: apt install maven)",
    "npm": "install Node.js 18 or later (Debian, Ubuntu: apt install npm)",
    "java": "install Java 17 (Debian, Ubuntu: apt install openjdk-17-jdk-headless)",
}
_FETCHED = re.compile(r"go: downloading |Downloaded from |^\s*Downloading ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class InstallFailed(WeirError):
    """A component could not be fetched or built."""


def say(text: str) -> None:
    """A line for the person who waits."""
    print(f"weir: {text}", file=sys.stderr, flush=True)


def need(tool: str, purpose: str) -> str:
    """Path of a tool.

    Raises:
      InstallFailed: it is not on PATH; says how to get it.
    """
    result = shutil.which(tool)
    if result is None:
        raise InstallFailed(f"{purpose} needs {tool}, which is not on PATH: {HOW[tool]}.")
    return result


def run(
    command: Sequence[str],
    what: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a command that may need the network, up to three times.

    Args:
      command: program and arguments.
      what: named in progress and errors.
      folder: working folder.
      environment: added to this process's own.

    Raises:
      InstallFailed: it failed every time; holds its last lines.
    """
    for attempt in range(1, ATTEMPTS + 1):
        code, last = _once(command, what, folder, {**os.environ, **(environment or {})})
        if code == 0:
            return
        if attempt < ATTEMPTS:
            wait = PAUSE * 2 ** (attempt - 1)
            say(f"{what}: failed ({last[-1] if last else code}); again in {wait:.0f} s")
            time.sleep(wait)
    said = "\n".join(f"  {line}" for line in last)
    raise InstallFailed(f"{what}: {command[0]} failed {ATTEMPTS} times (exit {code}):\n{said}")


def _once(
    command: Sequence[str], what: str, folder: Path, environment: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Exit code and last lines of one try; counts what is downloaded meanwhile."""
    last: deque[str] = deque(maxlen=KEPT)
    fetched, began = 0, time.monotonic()
    shown = began
    # Installations side by side run in threads of their own, and would write over one line.
    terminal = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                line = _COLOUR.sub("", line).rstrip()
                if _FETCHED.search(line):
                    fetched += 1
                elif line:
                    last.append(line)
                now = time.monotonic()
                if now - shown >= (0.2 if terminal else 20):
                    shown = now
                    text = f"weir: {what}: {fetched} files fetched, {now - began:.0f} s"
                    print(f"\r{text}" if terminal else text, end="" if terminal else "\n",
                          file=sys.stderr, flush=True)  # fmt: skip
        except BaseException:
            process.kill()
            raise
        code = process.wait()
    if terminal and shown != began:
        print(file=sys.stderr)
    return code, list(last)


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
            built = Path(tempfile.mkdtemp(prefix=".making-", dir=self.folder.parent))
            try:
                self.make(built)
                if not (built / self.file).exists():
                    raise WeirError(f"installing {self.name} made no {self.file}.")
                built.chmod(0o755)
                built.rename(self.folder)
            finally:
                _remove(built)
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
