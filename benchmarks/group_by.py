"""What does a private release cost, compared with the plain query that people write without it?

Each query counts and sums by key, and by tick where there is a clock, with Weir (noise, exact sums,
files), DuckDB and Polars, on as many threads as there are cores, from files to Parquet: Weir's two
(``sink.every: 500``), one of each peer.

* ``sorted``, ``shuffled``: the Parquet files of ``pipeline_speed``, 64 keys by 1,000 ticks.
* ``ten-files``: the first sort ten times over.
* ``ids``: string ids of which 10 % come twice; the peers keep one event an id.
* ``users``: a million users, keys that nobody declared, at most two events a key and four keys a
  user; the peers bound contributions with window functions. PipelineDP does the same on its local
  backend over 200,000 of the events, once.
* ``csv``, ``ndjson``: a fifth of the events as text, 1 % of the lines bad; the peers read the clean
  file.

DuckDB is in the extra ``duckdb``, the others come with ``pip install polars pipeline-dp``. A peer
that is missing is left out, in words. Before it is timed, each peer's counts are compared with
those of Weir at a budget that leaves no noise: within 2 %, for bad lines; of users within 10 %, as
each keeps other keys of a user. Twenty minutes and 8 GB of memory; ``--only`` chooses queries.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("POLARS_MAX_THREADS", str(os.cpu_count()))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.decode_speed import BAD, STORES, csv_bytes, ndjson, spelled, table
from benchmarks.harness import Bench, main
from benchmarks.pipeline_speed import NAMES, ROW_GROUP, make_files
from benchmarks.whole_run import MINUTE, START, whole_run
from weir.pipelines.config.job import loads
from weir.pipelines.graph.parts import parts_of

USERS, GROUPS, KEYS_OF, EVENTS_OF = 1_000_000, 1_000, 4, 2
LOCAL_EVENTS = 200_000
AT_A_TIME = 200_000
QUERIES = ("sorted", "shuffled", "ten-files", "ids", "users", "csv", "ndjson")
CLOCKED = """
name: clocked
source: {{{{{form}: {{file}}}}}}
schema: {{{{time: {time}{id}}}}}
key: {{{{column: {key}, declared: [{keys}]}}}}
clock: {{{{start: 2024-01-01T00:00:00Z, period: {period}, end: {end}}}}}
privacy: {{{{epsilon: {{epsilon}}, delta: 1e-6, protect_for: 256 ticks}}}}
aggregates: {{{{events: {{{{count: events}}}}, total: {{{{sum: {value}, clip: [0, {top}]}}}}}}}}
sink: {{{{parquet: {{out}}, every: 500}}}}
"""
PEOPLE = """
name: people
source: {{parquet: {file}}}
schema: {{unit: u}}
key: {{column: k, discover: {{min_users: 1}}}}
privacy:
  epsilon: {epsilon}
  delta: 1e-6
  unit: user
  contributions: {{keys: 4, events: 2}}
aggregates:
  events: {{count: events}}
  total: {{sum: v, clip: [0, 10]}}
