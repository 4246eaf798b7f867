"""A config file as a job, where it writes to, and its JSON Schema."""

from __future__ import annotations

import os
import re
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr, model_validator

from weir.dpcore.config import yaml
from weir.dpcore.config.one_shot import NEEDS_CLOCK, check_clock
from weir.dpcore.config.section import refusal
from weir.dpcore.config.yaml import YAML11_NUMBER
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.config.sections import (
    PATHS,
    Deduplicate,
    Engine,
    Secret,
)
from weir.pipelines.connectors.paths import STDIN, is_inside, on_folder
from weir.pipelines.ledger.ledger import LEDGERS, AnyLedger
from weir.pipelines.sinks.dead_letters import DeadLetters
from weir.pipelines.sinks.sink import DEAD_LETTERS, SINKS, AnyDeadLetters, AnySink, Sink
from weir.pipelines.sources.registry import SOURCES, AnySource
from weir.pipelines.sources.source import Limits
from weir.transforms.runtime.secret import refuse_secret
from weir.transforms.sources.lookup import with_table

JOB_NEEDS_CLOCK = (
    ("deduplicate", "horizon"),
    ("secret", "rotate"),
    ("sink", "every"),
)
"""Fields next to those of a plan that say when, or for how many ticks."""

_PLACEHOLDER = re.compile(r"<[A-Z]+>\Z")


class JobConfig(PlanConfig):
    """One config file."""

    source: AnySource | None = Field(
        default=None, description="Where events come from.", examples=["{csv: purchases.csv}"]
    )
    deduplicate: Deduplicate | None = Field(
        default=None,
        description="How long event ids are remembered; needs schema.id.",
        examples=["{horizon: 7d}"],
    )
    secret: Secret | None = Field(
        default=None,
        description="Where the key of the noise is kept; without it the local engine draws a "
        "fresh one, and every other runner refuses to start.",
        examples=["{file: secret.key}"],
    )
    sink: AnySink | None = Field(
        default=None, description="Where releases go.", examples=["{parquet: out/, every: 128}"]
    )
    dead_letters: AnyDeadLetters | None = Field(
        default=None,
        description="Where refused events are listed, without their content.",
        examples=["{parquet: dead/}"],
    )
    ledger: AnyLedger | None = Field(
        default=None,
        description="Where it is written down what plans cost the people of a scope, and the most "
        "that may come to: a run that would pass it is refused before it reads anything.",
        examples=["{sqlite: ledger.db, scope: customers, budget: {epsilon: 4, delta: 1e-6}}"],
    )
    limits: Limits = Field(
        default=Limits(), description="Limits on bad input.", examples=["{line_bytes: 1048576}"]
    )

    engine: Engine = Field(
        default=Engine(),
        description="How a cluster runs the job; nothing here changes a release.",
        examples=["{parallelism: 4, checkpoints: gs://acme-weir/state}"],
    )
    counted: ClassVar[tuple[tuple[str, ...], ...]] = (*PlanConfig.counted, ("sink", "every"))
    _folder: Path = PrivateAttr(default=Path("."))

    @property
    def state_folder(self) -> str:
        """Where checkpoints and what a resume needs are kept: folder or bucket."""
        return self.engine.checkpoints or str((self._folder / ".weir" / self.name).absolute())

    @model_validator(mode="before")
    @classmethod
    def _job_clock(cls, data: Any) -> Any:
        """As ``PlanConfig``, for the sections that shape no plan."""
        if isinstance(data, Mapping):
            check_clock(data, (*NEEDS_CLOCK, *JOB_NEEDS_CLOCK))
        return data

    @model_validator(mode="after")
    def _check_job(self) -> Self:
        users = self.privacy.unit == "user"
        if users and self.deduplicate is not None and self.deduplicate.horizon is not None:
            raise refusal(
                "deduplicate.horizon",
                self.deduplicate.horizon,
                "has no meaning where privacy.unit is user: copies of an id vanish within the tick "
                "of their user, by the contribution bounds, and none is remembered; remove it.",
            )
        if not users and self.deduplicate is not None and self.schema_.id is None:
            raise refusal(
                "deduplicate",
                self.deduplicate.model_dump(exclude_none=True),
                "needs schema.id, the column of event ids.",
            )
        for name in ("time", "arrival"):
            column = getattr(self.schema_, name)
            if column is not None and column.zone is not None and not _is_zone(column.zone):
                raise refusal(
                    f"schema.{name}.zone",
                    column.zone,
                    "is not a time zone; write a name like UTC or Europe/Berlin.",
                )
        return self

    def widened(self) -> Self:
        """The job as ``--wide`` asks for it.

        Raises:
          ConfigError: names ``--wide``: its sink shows no table.
        """
        shown = None if self.sink is None else self.sink.widened()
        if shown is None and self.sink is not None:
            raise ConfigError(
                "--wide",
                True,
                f"is for tables that people see: {self.sink.field} shows none. Use sink: {{stdout: "
                "true}, or a folder and weir report DIR --wide.",
            )
        return self.model_copy(update={"sink": shown})

    def plan_config(self) -> PlanConfig:
        """Only what shapes the plan, with what the table of a lookup says. A ledger adds up losses,
        which pure noise makes larger: it is left out there, unless the config says otherwise."""
        fields = {name: getattr(self, name) for name in PlanConfig.model_fields}
        named = set(self.model_fields_set) & set(fields)
        if self.ledger is not None and self.mechanism.pure is None:
            fields["mechanism"] = self.mechanism.model_copy(update={"pure": False})
            named.add("mechanism")
        if self.lookup is not None:
            fields["lookup"] = with_table(self.lookup)
        built = PlanConfig.model_construct(_fields_set=named, **fields)
        built._yaml11_numbers = self._yaml11_numbers
        return built


