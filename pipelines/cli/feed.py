"""``weir feed``: the options of a dry run."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json

_log = logging.getLogger(__name__)


@click.command(short_help="Send synthetic or recorded events to a file or a topic.")
@CONFIG
@SETS
@click.option(
    "--to",
    "to",
    default="-",
    show_default=True,
    metavar="TARGET",
    help="-, a file of any format that `--format` has, projects/P/topics/T, or "
    "kafka://HOST:PORT/TOPIC.",
)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    help="csv, json, ndjson, parquet, arrow or avro, where the target's name does not tell.  "
    "[default of a topic: payload of the source, or ndjson]",
)
@click.option(
    "--per-message",
    type=click.IntRange(min=1),
    help="Events of one message of a topic.  [default: 100; 1 for json]",
)
@click.option(
    "--create",
    is_flag=True,
    help="Make the topic, and the config's subscription to it, if they are not there.",
)
@click.option("--from", "recorded", metavar="FILE", help="Replay this file, not synthetic events.")
@click.option("--events", type=click.IntRange(min=1), help="How many events.  [default: 10,000]")
@click.option("--rate", type=float, help="Events per second.  [default: as fast as possible]")
@click.option("--speed", type=float, help="Replay at this many times real time.")
@click.option(
    "--times",
    type=click.Choice(["clock", "now"]),
    help="Event times: spread over the config's clock, or the present.  "
    "[default: clock; now for a topic without clock.end]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same seed makes the same events, ids too.",
)
@click.option("--late", type=float, default=0.0, help="Share of late events, like 0.1.")
@click.option("--duplicate", type=float, default=0.0, help="Share of events that come twice.")
@click.option("--malformed", type=float, default=0.0, help="Share of unreadable records.")
@click.option(
    "--truth",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write exact counts and sums of the synthetic events here, a line of JSON a tick "
    "(--times now).",
)
@AS_JSON
def feed(
    config: Path,
    sets: tuple[str, ...],
    to: str,
    form: str | None,
    per_message: int | None,
    create: bool,
    recorded: str | None,
    events: int | None,
    rate: float | None,
    speed: float | None,
    times: str | None,
    seed: int,
    late: float,
    duplicate: float,
    malformed: float,
    truth: Path | None,
    as_json: bool,
) -> None:
    """Send a stream that matches CONFIG to a file, stdout or a topic.

    For dry runs: synthetic events with the config's columns and keys, or a recorded file, at a
    rate, with late, repeated and broken records mixed in as you ask. Never run the config over them
    under its own secret: the same noise on events that others know gives it away. `weir rehearse`
    makes and runs events in one go, under a secret of its own.

    \b
      weir feed shop.yaml --events 1000000 --to events.parquet
      weir feed shop.yaml --rate 500 --times now --to projects/acme-data/topics/purchases
      weir feed shop.yaml --from yesterday.csv --speed 60 --to -
      weir feed live.yaml --from year.csv --speed 24 --create --to projects/acme-data/topics/rides
      weir feed shop.yaml --late 0.1 --duplicate 0.1 --malformed 0.01 --to bad.ndjson
    """
    from weir.pipelines.config.job import load
    from weir.pipelines.feed import feed as command
    from weir.pipelines.feed.synthetic import Shares
    from weir.pipelines.feed.targets import create as topic_create
    from weir.pipelines.feed.targets import open_target
    from weir.pipelines.feed.truth import Truth, refuse_truth
    from weir.transforms.formats.registry import FORMATS
    from weir.transforms.runtime.stream_time import PRESENT

    if as_json and to == "-":
        raise ConfigError("--json", True, "and the events would both go to stdout: name --to.")
    job = load(config, sets)
    shares = Shares(late, duplicate, malformed)
    if speed is not None and recorded is None:
        raise ConfigError("--speed", speed, "is for a recorded stream (--from); use --rate.")
    if speed is not None and job.clock is None:
        raise ConfigError("--speed", speed, "needs a clock, and the config has none; use --rate.")
    topic = to.startswith(("projects/", "kafka://"))
    source = job.source
    stream = None if source is None or source.stream == PRESENT else source.stream
    if stream is not None and recorded is not None and rate is None:
        speed = speed or stream.speed
        if speed != stream.speed:
            replay = f"{source.field if source else 'source'}.replay.speed"
            raise ConfigError("--speed", speed, f"is not {replay}, {stream.speed:g}: keep one.")
    pace = command.Pace(rate, speed)
    live = times == "now" or (times is None and topic and job.release_clock.ticks is None)
    live = live and recorded is None
    if truth is not None:
        refuse_truth(recorded, live, shares)
    exact = None if truth is None else Truth(job, truth)
    notes = command.notes(job, shares, live, recorded is not None)
    for note in notes:
        _log.warning(note)
    if form is None and source is not None and to == "-":
        form = source.form if FORMATS[source.form].is_text else None
    if form is None and source is not None and topic:
        form = source.payload
    created = list(topic_create(to, source)) if create and topic else []
    for built in created:
        click.echo(f"weir: {built}", err=True)
    text = None if source is None else source.text_form()
    target = open_target(to, form, per_message, text, source)
    setting = None
    if topic and speed is not None and recorded is not None and stream is None:
        stream = command.replay_from(command.first_moment(recorded, job), speed)
        setting = command.setting(stream, "kafka" if to.startswith("kafka://") else "pubsub")
        _log.warning("the job needs --set '%s'", setting)
    with command.FeedProgress() as shown:
        sent = command.feed(
            job, target, events=events, seed=seed, shares=shares, pace=pace,
            recorded=recorded, live=live, stream=stream, told=shown.told,
            truth=exact,
        )  # fmt: skip
    if as_json:
        facts = {"sent": sent, "to": to, "notes": notes, "made": created, "set": setting}
        print_json(facts)
        return
    click.echo(f"weir: sent {sent:,} events to {'stdout' if to == '-' else to}", err=True)
