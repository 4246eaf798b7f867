"""Servers for trying and testing that are built from Go modules: a program of ours around each."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from weir.pipelines.engines.tools import InstallFailed, need, run


def build(
    folder: Path,
    name: str,
    source: Path,
    binary: str,
    options: Sequence[str] = (),
    change: Callable[[str, Path], None] | None = None,
) -> None:
    """Builds a program into a folder.

    Args:
      name: for people. source: folder of the program, with go.mod and go.sum. options: of go build.
      change: changes the copy that is built, given the path of go.

    Raises:
      InstallFailed: a tool is missing, or a step failed.
    """
    go = need("go", f"building {name}")
    copy = folder / "build"
    shutil.copytree(source, copy)
    run([go, "mod", "download"], f"{name}: go mod download", copy)
    if change is not None:
        change(go, copy)
    flags = ["-trimpath", "-ldflags=-s -w", *options]
    run([go, "build", *flags, "-o", str(folder / binary), "."], f"{name}: go build", copy)
    shutil.rmtree(copy)


def ask(command: Sequence[str], folder: Path) -> str:
    """What a command prints. Raises InstallFailed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise InstallFailed(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def version(number: str, source: Path, *more: str) -> str:
    """Of a program: changes whenever it would be another one."""
    parts = [(source / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"\0".join([*parts, *(one.encode() for one in more)])).hexdigest()[:8]
    return f"{number}-{digest}-{platform.system().lower()}-{platform.machine()}"