sink: {{parquet: {out}}}
"""
NO_NOISE = 1e7
"""An epsilon whose noise no count shows."""


class Query(NamedTuple):
    """What is asked of a file.

    Attributes:
      file: a file or a folder, of the peers. ours: that of Weir. events: how many it holds.
      config: of Weir, with places for ``file``, ``epsilon`` and ``out``.
      goal: speed over a peer's. ids: whether one event an id counts. people: whether users are
      bounded. text: "csv" or "ndjson", where it is text.
    """

    file: Path
    ours: Path
    events: int
    config: str
    goal: float
    ids: bool = False
    people: bool = False
    text: str = ""

    @property
    def columns(self) -> tuple[str, str, str, str, str, int]:
        """Time, key, value, the first tick, its length, the largest value."""
        if self.text:
            return "time", "store", "dollars", "2024-01-01 00:00:00", "144 minutes", 200
        return "t", "k", "v", "2024-01-01 00:00:00", "1 minute", 10


def released(query: Query, out: Path, epsilon: float = 1.0) -> None:
    """A whole run of Weir."""
    whole_run(parts_of(loads(query.config.format(file=query.ours, epsilon=epsilon, out=out))))


def duckdb(query: Query, out: Path) -> None:
    """The query in SQL."""
    import duckdb

    time, key, value, start, period, top = query.columns
    path = f"{query.file}/*.parquet" if query.file.is_dir() else query.file
    reader = {"csv": "read_csv", "ndjson": "read_ndjson"}.get(query.text, "read_parquet")
    options = ""
    if query.text:
        types = f"{{'{time}': 'TIMESTAMPTZ', '{key}': 'VARCHAR', '{value}': 'DOUBLE'}}"
        options = f", {'types' if query.text == 'csv' else 'columns'}={types}"
    rows = f"from {reader}('{path}'{options})"
    if query.people:
        sums = (
            f"with e as (select u, k, v, row_number() over (partition by u, k) as place {rows}), "
            f"bounded as (select * from e where place <= {EVENTS_OF}), "
            "pairs as (select u, k, row_number() over (partition by u) as place "
            "from (select distinct u, k from bounded)) "
            "select k, count(*) as n, sum(greatest(least(v, 10), 0)) as total "
            f"from bounded join pairs using (u, k) where pairs.place <= {KEYS_OF} group by k"
        )
    else:
        if query.ids:
            rows = (
                f"from (select any_value({time}) as {time}, any_value({key}) as {key}, "
                f"any_value({value}) as {value} {rows} group by id)"
            )
        sums = (
            f"select {key} as k, time_bucket(interval '{period}', {time}::timestamptz, "
            f"timestamptz '{start}+00') as tick, count(*) as n, "
            f"sum(greatest(least({value}, {top}), 0)) as total {rows} group by k, tick"
        )
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {os.cpu_count()}; set timezone = 'UTC'")
        connection.execute(f"copy ({sums}) to '{out}' (format parquet)")


def polars(query: Query, out: Path) -> None:
    """The query as a lazy frame."""
    import polars as pl

    time, key, value, _, period, top = query.columns
    if query.text:
        schema: Any = {time: pl.String, key: pl.String, value: pl.Float64}
        frame = (
            pl.scan_csv(query.file, schema_overrides=schema)
            if query.text == "csv"
            else pl.scan_ndjson(query.file, schema=schema)
        )
        stamp: Any = pl.col(time).str.to_datetime(time_unit="us", time_zone="UTC")
    else:
        frame = pl.scan_parquet(query.file)
        stamp = pl.col(time)
    totals = (pl.len().alias("n"), pl.col(value).clip(0, top).sum().alias("total"))
    if query.people:
        bounded = frame.select("u", "k", "v", place=pl.int_range(pl.len()).over("u", "k"))
        bounded = bounded.filter(pl.col("place") < EVENTS_OF)
        pairs = bounded.select("u", "k").unique()
        pairs = pairs.with_columns(place=pl.int_range(pl.len()).over("u"))
        pairs = pairs.filter(pl.col("place") < KEYS_OF).select("u", "k")
        totals_of = bounded.join(pairs, on=("u", "k"), how="semi").group_by("k").agg(*totals)
    else:
        if query.ids:
            frame = frame.unique(subset="id", keep="any")
        tick = (stamp.dt.epoch("us") - START) // (int(period.split()[0]) * MINUTE)
        totals_of = frame.group_by(pl.col(key).alias("k"), tick.alias("tick")).agg(*totals)
    totals_of.sink_parquet(out)


PEERS: dict[str, tuple[str, Callable[[Query, Path], None]]] = {
    "duckdb": ("DuckDB", duckdb),
    "polars": ("Polars", polars),
}


def pipeline_dp_local(file: Path) -> int:
    """PipelineDP bounds users and finds keys, in this process: how many keys it found."""
    import pipeline_dp

    columns = pq.read_table(file)
    rows = list(zip(*(columns[name].to_pylist() for name in ("u", "k", "v")), strict=True))
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
        max_partitions_contributed=KEYS_OF,
        max_contributions_per_partition=EVENTS_OF,
        min_value=0.0,
        max_value=10.0,
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
    )
    results = engine.aggregate(rows, params, extractors)
    budget.compute_budgets()
    return len(list(results))


def write_people(folder: Path, events: int, rng: np.random.Generator) -> Path:
    """Events of users whose activity follows a gamma law, in keys that follow a power law."""
    activity = np.cumsum(rng.gamma(0.8, 1.0, USERS))
    users = np.searchsorted(activity, rng.random(events) * activity[-1])
    weight = np.cumsum(1.0 / np.arange(1, GROUPS + 1))
    keys = np.searchsorted(weight, rng.random(events) * weight[-1])
    names = pa.array([f"group{i:04d}" for i in range(GROUPS)])
    people = pa.array(np.char.mod("user-%d", users))
    rows = pa.table({"u": people, "k": names.take(pa.array(keys)), "v": rng.gamma(2, 2, events)})
    file = folder / "people.parquet"
    pq.write_table(rows, file, row_group_size=ROW_GROUP)
    return file


def write_text(folder: Path, form: str, events: int) -> tuple[Path, Path]:
    """The same events clean, and with 1 % of the lines bad."""
    clean, bad = folder / f"clean.{form}", folder / f"bad.{form}"
    data = table(events)
    with open(clean, "wb") as good, open(bad, "wb") as mixed:
        for begin in range(0, events, AT_A_TIME):
            part = data.slice(begin, AT_A_TIME)
            if form == "ndjson":
                rows = spelled(part).to_pylist()
                good.write(ndjson(rows))
                mixed.write(ndjson(rows, BAD))
                continue
            header, *lines = csv_bytes(part).splitlines(keepends=True)
            for file in (good, mixed):
                file.write(b"" if begin else header)
            good.writelines(lines)
            mixed.writelines(one if i % 100 else one[:9] + b"\n" for i, one in enumerate(lines))
    return clean, bad


def queries(
    folder: Path, events: int, only: list[str], rng: np.random.Generator
) -> Iterator[tuple[str, Query]]:
    """Name and query; files are written when they are needed first."""
    files: dict[str, Path] = {}
    for name in only:
        if name in ("csv", "ndjson"):
            clean, bad = write_text(folder, name, events // 5)
            config = CLOCKED.format(
                form=name, time="time", id="", key="store", keys=", ".join(STORES), period="144m",
                end="2024-04-10T00:00:00Z", value="dollars", top=200,
            )  # fmt: skip
            yield name, Query(clean, bad, events // 5, config, 0.8, text=name)
        elif name == "users":
            file = write_people(folder, events, rng)
            yield name, Query(file, file, events, PEOPLE, 0.7, people=True)
        else:
            files = files or make_files(folder, events, rng)
            file, many = files[name], 10 * events if name == "ten-files" else events
            config = CLOCKED.format(
                form="parquet", time="t", id=", id: id" if name == "ids" else "", key="k",
                keys=", ".join(NAMES), period="1m", end="2024-01-01T16:40:00Z", value="v", top=10,
            )  # fmt: skip
            yield name, Query(file, file, many, config, 1.0, ids=name == "ids")


def count_of(out: Path) -> float:
    """How many events the releases of a run without noise to speak of count."""
    files = [file for file in out.rglob("*.parquet") if "dead" not in file.parts]
    rows = pa.concat_tables([pq.read_table(file) for file in files]).to_pandas()
    rows = rows[rows["name"] == "events"]
    last = rows["tick"].isna() | (rows["tick"] == rows["tick"].max())
    return float(rows.loc[last, "value"].sum())


def measure(bench: Bench) -> None:
    """Each query next to each peer."""
    events = bench.args.events or (1_000_000 if bench.short else 10_000_000)
    outs = itertools.count()
    present = {name: one for name, one in PEERS.items() if importlib.util.find_spec(name)}
    for name in PEERS.keys() - present.keys():
        print(f"{PEERS[name][0]} is not installed: pip install {name}", flush=True)
    with bench.folder() as folder:
        for name, query in queries(folder, events, bench.args.only, bench.rng()):
            exact = folder / f"exact-{name}"
            released(query, exact, NO_NOISE)
            counted = count_of(exact)
            for peer, work in present.values():
                target = folder / f"{name}-{peer}.parquet"
                work(query, target)
                theirs = float(np.sum(pq.read_table(target)["n"].to_numpy()))
                apart = 0.1 if query.people else 0.02  # each keeps other keys of a user
                assert abs(counted - theirs) <= apart * theirs, (name, peer, counted, theirs)
                took = bench.compare(
                    f"{name}, {query.events:,} events",
                    peer,
                    lambda: released(query, folder / f"out-{next(outs)}"),
                    lambda: work(query, target),
                    query.goal,
                )
                for who, own in ((peer, took.peer), ("weir", took.ours)):
                    bench.row(what=name, who=who, events=query.events, seconds=own.wall,
                              cpu_seconds=own.cpu)  # fmt: skip
            if query.people and importlib.util.find_spec("pipeline_dp"):
                small = folder / "some-people.parquet"
                pq.write_table(pq.read_table(query.file).slice(0, LOCAL_EVENTS), small)
                part = query._replace(file=small, ours=small)
                bench.compare(
                    f"{name}, {LOCAL_EVENTS:,} events",
                    "PipelineDP, local",
                    lambda: released(part, folder / f"out-{next(outs)}"),
                    lambda: pipeline_dp_local(small),
                    20.0,
                )


if __name__ == "__main__":
    main(
        measure,
        events={"type": int, "help": "10,000,000; short: 1,000,000"},
        only={"nargs": "*", "choices": QUERIES, "default": list(QUERIES)},
    )
