"""Reads Dockerfiles, and carries out what they say in a folder of this machine.

Enough of the language for our own: continued lines, comments, ARG and ENV with ``${NAME}``, and
COPY and RUN in shell form. What a step needs of the base image (a Python, pip, useradd) is put in
its place by the caller.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = ("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT")


@dataclass(frozen=True)
class Step:
    """One instruction: its word, and what follows it."""

    word: str
    rest: str

    @property
    def flags(self) -> dict[str, str]:
        """``--name=value`` in front."""
        found = {}
        for part in shlex.split(self.rest):
            if not part.startswith("--"):
                break
            name, _, value = part[2:].partition("=")
            found[name] = value
        return found

    @property
    def words(self) -> list[str]:
        """What follows the flags."""
        return [part for part in shlex.split(self.rest) if not part.startswith("--")]

    @property
    def listed(self) -> list[str]:
        """The JSON form of ENTRYPOINT."""
        return [str(part) for part in json.loads(self.rest)]


def read(path: Path) -> list[Step]:
    """The instructions of a file, in order."""
    kept = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    steps = []
    for line in re.sub(r"\\\n\s*", " ", "\n".join(kept)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            if word not in KNOWN:
                raise ValueError(f"{path.name}: {word} is not an instruction that is known here")
            steps.append(Step(word, rest.strip()))
    return steps


@dataclass
class Replay:
    """A folder that stands for the root of an image.

    Attributes:
      root: of the image. context: of the build.
      bin: what comes first in PATH: the base image's Python.
      outside: files of other images that COPY --from takes, by their path there.
    """

    root: Path
    context: Path
    bin: Path
    outside: Mapping[str, Path] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    entrypoint: list[str] = field(default_factory=list)

    def there(self, path: str) -> Path:
        """A path of the image, on this machine."""
        return self.root / os.path.normpath(os.path.join(self.folder, path)).lstrip("/")

    def settled(self, text: str) -> str:
        """``${NAME}`` replaced."""
        known = {**self.arguments, **self.environment}
        return re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], text)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the image's folder, with its environment."""
        environment = {
            "HOME": str(self.root / "root"),
            "PATH": f"{self.bin}:/usr/bin:/bin",
            **{name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_"))},
            **self.environment,
        }
        folder = self.there(".")
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    def step(self, step: Step) -> None:
        """Carries out one instruction."""
        if step.word == "WORKDIR":
            self.folder = os.path.join(self.folder, step.rest)
            self.there(".").mkdir(parents=True, exist_ok=True)
        elif step.word == "COPY":
            self._copy(step)
        elif step.word == "RUN":
            done = self.run("bash", "-euo", "pipefail", "-c", step.rest)
            if done.returncode:
                raise RuntimeError(f"RUN {step.rest}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        elif step.word == "ENV":
            for part in step.words:
                name, _, value = part.partition("=")
                self.environment[name] = self.settled(value)
        elif step.word == "ARG":
            name, _, value = step.rest.partition("=")
            self.arguments.setdefault(name, value)
        elif step.word == "USER":
            self.user = step.rest
        elif step.word == "ENTRYPOINT":
            self.entrypoint = step.listed

    def _copy(self, step: Step) -> None:
        *sources, target = step.words
        for source in sources:
            origin = self.outside[source] if "from" in step.flags else self.context / source
            place = self.there(target)
            if origin.is_dir():
                shutil.copytree(
                    origin, place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
                )
                continue
            if target.endswith("/"):
                place = place / origin.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, place)
            if "chmod" in step.flags:
                place.chmod(int(step.flags["chmod"], 8))
