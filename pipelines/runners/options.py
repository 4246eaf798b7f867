"""Options of every runner, and where a job runs on Flink: inexpensive to import."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError

EMBEDDED = "[local]"
DONE, STOPPED, RUNNING = "done", "stopped", "running"
HELD = "held"
"""Done, and its releases are not published."""


@dataclass(frozen=True)
class FlinkTarget:
    """Where and how a job runs on Flink.

    Attributes:
      master: ``[local]`` for a Flink inside the job server, else HOST:PORT of its REST interface.
      parallelism: workers; None: what the config says, or the slots that are free.
      resume: ``latest``, or path or URI of a checkpoint or savepoint; None: start again.
      detach: return once it runs.
      jar: of the job server; None: the one in the cache.
      rewind: Pub/Sub snapshot that the subscription is taken back to, for an older savepoint.
    """

    master: str = EMBEDDED
    parallelism: int | None = None
    resume: str | None = None
    detach: bool = False
    jar: str | None = None
    rewind: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether Flink lives and dies with this process."""
        return self.master == EMBEDDED

    @property
    def url(self) -> str:
        """Of a cluster's REST interface."""
        return self.master if "://" in self.master else f"http://{self.master}"


@dataclass(frozen=True)
class Ended:
    """How it went.

    Attributes:
      how: DONE, STOPPED or RUNNING (detached).
      savepoint: URI of the savepoint that it stopped with, if any.
      job: id on Flink. url: of its REST interface.
      result: Beam's, for its metrics; None where it was left alone.
    """

    how: str
    job: str
    url: str
    savepoint: str | None = None
    result: Any = None


BEAM_NAMES = {
    "direct": "FnApiRunner",
    "prism": "PrismRunner",
    "flink": "FlinkRunner",
    "dataflow": "DataflowRunner",
}

NO_LISTING = "disable_logging_submission_environment"
"""Beam's experiment that keeps the list of this machine's packages, which may hold paths, at home.
With it nothing is staged, so workers and job server need no folder in common."""


def options_for(runner: str, flags: Sequence[str], streaming: bool) -> Any:
    """Beam's options for a run.

    Raises:
      ConfigError: an option that no part of Beam knows, for the direct runner (others learn theirs
        from their job server), or an argument that is no option.
    """
    from apache_beam.options.pipeline_options import DebugOptions, StandardOptions

    from weir.pipelines.runners.views import RunOptions

    for flag in flags:
        if flag.partition("=")[0] == "--runner":
            raise ConfigError("--runner", flag, "is given twice; keep one.")
    loose = [flag for i, flag in enumerate(flags) if not flag.startswith("-") and _alone(flags, i)]
    if loose:
        raise ConfigError("argument", loose[0], "is not an option; see weir run --help.")
    if runner == "direct":
        _known(flags)
    extra = ["--streaming"] if streaming and "--streaming" not in flags else []
    if runner == "prism":
        extra += prism_flags(flags)
        # It says at exit, when nothing holds it back, by which command it ran.
        logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)
    options: Any = RunOptions([*flags, *extra])
    if runner != "direct":
        options.view_as(StandardOptions).runner = BEAM_NAMES[runner]
        options.view_as(DebugOptions).add_experiment(NO_LISTING)
    return options


def prism_flags(given: Sequence[str]) -> list[str]:
    """What Prism needs and the user did not give.

    Raises:
      EngineMissing: Prism is not in the cache and no place is given.
    """
    from weir.pipelines.engines import job_server
    from weir.pipelines.engines.processes import free_ports

    names = {flag.partition("=")[0] for flag in given}
    results = []
    if not names & {"--prism_location", "--job_endpoint"}:
        results.append(f"--prism_location={job_server.location()}")
    if not names & {"--job_port", "--job_endpoint"}:
        results.append(f"--job_port={free_ports(1)[0]}")
    if "--environment_type" not in names:
        results.append("--environment_type=LOOPBACK")
    if "--prism_log_level" not in names:
        results.append("--prism_log_level=warn")
    return results


def _alone(flags: Sequence[str], place: int) -> bool:
    """Whether a word is no value of the option before it."""
    return place == 0 or not flags[place - 1].startswith("--") or "=" in flags[place - 1]


def _known(flags: Sequence[str]) -> None:
    """Refuses options that Beam would silently drop."""
    parser = _parser()
    _, unknown = parser.parse_known_args(list(flags))
    for flag in unknown:
        if flag.startswith("-"):
            names = sorted({o for a in parser._actions for o in a.option_strings})
            own = ["--runner", "--secret-file", "--set", "--wide", "--json", "--resume", "--detach"]
            own += ["--publish", "--new"]
            name = flag.partition("=")[0]
            near = nearest(name, [*own, *names]).partition(" Allowed here")[0]
            hint = near if near.startswith("did you mean") else "see weir run --help."
            raise ConfigError("argument", name, f"is an option of neither weir nor Beam; {hint}")


class _BeamOptionParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError("argument", message, "see weir run --help.")


def _parser() -> argparse.ArgumentParser:
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = _BeamOptionParser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for section in PipelineOptions.__subclasses__():
        if "_add_argparse_args" in vars(section):
            section._add_argparse_args(parser)  # type: ignore[arg-type]  # any parser will do
    return parser
