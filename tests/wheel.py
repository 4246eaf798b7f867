"""The wheel, installed in an environment of its own, and a user's folder that holds packages with
the names of our folders."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("dpcore", "transforms", "pipelines", "weir")
"""Folders of the repository that the package is made of."""
FOREIGN = ("pipelines", "transforms", "dpcore", "tests", "examples")
"""Packages that a user's folder has too."""


def pip(*arguments: str, cwd: Path) -> None:
    """Runs pip; what it says is shown where it fails."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Installed:
    """A fresh environment that has the wheel, and what the wheel needs.

    Attributes:
      tree: copy of the sources that the wheel was built from. wheel: its file.
      python: interpreter of the environment.
      folder: a user's folder with packages of the names of ``FOREIGN``. Importing one raises.
    """

    tree: Path
    wheel: Path
    python: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process: the checkout is not on its path."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs a command of the environment in the user's folder. ``command[0]``: its name."""
        program = self.python.parent / command[0]
        return subprocess.run(
            [program, *command[1:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def script(self, text: str) -> str:
        """Runs a file of Python in the user's folder, and returns what it prints."""
        path = self.folder / "script.py"
        path.write_text(text)
        done = self.run("python", path)
        assert done.returncode == 0, done.stderr
        return done.stdout


def copied_tree(base: Path) -> Path:
    """A copy of what packages are built from, so that nothing is left behind in the real one."""
    tree = base / "tree"
    tree.mkdir()
    for name in (*FOLDERS, "tests", "examples"):
        left_out = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, tree / name, ignore=left_out, symlinks=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return tree


@functools.cache
def installed() -> Installed:
    """Builds and installs the wheel, once a session."""
    base = Path(tempfile.mkdtemp(prefix="weir-wheel-"))
    tree = copied_tree(base)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(base), ".", cwd=tree)
    (wheel,) = base.glob("*.whl")
    home = base / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    pip(
        *("--python", str(python), "install", "--no-deps", "--force-reinstall", str(wheel)),
        cwd=base,
    )
    # What the wheel needs lies in the environment of the tests. It comes behind, so that nothing of
    # ours is taken from there, and what its own .pth files would add is not.
    outer = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    needs = dict.fromkeys([*outer, *(path for path in sys.path if path.endswith("site-packages"))])
    (site / "needs.pth").write_text("\n".join(needs) + "\n")
    folder = base / "folder"
    for name in FOREIGN:
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise ImportError('{name} of the user')\n")
    return Installed(tree, wheel, python, folder)
