"""A source or a sink is one file and one line: a package that is nobody's of ours adds one of each,
and they go the whole way."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL, Weir, small, weir  # noqa: F401 - fixtures
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.registry import installed
from weir.pipelines.config.job import json_schema, loads
from weir.pipelines.connectors.connector import ConnectorKinds
from weir.pipelines.sinks.sink import DEAD_LETTERS, SINKS
from weir.pipelines.sources.registry import SOURCES

SOURCE = '''
from pathlib import Path
from typing import ClassVar
import apache_beam as beam
from pydantic import Field
from weir.pipelines.sources.source import Source, schema_of

class Read(beam.PTransform):
    def __init__(self, lines, schema):
        super().__init__()
        self.lines, self.schema = lines, schema

    def expand(self, begin):
        from weir.transforms.beam.python_events import from_rows
        cells = [line.split("|") for line in self.lines]
        rows = [{"at": a, "id": b, "store": c, "amount": float(d)} for a, b, c, d in cells]
        return from_rows(begin | "Rows" >> beam.Create(rows), self.schema)

class PipeSource(Source):
    """Fields with bars between them."""
    kind: ClassVar[str] = "pipe"
    bounded: ClassVar[bool] = True
    paths: ClassVar[tuple[str, ...]] = ("pipe",)
    endings: ClassVar[tuple[str, ...]] = ("pipes",)
    pipe: str = Field(description="A file with bars.", examples=["events.txt"])
    skip: int = Field(default=0, description="Lines that are no events.", examples=[1])

    def open(self, plan, limits):
        return Read(Path(self.pipe).read_text().splitlines()[self.skip:], schema_of(plan))
'''
SINK = '''
from pathlib import Path
from typing import ClassVar
import apache_beam as beam
from pydantic import Field
from weir.pipelines.sinks.sink import Sink

class Pile(beam.DoFn):
    def __init__(self, file):
        self.file = file

    def process(self, batch):
        with Path(self.file).open("a") as out:
            for row in batch.to_pylist():
                out.write(f"{row['tick']} {row['key']} {row['name']}\\n")

class PileSink(Sink):
    """Lines on a pile."""
    kind: ClassVar[str] = "pile"
    paths: ClassVar[tuple[str, ...]] = ("pile",)
    pile: str = Field(description="A file to pile upon.", examples=["pile.txt"])

    def open(self, plan, hold=False, here=False):
        return beam.ParDo(Pile(self.pile))
'''
ENTRIES = """\
[weir.sources]
pipe = toy_pipe:PipeSource

