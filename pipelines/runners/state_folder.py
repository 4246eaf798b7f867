"""What a stream needs to go on: checkpoints, savepoints, the plan and the marks of its secrets.

**Threat model.** Checkpoints hold clean sums: anyone who reads this folder reads the data. It is
made
for its owner only, and is never the folder of the releases. The secrets are not in it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.paths import local
from weir.pipelines.results.plan_file import plan_json, refuse_changed
from weir.pipelines.results.secret_marks import identities
from weir.transforms.runtime import acked, fence, files, pull_notes
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks import place as sinks_place

SECRETS_FILE = "_secrets.json"
JOB_FILE = "_job.json"
LATEST = "latest"
METADATA = "_metadata"
"""File that Flink writes last into a checkpoint or savepoint: with it, it is whole."""
_METADATA = re.compile(rf"/(checkpoints/[^/]+/chk-[^/]+|savepoints/[^/]+)/{METADATA}\Z")


@dataclass(frozen=True)
class StateFolder:
    """A folder on a disk, or in a bucket that this machine and the cluster both reach.

    Attributes:
      path: absolute, or a URI.
    """

    path: str

    @classmethod
    def of(cls, place: str) -> StateFolder:
        """The folder at a place as a config spells it; ``file:`` URIs become paths."""
        return cls(local(place))

    @property
    def uri(self) -> str:
        """As Flink wants it."""
        return self.path if sinks_place.is_remote(self.path) else Path(self.path).as_uri()

    @property
    def checkpoints(self) -> str:
        """Where Flink puts checkpoints, as a URI."""
        return f"{self.uri}/checkpoints"

    @property
    def savepoints(self) -> str:
        """Where Flink puts savepoints, as a URI."""
        return f"{self.uri}/savepoints"

    def make(self) -> None:
        """Makes the folder, for its owner only.

        Raises:
          ConfigError: it cannot be made.
        """
        if sinks_place.is_remote(self.path):
            return
        try:
            Path(self.path).mkdir(parents=True, exist_ok=True, mode=0o700)
            os.chmod(self.path, 0o700)
        except OSError as error:
            raise ConfigError(
                "engine.checkpoints", self.path, f"cannot be made: {error.strerror}."
            ) from None

    def begin(self, plan: Plan, secrets: Sequence[tuple[int, SecretRef]]) -> bool:
        """Compares what is stored with what is to run, and stores it if nothing is.

        Args:
          secrets: (first tick, reference), the first at tick 0.

        Returns:
          Whether the secrets could be compared here; if not, the workers do it.

        Raises:
          ConfigError: another plan (its fields are named), or another secret.
        """
        stored = self._read(sinks_place.PLAN_FILE)
        if stored is not None:
            refuse_changed(stored, plan, "engine.checkpoints", self.path)
        marks = identities(secrets, plan)
        before = self._read(SECRETS_FILE)
        if before is not None and marks is not None:
            for tick, identity in before.items():
                if marks.get(tick, identity) != identity:
                    raise ConfigError(
                        "secret",
                        "(not shown)",
                        "is not the one that this state was made with: noise of two secrets on the "
                        "same data gives the data away. Give that secret; a new one goes under "
                        "secret.rotate, from a tick that is still ahead.",
                    )
        self.make()
        if stored is None and not self._write(sinks_place.PLAN_FILE, plan_json(plan)):
            faster = self._read(sinks_place.PLAN_FILE)
            refuse_changed(faster or {}, plan, "engine.checkpoints", self.path)
        if marks is not None:
            self._write(SECRETS_FILE, {**(before or {}), **marks}, replace=True)
        return marks is not None

    def latest(self) -> str | None:
        """URI of the newest whole checkpoint or savepoint; None where there is none.

        The savepoint of a drain is none of them: its stream is over.
        """
        result = self.newest()
        return None if result is None else result[1]

    def newest(self) -> tuple[float, str] | None:
        """The same with the time at which it was written, seconds since 1970."""
        at, path = max(self._metadata(), default=(0.0, ""))
        return (at, _uri(path)) if path else None

    def before(self, place: str) -> str | None:
        """URI of the newest one that is older than another, which is there or is not any more."""
        result = sorted(self._metadata(), reverse=True)
        uris = [_uri(path) for _, path in result]
        older = uris[uris.index(place) + 1 :] if place in uris else uris
        return older[0] if older else None

    def acknowledged(self) -> datetime | None:
        """When messages were last acknowledged, as far as readers could note it here."""
        return max((note.at for note in self._acknowledged()), default=None)

    def _acknowledged(self) -> list[acked.Note]:
        """What each reader has noted."""
        inside = sinks_place.join(self.path, acked.FOLDER)
        texts = [sinks_place.read(sinks_place.join(inside, note)) for note in _notes(inside)]
        return [acked.noted(text) for text in texts if text]

    def forget_acknowledged(self) -> None:
        """The subscription gives again what was acknowledged, whenever that may be."""
        for folder in (acked.FOLDER, pull_notes.FOLDER):
            sinks_place.remove(sinks_place.join(self.path, folder))

    def forget(self) -> None:
        """A stream begins again: what starts before it acknowledged and counted is not its own."""
        self.forget_acknowledged()
        sinks_place.remove(sinks_place.join(self.path, kept_counts.FOLDER))

    def refuse_outdated(self, resume: str, place: str) -> None:
        """Refuses to go back to before messages were acknowledged: they never come again.

        Readers look once more, at the turn that a checkpoint holds. Here it is refused before
        anything has stopped.

        Args:
          resume: as the user says it. place: its URI.

        Raises:
          ConfigError: there is a newer one, and messages were acknowledged that were read when this
            one was complete, or when a newer one was.
        """
        notes = self._acknowledged()
        written = _written(place) if notes else None
        if written is None:
            return
        newer = [item for item in self._metadata() if item[0] > written]
        if not newer:
            return
        first, last = min(newer)[0], max(note.at for note in notes)
        if first <= last.timestamp() or any(written < note.began.timestamp() for note in notes):
            raise ConfigError(
                "--resume",
                resume,
                f"is older than what was acknowledged (at {last.isoformat(timespec='seconds')}): "
                f"those messages are in {_uri(max(newer)[1])} and not in it, and the subscription "
                "does not give them again. Go on from the newest one (--resume latest), or take "
                "the subscription back as well (--resume PLACE --rewind SNAPSHOT; "
                "docs/how-to/upgrade.md, Go back).",
            )

    def resolve(self, resume: str, rewound: bool = False) -> str:
        """URI of what to resume from.

        Args:
          resume: ``latest``, or path or URI of a checkpoint or savepoint.
          rewound: whether the subscription goes back too.

        Raises:
          ConfigError: there is none, or it is outdated.
        """
        place = self._resolve(resume)
        if not rewound:
            self.refuse_outdated(resume, place)
        return place

    def _resolve(self, resume: str) -> str:
        if resume == LATEST:
            result = self.latest()
            if result is None:
                raise ConfigError(
                    "--resume",
                    LATEST,
                    f"finds no checkpoint or savepoint under {self.path}: start without --resume, "
                    "or name one, like --resume s3://bucket/savepoints/savepoint-1a2b3c.",
                )
            return result
        path = local(resume)
        if sinks_place.is_remote(path):
            return path
        if not (Path(path) / METADATA).exists():
            raise ConfigError(
                "--resume", resume, f"is no checkpoint or savepoint: it has no file {METADATA}."
            )
        return Path(path).absolute().as_uri()

    def counted(self, before: int | None = None) -> dict[str, int]:
        """Counts of the jobs on this stream; before: the number of the first that is left out."""
        return kept_counts.kept(self.path, before)

    def divergent(self, epoch: int) -> int:
        """Releases that came twice and differ, of the job of a number and those after it."""
        every, before = (self.counted(until).get("divergent", 0) for until in (None, epoch))
        return every - before

    def remember(
        self,
        url: str,
        job: str,
        name: str,
        refused: float,
        parallelism: int,
        epoch: int,
        sink: str | None = None,
    ) -> None:
        """Notes where the job runs, its limits.refused, its number and the folder of its releases,
        for ``weir status``, and how many work at it, for a resume."""
        noted = {
            "url": url,
            "job": job,
            "name": name,
            "refused": refused,
            "parallelism": parallelism,
            "epoch": epoch,
            "sink": sink,
        }
        self._write(JOB_FILE, noted, replace=True)

    def running(self) -> Mapping[str, Any] | None:
        """What was last noted; None where nothing was."""
        return self._read(JOB_FILE)

    def failure(self, epoch: int) -> str | None:
        """Why the job of a number has ended, where a worker noted it."""
        return fence.failure(fence.Claim(self.path, epoch))

    def is_begun(self) -> bool:
        """Whether a job has made this folder."""
        return sinks_place.read(sinks_place.join(self.path, SECRETS_FILE)) is not None

    def _metadata(self) -> list[tuple[float, str]]:
        """(time of writing, path) of every _metadata file, without those of drains."""
        started, drained = (
            fence.moments(self.path, kind) for kind in (fence.FOLDER, fence.DRAINED)
        )
        over = [(at, started.get(epoch + 1, math.inf)) for epoch, at in drained.items()]
        return [
            (at, path)
            for at, path in self._all_metadata()
            if "/savepoints/" not in path or not any(a <= at < b for a, b in over)
        ]

    def _all_metadata(self) -> list[tuple[float, str]]:
        return [
            (result.changed, result.path)
            for name in ("checkpoints", "savepoints")
            for result in files.under(sinks_place.join(self.path, name))
            if _METADATA.search(result.path)
        ]

    def _read(self, name: str) -> dict[str, Any] | None:
        data = sinks_place.read(sinks_place.join(self.path, name))
        if data is None:
            return None
        value = sinks_place.json_in(data)
        if value is None:
            raise ConfigError("engine.checkpoints", self.path, f"holds a {name} that is not ours.")
        return value

    def _write(self, name: str, value: Mapping[str, Any], replace: bool = False) -> bool:
        """Returns whether it was written: a file that is there stays, unless it is replaced."""
        text = (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
        place = sinks_place.join(self.path, name)
        if not replace:
            return sinks_place.put(place, text)
        sinks_place.replace(place, text)
        return True


def _uri(metadata: str) -> str:
    """Of a checkpoint, by the path of its file."""
    folder = os.path.dirname(metadata)
    return folder if sinks_place.is_remote(folder) else Path(folder).as_uri()


def _written(place: str) -> float | None:
    """When a checkpoint or savepoint was complete; None where nobody here can know."""
    try:
        result = files.entry(sinks_place.join(local(place), METADATA))
    except OSError:  # in reach of the cluster only
        return None
    return None if result is None else result.changed


def _notes(folder: str) -> list[str]:
    return [name for name in sinks_place.names(folder) if name.endswith(".json")]
