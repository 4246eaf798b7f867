"""The job behind a folder of releases: of its config, or of the plan that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.connectors.paths import ending
from weir.pipelines.graph.parts import Parts, parts_of
from weir.pipelines.results import plan_file, secret_marks
from weir.pipelines.sinks.sink import SINKS, Sink
from weir.pipelines.sources.registry import kind_of, source_of
from weir.transforms.sinks import place


def job_of(
    folder: str,
    config: Path | None,
    source: str | None,
    secret_file: str | None,
    sets: Sequence[str] = (),
) -> tuple[Parts, Mapping[str, Any]]:
    """What computes the releases of a folder again, and what ``_plan.json`` holds.

    Args:
      config: of the run; None: the plan in the folder, with the defaults of a source.
      source: file, glob or folder of the events, in place of the config's.
      secret_file: in place of the config's. sets: as of ``weir run``.

    Raises:
      ConfigError: no events, another plan or another secret than those of the folder.
    """
    stored = _stored(folder)
    job = _rebuilt(stored, source) if config is None else load(config, sets)
    if source is not None:
        job = job.model_copy(update={"source": _source(source, job if config else None)})
    if job.source is None:
        raise ConfigError(
            "--source", None, "is missing: give the file of the events, or --config of the run."
        )
    if not job.source.bounded:
        raise ConfigError(
            "--source",
            None,
            f"is missing: {job.source.field} cannot be read again. Give the events in files.",
        )
    job = job.model_copy(update={"sink": _sink(folder, stored)})
    if job.secret is None and secret_file is None:
        raise ConfigError(
            "--secret-file", None, "is missing: the noise is computed with the secret of the run."
        )
    parts = parts_of(job, "local", secret_file)
    if parts.plan.layout != stored.get("layout"):
        raise ConfigError(
            "--config" if config else "directory",
            str(config or folder),
            "gives another plan than that of the releases. Give --config of the run, as it was."
            if config is None
            else f"is of another plan than {folder}: weir diff compares configs.",
        )
    _refuse_secret(folder, parts)
    return parts, stored


def _stored(folder: str) -> Mapping[str, Any]:
    stored = place.json_in(place.read(place.join(folder, place.PLAN_FILE)))
    if stored is None or not isinstance(stored.get("config"), dict):
        raise ConfigError(
            "directory", folder, f"holds no {place.PLAN_FILE} that is whole: put it back."
        )
    return stored


def _rebuilt(stored: Mapping[str, Any], source: str | None) -> JobConfig:
    """A job by the fields of a stored plan. Outputs come in the order of its releases."""
    if source is None:
        raise ConfigError(
            "--source",
            None,
            "is missing: a plan does not say where events are. Give their file, or --config of "
            "the run.",
        )
    fields: dict[str, Any] = {}
    with place.as_written("directory", str(source)):
        for name, value in stored["config"].items():
            *path, last = name.split(".")
            inside = fields
            for part in path:
                inside = inside.setdefault(part, {})
            inside[last] = value
        order = [str(item["name"]) for item in stored["releases"]]
    if isinstance(fields.get("aggregates"), dict):
        place_of = {name: place for place, name in reversed(list(enumerate(order)))}
        names = sorted(fields["aggregates"], key=lambda name: place_of.get(name, len(order)))
        fields["aggregates"] = {name: fields["aggregates"][name] for name in names}
    try:
        return JobConfig.from_dict(fields)
    except ConfigError as error:
        raise ConfigError(
            "--config", None, f"is needed: the stored plan alone is not enough ({error})"
        ) from None


def _source(text: str, job: JobConfig | None) -> Any:
    """A source of files; of the kind of the config's, with its options, where the ending fits."""
    own = None if job is None else job.source
    if own is not None and own.bounded and own.kind in (type(own).meant(text) or {}):
        return own.model_copy(update={own.kind: text})
    kind = kind_of(ending(text))
    if kind is not None:
        return source_of(kind, text)
    raise ConfigError(
        "--source",
        text,
        f"is no file of events by its ending ({ending(text) or 'none'}). Give a file, or --config "
        "with its source.",
    )


def _sink(folder: str, stored: Mapping[str, Any]) -> Sink:
    """The folder itself, as its run wrote it."""
    names = place.release_files(folder)
    if not names:
        raise ConfigError("directory", folder, "has no releases yet.")
    kind = next(iter(names)).rpartition(".")[2]
    layout = stored.get(plan_file.LAYOUT, "packed")
    built = SINKS[kind](**{kind: folder, "layout": layout})
    assert isinstance(built, Sink)
    return built


def _refuse_secret(folder: str, parts: Parts) -> None:
    """Refuses a secret that is not that of the releases, before any event is read."""
    before = secret_marks.read(folder, "directory")
    now = secret_marks.whole(parts.secrets, parts.plan)
    if before is None:
        return
    if now is None or secret_marks.differ(before, now, place.ticks_in(folder)):
        later = len(before) > 1
        raise ConfigError(
            "--secret-file",
            "(not shown)",
            "is not the secret that the releases were made with. "
            + ("Give --config with secret.rotate: there were several." if later else "Give that."),
        )


__all__ = ["job_of"]