[weir.sinks]
pile = toy_pile:PileSink
"""
CONFIG = SMALL.replace("{csv: events.csv}", "{pipe: events.txt, skip: 1}").replace(
    "{parquet: out/}", "{pile: pile.txt, every: 6}"
)


def install(folder: Path, patch: pytest.MonkeyPatch, entries: str) -> None:
    """A package, as pip would leave it."""
    told = folder / "site" / "toys-1.0.dist-info"
    told.mkdir(parents=True)
    (folder / "site" / "toy_pipe.py").write_text(SOURCE)
    (folder / "site" / "toy_pile.py").write_text(SINK)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(entries)
    patch.syspath_prepend(folder / "site")
    installed.cache_clear()
    for name in ("toy_pipe", "toy_pile"):
        patch.delitem(sys.modules, name, raising=False)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """What a test installs is gone after it."""
    yield
    installed.cache_clear()


@pytest.fixture
def toys(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """The config, with the package installed."""
    install(small.parent, monkeypatch, ENTRIES)
    small.write_text(CONFIG)
    rows = [f"2024-01-01T{hour:02}:30:00Z|e{hour}|north|7" for hour in range(24)]
    (small.parent / "events.txt").write_text("\n".join(["no event", *rows]) + "\n")
    return small


@pytest.mark.slow
def test_it_goes_the_whole_way(toys: Path, weir: Weir) -> None:  # noqa: F811
    facts = json.loads(weir("plan", toys, "--json").stdout)
    assert facts["guarantee"]["statement"].endswith("how many records were refused.")
    assert any("sink.pile publishes releases as they are made" in w for w in facts["warnings"])
    refused = weir("run", toys)
    assert refused.exit_code == 2 and "Use --runner direct" in refused.stderr
    ran = weir("run", toys, "--runner", "direct", "--json")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["operator"]["events"] == 24 and told["sink"].startswith("pile ")
    lines = (toys.parent / "pile.txt").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 24 * 2 * 2  # ticks, keys, names
    rehearsed = weir("rehearse", toys, "--events", 100, "--out", toys.parent / "made-up", "--json")
    assert rehearsed.exit_code == 0, rehearsed.output
    assert json.loads(weir("status", toys.parent / "made-up", "--json").stdout)[0]["complete"]


def test_init_knows_its_files_by_their_ending(toys: Path, weir: Weir) -> None:  # noqa: F811
    file = toys.parent / "events.pipes"
    (toys.parent / "events.txt").rename(file)
    told = weir("init", file)
    assert told.exit_code == 2 and "holds pipe, which only its source reads" in told.stderr


@pytest.mark.slow
def test_the_schema_documents_it(toys: Path) -> None:
    known = json_schema()["$defs"]
    assert known["PipeSource"]["properties"]["skip"]["description"] == "Lines that are no events."
    assert {"pile", "every"} <= set(known["PileSink"]["properties"])


@pytest.mark.parametrize(
    ("one", "field", "says"),
    [
        ("source.skip=many", "source.skip", "whole number"),
        ("source.skin=1", "source.skin", "did you mean skip?"),
        ("source.delimiter=;", "source.delimiter", "is for csv only"),
        ("source={csv: a, skip: 2}", "source.skip", "is for pipe only"),
        ("source={csv: a, pipe: b}", "source", "exactly one"),
        ("clock.end=null", "clock.end", "files end"),
    ],
)
def test_its_fields_are_held_like_ours(
    toys: Path, weir: Weir, one: str, field: str, says: str  # noqa: F811
) -> None:  # fmt: skip
    refused = weir("plan", toys, "--set", one)
    assert refused.exit_code == 2
    named = f"{field} is missing" if one.endswith("=null") else f"{field} = "
    assert named in refused.stderr and says in refused.stderr


def test_without_the_package_it_is_no_kind() -> None:
    with pytest.raises(ConfigError, match=r"source\.pipe.*is not a field"):
        loads(CONFIG)
    assert "pipe" not in SOURCES


@pytest.mark.parametrize("registry", [SOURCES, SINKS, DEAD_LETTERS], ids=lambda kinds: kinds.role)
def test_every_kind_of_ours_states_what_it_must(registry: ConnectorKinds) -> None:
    for name, cls in registry.items():
        assert (cls.role, cls.kind) == (registry.role, name)
        assert set(cls.paths) <= set(cls.model_fields) and cls.__doc__
        assert not getattr(cls, "__abstractmethods__", None)
        assert registry is not SOURCES or isinstance(cls.bounded, bool)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ("[weir.sources]\npipe = toy_pipe:Absent\n", "cannot be loaded"),
        ("[weir.sources]\npipe = toy_pipe:Read\n", "is no source of the kind pipe"),
        ("[weir.sources]\npile = toy_pile:PileSink\n", "is no source of the kind pile"),
        ("[weir.sources]\nhose = toy_pipe:PipeSource\n", "is no source of the kind hose"),
    ],
)
def test_what_is_no_source_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str, says: str
) -> None:
    install(tmp_path, monkeypatch, entries)
    with pytest.raises(WeirError, match=says):
        SOURCES[next(name for name in SOURCES if name in ("pipe", "pile", "hose"))]


def test_no_package_replaces_a_kind_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "[weir.sources]\ncsv = toy_pipe:PipeSource\n")
    assert SOURCES["csv"].__module__ == "weir.pipelines.sources.files"
    assert list(SOURCES).count("csv") == 1