def load(
    path: str | Path, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> JobConfig:
    """Reads one config file.

    Args:
      path: the YAML file. Relative paths inside it are relative to its folder.
      sets: ``a.b=c`` texts that replace fields; c is YAML, and null removes the field.
      environ: what ``${NAME}`` stands for; the process environment if None.

    Raises:
      ConfigError: what is wrong first.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError("config", str(path), "is no file; `weir init FILE` makes one.") from None
    except UnicodeDecodeError:
        raise ConfigError("config", str(path), "is not UTF-8 text.") from None
    except OSError as error:
        raise ConfigError("config", str(path), f"cannot be read: {error.strerror}.") from None
    return loads(text, sets, environ, file.parent)


def loads(
    text: str,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> JobConfig:
    """As ``load``, from text; relative paths stay as they are unless a folder is given."""
    variables = os.environ if environ is None else environ
    data = yaml.parse_mapping(text, variables)
    for item in sets:
        _set(data, item, variables)
    _no_placeholders(data)
    if folder is not None:
        _anchor(data, folder)
    job = JobConfig.from_dict(data)
    job._folder = folder or Path(".")
    return job


def _set(data: dict[str, Any], text: str, variables: Mapping[str, str]) -> None:
    """Applies one ``a.b=c`` in place."""
    name, equals, value = text.partition("=")
    parts = name.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError("--set", text, "must look like field=value, or section.field=value.")
    try:
        # In YAML a dash alone begins a list; here it is standard input.
        parsed = STDIN if value.strip() == STDIN else yaml.parse(value, variables)
    except ConfigError as error:
        raise ConfigError("--set", text, f"has a value that {error.remedy}") from None
    current: dict[str, Any] = data
    for depth, part in enumerate(parts[:-1]):
        if current.get(part) is None:
            current[part] = {}
        below = current[part]
        if not isinstance(below, dict):
            above = ".".join(parts[: depth + 1])
            raise ConfigError("--set", text, f"goes into {above}, which is not a section.")
        current = below
    if parsed is None:
        current.pop(parts[-1], None)
    else:
        current[parts[-1]] = parsed


def _no_placeholders(data: Mapping[str, Any]) -> None:
    """Refuses what ``weir init`` left to be filled in: all of it at once."""
    left = list(placeholders(data))
    if not left:
        return
    path, value = left[0]
    if len(left) == 1:
        raise ConfigError(path, value, "is a placeholder of `weir init`: fill it in.")
    others = ", ".join(f"{where} ({item})" for where, item in left[1:])
    raise ConfigError(path, value, f"is a placeholder of `weir init`: fill it in, and so {others}.")


def placeholders(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Dotted field and text of each placeholder in a config that is not checked yet."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from placeholders(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from placeholders(item, f"{path}[{at}]")
    elif isinstance(value, str) and _PLACEHOLDER.match(value):
        yield path, value


def _anchor(data: dict[str, Any], folder: Path) -> None:
    """Makes the relative paths of a config relative to its own folder, in place.

    Raises:
      ConfigError: one of the secret's is the secret itself.
    """
    secret = data.get("secret")
    rotate = secret.get("rotate") if isinstance(secret, dict) else None
    later = rotate if isinstance(rotate, list) else []
    sink = data.get("sink")
    signing = sink.get("signing_key") if isinstance(sink, dict) else None
    named = {"secret": secret, **{f"secret.rotate[{i}]": item for i, item in enumerate(later)}}
    named["sink.signing_key"] = signing
    for field, place in named.items():
        if isinstance(place, dict) and isinstance(place.get("file"), str):
            refuse_secret(f"{field}.file", place["file"])
    paths: dict[str, Iterable[str]] = dict(PATHS)
    for registry in (SOURCES, SINKS, DEAD_LETTERS, LEDGERS):
        fields: Any = data.get(registry.role)
        kinds = [name for name in fields if name in registry] if isinstance(fields, dict) else []
        paths[registry.role] = [path for kind in kinds for path in registry[kind].paths]
    for section, names in paths.items():
        fields = data.get(section)
        for name in names if isinstance(fields, dict) else ():
            if name in fields:
                fields[name] = on_folder(folder, fields[name])
    for entry in (*later, signing):
        if isinstance(entry, dict) and isinstance(entry.get("file"), str):
            entry["file"] = str(folder / Path(entry["file"]).expanduser())


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


def refuse_mixed(letters: DeadLetters | None, sink: Sink | None) -> None:
    """Refuses dead letters in the folder of the releases, and releases in that of dead letters.

    Raises:
      ConfigError: names ``dead_letters.<format>``.
    """
    if letters is None or sink is None or letters.place is None or sink.place is None:
        return
    if is_inside(letters.place, sink.place):
        how = "is or lies in the folder of the releases"
    elif is_inside(sink.place, letters.place):
        how = "holds the folder of the releases"
    else:
        return
    raise ConfigError(
        letters.field,
        letters.place,
        f"{how} ({sink.field} = {sink.place!r}), and only operators may see dead letters: give "
        "them a folder of their own next to it.",
    )


def json_schema() -> dict[str, Any]:
    """The whole schema: every field with a description and an example."""
    schema = JobConfig.model_json_schema(by_alias=True, mode="validation")
    out: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weir config",
        "description": "One differentially private release from one stream of events. YAML 1.2; "
        "${NAME} in a value stands for an environment variable.",
    }
    out.update({k: v for k, v in _walk(schema).items() if k not in out})
    for section in (out, *out["$defs"].values()):
        for field in section["properties"].values():
            name = field.get("$ref", "").rpartition("/")[2]
            if name and "description" not in field:  # left out where it repeats the section's
                field["description"] = out["$defs"][name]["description"]
    return out


def _walk(value: Any) -> Any:
    """Examples are written as YAML next to the fields: here they become values."""
    if isinstance(value, list):
        return [_walk(item) for item in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, item in value.items():
        if name == "examples" and isinstance(item, list):
            out[name] = [_example(example) for example in item]
        elif name == "title" and isinstance(item, str):
            continue  # generated from the names, says nothing
        else:
            out[name] = _walk(item)
    if out.get("type") == "number":
        # As it is read: bounds hold for numbers, and of a text they are told when it is read.
        out |= {"type": ["number", "string"], "pattern": YAML11_NUMBER}
    return out


def _example(example: Any) -> Any:
    if not isinstance(example, str):
        return example
    try:
        return yaml.parse(example)
    except ConfigError:
        return example
