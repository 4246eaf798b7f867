"""``--runner local``: a job over files or frames in this process, without Beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.dpcore.errors import ConfigError
from weir.pipelines.graph.parts import Parts

if TYPE_CHECKING:
    from weir.transforms.sinks.dead_letters import WriteDead
    from weir.transforms.sinks.targets import ReleaseFiles
    from weir.transforms.sources.opened import BoundedEvents

LOCAL = "local"
HERE = (LOCAL, "direct")
"""Runners whose workers are threads of this process."""


@dataclass(frozen=True)
class LocalJob:
    """A job that is ready to run.

    Attributes:
      parts: of the job. opened: its events. target: where releases go. dead: where dead letters go.
    """

    parts: Parts
    opened: BoundedEvents
    target: ReleaseFiles
    dead: WriteDead | None

    @classmethod
    def of(cls, parts: Parts, flags: Sequence[str]) -> LocalJob:
        """A job, checked.

        Args:
          flags: options for Beam, none of which are taken.

        Raises:
          ConfigError: an option of Beam, a source or sink that only Beam serves, or what is there
            cannot be what the config says.
        """
        refuse_flags(flags)
        target, letters = parts.sink.target(parts.plan, True, True), parts.letters
        if target is None:
            raise other_runner(parts.sink.field, "writes")
        dead = None if letters is None else letters.writer()
        if letters is not None and dead is None:
            raise other_runner(letters.field, "writes")
        return cls(parts, opened_of(parts), target, dead)

    def run(self) -> None:
        """Reads, releases and writes."""
        import pyarrow as pa

        from weir.transforms.local.engine import LocalEngine
        from weir.transforms.local.memory import keep_freed

        # A pool that gives memory back at once makes the system clear the same pages again and
        # again: a tenth of the time of a large run.
        pa.set_memory_pool(pa.system_memory_pool())
        keep_freed()
        engine = LocalEngine(self.parts.plan, self.parts.secret, self.parts.secrets[1:])
        engine.run(self.opened, self.target, self.dead)


def opened_of(parts: Parts) -> BoundedEvents:
    """The events of a job, checked.

    Raises:
      ConfigError: only Beam reads this source, or what is there cannot be what the config says.
    """
    opened = parts.source.read(parts.plan, parts.limits)
    if opened is None:
        raise other_runner(parts.source.field, "reads")
    return opened


def other_runner(field: str, does: str) -> ConfigError:
    """What is said of a place that only Beam reaches."""
    return ConfigError(
        "--runner", LOCAL, f"cannot run this job: only Beam {does} {field}. Use --runner direct."
    )


def refuse_flags(flags: Sequence[str]) -> None:
    """Refuses options for Beam.

    Raises:
      ConfigError: names the first, and the runner that takes it; or it is no option at all.
    """
    if not flags:
        return
    from weir.pipelines.runners.options import options_for

    options_for("direct", flags, False)
    name = flags[0].partition("=")[0]
    raise ConfigError(
        "argument",
        name,
        "is an option of Beam, which the local engine does without. Use "
        "--runner direct with it, or leave it out.",
    )


__all__ = ["HERE", "LOCAL", "LocalJob", "opened_of"]
