"""What lies in folders and files next to a run: receipts, plans, releases, and the ledger.

An input stands in the place of one file. Readers give a value, or an error that says what to do.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.fuzz.configs import BASE
from tests.fuzz.target import Target, require
from tests.transforms.releases import batch
from weir.dpcore.accounting.scope import Scope
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.ledger import entries
from weir.pipelines.ledger.charge_request import price_of
from weir.pipelines.ledger.sqlite import open_file
from weir.pipelines.ledger.store import Row, Transaction, next_row
from weir.pipelines.results import plan_file, secret_marks
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.show import status
from weir.pipelines.verify import stored_job
from weir.pipelines.verify.folder import check_folder
from weir.pipelines.verify.rows import keys_and_ticks, table_of
from weir.transforms.sinks import formats, place, receipts
from weir.transforms.sinks.receipts import Damaged
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.writer import differences

FORMS = ("parquet", "csv", "ndjson")
NESTED = b"[" * 100_000


@cache
def _plan() -> Plan:
    return Plan.from_yaml(BASE)


def new_folder(form: str, plan: Plan | None = None) -> Path:
    """A folder of releases with a plan, which need not be theirs, and a receipt."""
    folder = Path(tempfile.mkdtemp()) / "out"
    place.prepare(str(folder), plan_file.plan_json(plan or _plan()), "sink")
    name = place.file_name(0, 3, form)
    (folder / name).write_bytes(_releases(form))
    (folder / place.MARKS_FILE).write_text('{"0": "ab"}')
    receipts.write_folder(str(folder), [name], None)
    place.finish(str(folder))
    return folder


_folder = cache(new_folder)


@cache
def _releases(form: str) -> bytes:
    return formats.encode(sorted_table([batch(0, 4, [b"a", b'b,"\n'])]).table, form, None)


def answers(*readers: Callable[[], Any]) -> None:
    """Each reader gives a value, or an error in words."""
    for read in readers:
        try:
            read()
        except ConfigError as error:
            require(bool(error.field) and len(error.remedy) > 10, "an error has remedy", error)


def changed_folder(form: str, name: str, data: bytes) -> Path:
    """The folder, with one file written again."""
    folder, before = _folder(form), _changed.get(form)
    if before is not None and before != name:
        (folder / before).write_bytes(_kept(before, form))
    (folder / name).write_bytes(data)
    _changed[form] = name
    return folder


_changed: dict[str, str] = {}
"""Form -> the file of its folder that was written again last."""


@cache
def _kept(name: str, form: str = "csv") -> bytes:
    """A file of the folder as it was before any change."""
    return (new_folder(form) / name).read_bytes()


def _receipt(data: bytes) -> None:
    try:
        receipt = receipts.parse(data)
        written = receipts.canonical({"receipt": receipt.body, "signature": receipt.signature})
        require(written + b"\n" == data, "a receipt has one spelling")
        require(not receipt.is_authentic or receipt.public_key is not None, "who signed is named")
    except Damaged as error:
        require(len(str(error)) > 10, "damage is named", error)
    check_folder(str(changed_folder("csv", receipts.RECEIPT_FILE, data)), "ab" * 32)


def _receipts() -> list[bytes]:
    whole = _kept(receipts.RECEIPT_FILE)
    stored = json.loads(whole)
    odd: list[Any] = [[], {}, {"receipt": {}, "signature": None}]
    for name in stored["receipt"]:
        for value in (None, [], {"a": 1}, "x", 7):
            odd.append({**stored, "receipt": {**stored["receipt"], name: value}})
    odd.append({**stored, "signature": "ab" * 64})
    odd.append({"receipt": {**stored["receipt"], "public_key": "zz"}, "signature": "zz"})
    return [whole, b"", NESTED, whole[:-9], *(receipts.canonical(one) + b"\n" for one in odd)]


def _plan_of(data: bytes) -> None:
    folder = changed_folder("csv", place.PLAN_FILE, data)
    text, plan = str(folder), _plan()

    def opened() -> Any:
        run = ResultFolder.open(folder)
        shown = (run.name, run.key_columns, run.groupings, run.once, run.ruler, run.band)
        return shown, run.ticks_planned, run.outputs, run.sizes, run.interval_columns, run.last_end

    def stored() -> Any:
        content = stored_job._stored(text)
        return stored_job._rebuilt(content, "events.csv")

    answers(
        partial(place.parts_in, text),
        partial(place.entered_as, text),
        partial(place.check, text, plan.layout, "sink"),
        partial(plan_file.version_in, text),
        partial(plan_file.refuse_other_results, text, plan, "sink"),
        partial(plan_file.refuse_other_layout, text, "packed"),
        partial(entries.plan_in, text),
        partial(status.of_folder, folder),
        partial(check_folder, text, None),
        opened,
        stored,
    )


def _plans() -> list[bytes]:
    whole = json.loads(_kept(place.PLAN_FILE))
    odd: list[Any] = [[], 7, "x", None, {}, {"layout": whole["layout"]}]
    for name in whole:
        odd += [{**whole, name: value} for value in (None, [], {"a": 1}, "x", -1)]
        odd.append({key: value for key, value in whole.items() if key != name})
    small = [json.dumps(one).encode() for one in odd]
    return [json.dumps(whole).encode(), b"", b"\xff", NESTED, *small]


def _marks(data: bytes) -> None:
    folder = str(changed_folder("csv", place.MARKS_FILE, data))

    def read() -> Any:
        marks = secret_marks.read(folder, "sink")
        return marks and secret_marks.differ(marks, {"0": "ab"}, 4)

    path = _streamed()
    (path / place.MARKS_FILE).write_bytes(data)
    answers(read, partial(check_folder, folder, None), partial(check_folder, str(path), None))


@cache
def _streamed() -> Path:
    """A folder whose files have a receipt each, as a stream leaves it."""
    folder = new_folder("csv")
    (folder / receipts.RECEIPT_FILE).unlink()
    (folder / place.COMPLETE_FILE).unlink()
    name = place.file_name(0, 3, "csv")
    receipts.write_file(str(folder), name, receipts.digest_of(str(folder / name)), None)
    return folder


def _results(form: str, data: bytes) -> None:
    folder = changed_folder(form, place.file_name(0, 3, form), data)

    def everything(columns: list[str] | None) -> Any:
        run = ResultFolder.open(folder)
        return run.last_tick, run.first_tick, run.is_empty, run.table(columns).num_rows

    answers(
        partial(everything, None),
        partial(everything, ["tick", "name", "over", "value"]),
        partial(status.of_folder, folder),
        partial(check_folder, str(folder), None),
        partial(differences, data, _releases(form), form, True),
        partial(differences, data, _releases(form), form, True, frozenset({"sum", "hist"})),
        partial(table_of, data, form, None),
        partial(keys_and_ticks, data, form),
    )


def _result_seeds(form: str) -> list[bytes]:
    whole = _releases(form)
    pieces = [whole, b"", whole[: len(whole) // 2], whole[9:], b"\xff" + whole]
    if form != "parquet":
        lines = whole.splitlines(keepends=True)
        pieces += [lines[0], b"".join(lines[:3]), b"\n" + whole, whole.replace(b"value", b"other")]
        pieces += [whole.replace(b"[", b""), whole.replace(b"]", b"]]"), NESTED + whole]
    return pieces


# The ledger.


@cache
def _ledger() -> tuple[bytes, dict[str, list[Row]]]:
    """A ledger with two scopes, as its file and as its records."""
    path = Path(tempfile.mkdtemp()) / "ledger.db"
    store = open_file(path, True)
    assert store is not None
    for scope in ("people", "others"):
        store.change(scope, lambda _: Transaction(_bodies(), None))
    chains = store.chains()
    store.close()
    return path.read_bytes(), chains


def _bodies() -> list[dict[str, Any]]:
    """Records as charges write them: a scope, an entry, its moves."""
    scope = Scope("event", "replace_one", 4.0, 1e-5, "gdp")
    price = price_of(_plan(), scope)
    entry = {"entry": "e1", "name": "a", "digest": "d", "mark": "m", "note": "", "at": "2024"}
    where = {"place": {"place": "/out", "folder": True}}
    return [
        {"kind": "scope", "scope": scope.to_json(), "at": "2024"},
        {"kind": "entry", **entry, "price": price.to_json()},
        {"kind": "state", "entry": "e1", "state": "running", "at": "2024", **where},
        {"kind": "state", "entry": "e1", "state": "closed", "at": "2024", "place": "/out"},
    ]


def _ledger_file(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(data)

        def read() -> None:
            store = open_file(path, False)
            assert store is not None
            try:
                for scope, rows in store.chains().items():
                    entries.ScopeEntries.read(scope, rows, "ledger")
                    known = _ledger()[1].get(scope, [])
                    require(rows == known[: len(rows)], "no other record is taken for one", scope)
            finally:
                store.close()

        answers(read)


def _ledger_files() -> list[bytes]:
    whole = _ledger()[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.db"
        path.write_bytes(whole)
        base = sqlite3.connect(path)
        for what in ("UPDATE", "DELETE"):
            base.execute(f"DROP TRIGGER no_{what}")
        base.execute("UPDATE record SET body = x'ff00' WHERE number = 1")
        base.execute("UPDATE record SET number = 'x' WHERE number = 2 AND scope = 'others'")
        base.commit()
        base.execute("VACUUM")
        base.close()
        odd = path.read_bytes()
    return [whole, odd, b"", whole[:4096], whole[:100], b"SQLite format 3\0"]


def _records(data: bytes) -> None:
    """Lines that are bodies of records, in a chain that fits."""
    rows: list[Row] = []
    for line in data.split(b"\n"):
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        rows.append(next_row("people", rows, body))

    def read() -> Any:
        scope = entries.ScopeEntries.read("people", rows, "ledger")
        return scope.charges, scope.spans, scope.head

    answers(read)


def _record_seeds() -> list[bytes]:
    bodies = _bodies()
    texts = [json.dumps(body).encode() for body in bodies]
    odd = [b"\n".join(texts), texts[0], b"\n".join(texts[1:]), b"null", b"7", b"{}", b'{"kind":1}']
    for at, body in enumerate(bodies):
        for name in body:
            less = {key: value for key, value in body.items() if key != name}
            for other in (less, {**body, name: None}, {**body, name: [1]}):
                odd.append(b"\n".join([*texts[:at], json.dumps(other).encode(), *texts[at + 1 :]]))
    words = (b"pure", b"gdp", b"event", b"add_remove", b"replace_one")
    odd += [odd[0].replace(b'"%s' % word, b'"(%s' % word) for word in words]
    return odd


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target."""
    return {
        "folder.receipt": lambda: Target(_receipt, _receipts),
        "folder.plan": lambda: Target(_plan_of, _plans),
        "folder.marks": lambda: Target(
            _marks,
            lambda: [
                b'{"0": "ab"}',
                b'{"0": 7, "x": 1}',
                b"[]",
                b"null",
                b"",
                NESTED,
                b'{"0": "ab", "3": "cd"}',
                '{"0": "a", "\u0663": 1}'.encode(),
            ],
        ),
        **{
            f"results.{form}": lambda form=form: Target(  # type: ignore[misc]
                partial(_results, form), partial(_result_seeds, form)
            )
            for form in FORMS
        },
        "ledger.file": lambda: Target(_ledger_file, _ledger_files),
        "ledger.records": lambda: Target(_records, _record_seeds),
    }
