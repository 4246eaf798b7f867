"""A config from what a header says, line by line."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.init.words import output_name, release_name, word, written

MOST_FEATURES = 32
"""Columns that are proposed as features; more are named in a comment."""


def check_target(found: Mapping[str, Any], target: str, path: str, once: bool = False) -> None:
    """Raises ConfigError: the column to predict cannot be predicted, or nothing predicts it.

    Args:
      found: what ``pipelines.init.header.sniff`` says of the file. target: the column.
      once: whether the config has no clock.
    """
    types = {column["name"]: column["type"] for column in found["columns"]}
    if not types:
        raise ConfigError(
            "--model",
            target,
            f"needs the names of columns, and keys of {path} may be data: say which ones to use, "
            "the target among them: --columns a,b,c.",
        )
    if target not in types:
        raise ConfigError("--model", target, f"is not a column of {path}.")
    time = None if found["time"] is None else found["time"]["column"]
    roles = {time: "time", found["id"]: "id", found["unit"]: "user"}
    kind = roles.get(target, types[target])
    if kind not in ("integer", "number", "text"):
        raise ConfigError("--model", target, f"is of type {kind}: a target is a number or a text.")
    if once and kind == "text":
        raise ConfigError(
            "--once",
            True,
            f"is for a model of a number, and {target} is a text: models of classes are of blocks "
            "of records over time. Leave --once out.",
        )
    if not features_of(found, target) and not found.get("lists"):
        raise ConfigError("--model", target, f"is the only number of {path}: nothing predicts it.")


def features_of(found: Mapping[str, Any], target: str) -> list[str]:
    """The other numbers."""
    return [name for name in found["numbers"] if name != target]


def model(found: Mapping[str, Any], target: str, once: bool = False) -> Iterator[str]:
    """The section, and what is expected; bounds and sizes are placeholders."""
    features = features_of(found, target)
    texts = [column["name"] for column in found["columns"] if column["type"] == "text"]
    listed = next(iter(found.get("lists", {}).items()), None)
    if target in texts:
        yield from classifier(features, target, listed)
        return
    used, more = features[:MOST_FEATURES], features[MOST_FEATURES:]
    each = "a key has" if once else "a key has in a period"
    yield f"expect: {{events: <EVENTS>}}         # that {each}, about; public, a guess"
    yield ""
    yield "model:"
    if once:
        yield "  algorithm: regression.incremental"
    else:
        yield "  algorithm: online.follow_the_leader   # `weir plan` says where another is better"
    if listed is not None:
        used, more = [listed[0]], []
    yield from listed_words(listed) or columns_words(used, len(more))
    yield f"  target: {word(target)}"
    yield "  ranges:                          # what can happen; beyond: moved to the nearer bound"
    for name in (*used, target):
        yield f"    {word(name)}: [<LOW>, <HIGH>]"
    if not once:
        yield "  # loss: squared                  # or absolute, {quantile: 0.9}, {huber: 0.1}, ..."


def listed_words(listed: tuple[str, int] | None) -> list[str]:
    """Features of a list column whose size the header fixes; none where there is no such column."""
    if listed is None:
        return []
    name, size = listed
    return [f"  features: {{column: {word(name)}, size: {size}}}   # the numbers of a list column"]


def columns_words(used: list[str], more: int) -> list[str]:
    """Features that are columns, and how many there are next to them."""
    lines = ["  features:                        # leave out what is not known when you predict"]
    lines += [f"    - {word(name)}" for name in used]
    return lines + ([f"    # and {more} columns of numbers more"] if more else [])


def classifier(
    features: list[str], target: str, listed: tuple[str, int] | None = None
) -> Iterator[str]:
    """The section of a model of classes."""
    used = features[:MOST_FEATURES] if listed is None else [listed[0]]
    yield "model:"
    yield "  algorithm: erm.sliding_window    # or erm.continual, erm.independent_batches, ..."
    yield from listed_words(listed) or columns_words(used, len(features) - len(used))
    yield f"  target: {word(target)}"
    yield "  classes: [<CLASS>, <CLASS>]      # all that count; public: from what you know"
    yield "  ranges:                          # what can happen; beyond: moved to the nearer bound"
    for name in used:
        yield f"    {word(name)}: [<LOW>, <HIGH>]"
    yield "  block: <RECORDS>                 # records of a block (needs schema.id), or 7d"
    yield "  window: 7                        # blocks: 2^k - 1"
    yield "  regularise: 0.1                  # pull to the model before; noise falls with it"


MOST_NUMBERS = 6
SCHEMA = "weir.schema.json"
"""The file that the first line names: editors look for it next to the config."""


def config_text(
    file: Path | str,
    out: Path | None = None,
    columns: Sequence[str] | None = None,
    header: bool = True,
    encoding: str = "utf-8",
    target: str | None = None,
    once: bool = False,
) -> str:
    """The text of a config.

    Args:
      file: of events, in any format that ``source`` takes; a folder or glob of such files; or a
        table of a database, as URL#TABLE.
      out: where the text will be kept; the path of the file is written relative to it.
      columns, header, encoding: as for ``pipelines.init.header.sniff``.
      target: a column that a model is to predict; None: aggregates.
      once: one release of all rows, without a clock.

    Raises:
      ConfigError: no such file, or of no format known here; a target that is none.
    """
    from weir.pipelines.init import database
    from weir.pipelines.init.header import sniff_all

    path = str(file)
    if database.is_address(path):
        result = database.sniff_table(path, columns)
    else:
        result = sniff_all(path, columns, header, encoding)
    if target is not None:
        check_target(result, target, path, once)
    if out is not None:
        path = database.seen_from(path, out.parent)
    once = once or (target is None and bool(result["columns"]) and result["time"] is None)
    return "\n".join(lines(result, path, target, once)) + "\n"


def write_schema(folder: Path) -> None:
    """The schema that the first line of a config names, next to it; an older one is replaced.

    Raises:
      OSError: it cannot be written.
    """
    from weir.pipelines.config.job import json_schema

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    (folder / SCHEMA).write_text(f"{text}\n", encoding="utf-8")


def lines(
    found: Mapping[str, Any], path: str, target: str | None = None, once: bool = False
) -> Iterator[str]:
    """The config, line by line.

    Args:
      found: what ``pipelines.init.header.sniff`` says of the file. path: as the config names it.
      target: what a model predicts; None: aggregates. once: whether it has no clock.
    """
    users = found["unit"] is not None and target is None
    shown = found.get("title", Path(path).name)
    yield f"# yaml-language-server: $schema={SCHEMA}"
    yield f"# Editors check and complete this by that file, next to it: weir schema > {SCHEMA}"
    yield f"# Made by `weir init` from the names and types of the columns of {shown}."
    yield "# Change it by what you know, never by the data, because a bound that is read off the"
    yield "# data reveals them. What stands in <...> must be filled in. Then: weir plan, weir run."
    yield ""
    yield f"name: {release_name(found.get('title', path))}"
    place = word(path)
    if found.get("dataset"):
        place = f"{{dataset: {place}, partitioning: hive}}"
    if "table" in found:
        place = f"{{url: {word(path.partition('#')[0])}, table: {word(found['table'])}}}"
    yield f"source: {{{found['format']}: {place}{written(found['text'])}}}"
    if path.startswith("postgresql:"):
        yield "#   password: {env: NAME} in sql, unless libpq finds it (PGPASSWORD, ~/.pgpass)"
    yield ""
    yield from schema(found, once)
    yield ""
    yield "# where: COLUMN > 0                # only these events count; the predicate is public"
    yield from key(found["keys"])
    yield ""
    if not once:
        yield from clock(datetime.now(UTC).year)
        yield ""
    yield "privacy:"
    yield "  epsilon: 1.0                     # smaller is more private and less exact"
    yield "  delta: 1e-6                      # well below one over the number of people"
    if not once:
        yield "  protect_for: all                 # or a window, like 365d: less noise; it expires"
    if users:
        yield from user_unit(found["unit"], once)
    else:
        yield "  unit: event                      # what is protected: one event"
    yield ""
    yield from (
        aggregates(found["numbers"], users, once) if target is None else model(found, target, once)
    )
    if target is None and len(found["numbers"]) > 1:
        yield "# in place of aggregates a model of one column: weir init FILE --model COLUMN"
    yield ""
    yield "# secret: {file: secret.key}       # openssl rand -hex 32 > secret.key: repeatable runs"
    yield "sink: {parquet: out/}"
    yield ""
    yield UNDECIDED
    for item in undecided(found, target, once):
        yield from textwrap.wrap(f"- {item}", 98, initial_indent="# ", subsequent_indent="#   ")


UNDECIDED = "# Not decided here:"
"""How the comment begins that says what was not decided, and why."""


def undecided(found: Mapping[str, Any], target: str | None, once: bool) -> Iterator[str]:
    """What a header does not say, and why nothing else was asked."""
    if not once:
        yield (
            "clock.start and clock.end: they are public, so they are not read off the events. Last "
            "year and this one stand in; events outside are refused."
        )
    elif found["time"] is None:
        yield (
            "clock: no column looks like a time, so all rows are one release. For a release per "
            "period name a column in schema.time, and add a clock."
        )
    if found["keys"] and target is None:
        yield (
            f"key: {word(found['keys'][0])} may be what to group by. Which keys exist can reveal "
            "who is in the file, so list those that are public (declared), or find them in private "
            "(discover: {min_users: 20}, with unit: user)."
        )
    if found["unit"] is not None and target is None:
        yield (
            "privacy.contributions: how much a user usually adds is private. Rows beyond the "
            "bounds are left out; weir plan prices other bounds."
        )
    elif target is None:
        yield (
            "privacy.unit: no column looks like a user, so one event is protected. If a person may "
            "have several, name their column in schema.unit and set unit: user."
        )
    if found["numbers"] and target is None:
        yield (
            f"sums, like that of {word(found['numbers'][0])}: a clip is public, and the smallest "
            "and largest value of a file are not. Write what can happen, and remove the #; where "
            "nobody knows, learn the clip in private from the first ticks (clip: {learn: ...})."
        )


def clock(year: int) -> Iterator[str]:
    """The section, of last year and this one. year: this one."""
    yield "clock:                             # one release of everything per period"
    yield f"  start: {year - 1}-01-01T00:00:00Z      # earlier events are refused"
    yield "  period: 1d                       # or 1h, 15m, 30s"
    yield f"  end: {year + 1}-01-01T00:00:00Z        # a file ends, so must the clock"


def user_unit(unit: str, once: bool) -> Iterator[str]:
    """A user as what is protected, with bounds that people are to choose."""
    what = "all that" if once else "what"
    yield f"  unit: user                       # what is protected: {what} one {word(unit)} adds"
    if once:
        yield "  contributions: {keys: 1, events: 4}   # of a user: keys, and events of each key;"
    else:
        yield "  per: 30d                         # in such a period; or 1d, 1 month, all"
        yield "  contributions: {ticks: 4, keys: 1, events: 2}   # of a user in a period: ticks,"
        yield "                                   # keys of each tick, and events of each key;"
    yield "                                   # what is beyond is left out, and noise grows with it"


def schema(found: Mapping[str, Any], once: bool = False) -> Iterator[str]:
    """Which column is what."""
    time = found["time"]
    bare = once and found["id"] is None and found["unit"] is None
    yield "schema: {}" if bare and found["columns"] else "schema:"
    if once and found["columns"]:
        pass
    elif once:
        yield "  unit: <COLUMN>                   # whom an event belongs to; or remove this"
        yield "  # names are keys of its objects, which may be data, so none is written down here;"
        yield "  # say which ones to use: weir init FILE --columns a,b,c"
    elif not found["columns"]:
        yield "  time: <COLUMN>                   # or {column, format, zone}"
        yield "  # names are keys of its objects, which may be data, so none is written down here;"
        yield "  # say which ones to use: weir init FILE --columns a,b,c"
    elif time is None:
        yield "  time: <COLUMN>                   # none looks like a time; {column, format, zone}"
    elif time["format"] is None:
        yield f"  time: {word(time['column'])}"
    else:
        column, form = word(time["column"]), json.dumps(time["format"])
        yield f"  time: {{column: {column}, format: {form}, zone: UTC}}"
        others = [str(item) for item in found["time_formats"][1:]]
        if others:
            yield f"  # check the format of the time: {' or '.join(others)} fits too"
    if found["id"] is not None:
        yield f"  id: {word(found['id'])}  # drops duplicates; remove it if a value may stand twice"
    else:
        yield "  # id: COLUMN                     # an id of the event: drops duplicate deliveries"
    if found["unit"] is not None:
        yield f"  unit: {word(found['unit'])}  # whom an event belongs to"
    if not found["columns"]:
        return
    listed = ", ".join(f"{word(c['name'])} ({c['type']})" for c in found["columns"])
    yield from textwrap.wrap(
        listed,
        98,
        initial_indent="  # columns: ",
        subsequent_indent="  #   ",
        break_on_hyphens=False,
    )


def key(columns: Sequence[str]) -> Iterator[str]:
    """What to group by, as a proposal."""
    column = word(columns[0]) if columns else "COLUMN"
    yield f"# key: {{column: {column}, declared: [A, B]}}   # releases for each of these keys"
    if len(columns) > 1:
        yield f"#   other columns to group by: {', '.join(word(c) for c in columns[1:6])}"
        pair = ", ".join(map(word, columns[:2]))
        yield f"#   or by several: {{columns: [{pair}], declared: [[A, X], [B, Y]]}}"


def aggregates(numbers: Sequence[str], users: bool = False, once: bool = False) -> Iterator[str]:
    """Counts; of the first number a sum, a mean, quantiles and a histogram as proposals, of others
    sums."""
    yield "aggregates:                        # output name first"
    if once:
        yield "  events: {count: events}"
    else:
        yield "  events: {count: events, over: [all, 1]}   # since the start, and each tick alone"
    if users:
        each = "distinct users" if once else "distinct users of each tick"
        yield f"  users: {{count: users}}            # {each}"
    for place, column in enumerate(numbers[:MOST_NUMBERS]):
        name = output_name(column)
        yield f"  # {name}: {{sum: {word(column)}, clip: [LOW, HIGH]}}"
        if place == 0 and not once:
            learn = "{learn: {ticks: 30d, top: 1e6, start: 100}}"
            yield "  #   where nobody knows a bound, learn it in private from the first ticks:"
            yield f"  #   {{sum: {word(column)}, clip: {learn}}}"
        if place == 0:
            yield f"  # {name}_mean: {{mean: {word(column)}, clip: [LOW, HIGH]}}"
            yield f"  # {name}_usual: {{quantile: {word(column)}, at: [0.5, 0.95],"
            yield f"  #   {' ' * len(name)}       edges: {{linear: [LOW, HIGH, 64]}}}}"
            yield f"  # {name}_sizes: {{histogram: {word(column)}, edges: [0, 1, 10, 100]}}"
