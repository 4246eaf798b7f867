"""The way into a Flex Template: a launch's parameters, as Google's launcher passes them on.

The launcher gives ``--name=value`` for each parameter of metadata.json, and Beam's options for the
rest (project, region, temp_location, and template_location: where the job's description goes, for
the service to start). So nothing is waited for here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.ledger.ledger import Ledger
from weir.transforms.runtime import files


def parameters(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Ours (config, set), and the rest for Beam."""
    parser = argparse.ArgumentParser(prog="template", allow_abbrev=False)
    parser.add_argument("--config", required=True)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    known, rest = parser.parse_known_args(list(arguments))
    return known, [flag for flag in rest if not flag.startswith("--runner")]


def fetch(place: str, sets: Sequence[str] = ()) -> JobConfig:
    """A config from a bucket or from this machine.

    Args:
      place: ``gs://...`` or a path.
      sets: ``FIELD=VALUE``; several may stand in one, with ``;`` between them.

    Raises:
      ConfigError: it cannot be read, or what it says is refused.
    """
    changes = tuple(part.strip() for text in sets for part in text.split(";") if part.strip())
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "job.yaml"
        try:
            with files.open_raw(place) as file:
                copy.write_bytes(file.read())
        except OSError as error:
            raise ConfigError("--config", place, f"cannot be read: {error.strerror}") from None
        return load(copy, changes)


def refuse_here(ledger: Ledger | None) -> None:
    """Refuses a ledger that would be gone with the launcher.

    Raises:
      ConfigError: names the field of its kind.
    """
    if ledger is not None and ledger.local:
        raise ConfigError(
            ledger.field,
            ledger.shown,
            "would lie in the launcher of the template, which is gone afterwards: use "
            "ledger.postgresql.",
        )


def main(arguments: Sequence[str], image: str) -> int:
    """Describes the job for the service. Exit 0, 2 for what is refused, 1 for what failed."""
    from weir.pipelines.graph.budget import entered, resumes
    from weir.pipelines.graph.parts import parts_of
    from weir.pipelines.runners.pipeline import alone, pipeline_for

    known, flags = parameters(arguments)
    try:
        parts = parts_of(fetch(known.config, known.sets), "dataflow")
        flags.append(f"--sdk_container_image={image}")
        refuse_here(parts.ledger)
        resumed = resumes("dataflow", flags, None)
        with (
            alone(parts, "dataflow", flags),
            entered(parts, False, "dataflow", resumed) as spent,
        ):
            parts = spent.parts
            pipeline = pipeline_for(parts, "dataflow", flags)
            parts.sink.prepare(parts.plan, parts.secrets, not parts.streaming)
            if parts.letters is not None:
                parts.letters.prepare()
            spent.start()
            pipeline.run()
    except ConfigError as error:
        print(f"weir: refused: {error}", file=sys.stderr)
        return 2
    except WeirError as error:
        print(f"weir: failed: {error}", file=sys.stderr)
        return 1
    return 0
