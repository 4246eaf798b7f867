"""``weir ledger``: what is spent of a budget, and what is done to it by hand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json

if TYPE_CHECKING:
    from weir.pipelines.ledger.store import LedgerStore

PLACE = click.argument("place")
SCOPE = click.option(
    "--scope", help="Whose budget; without it that of the config, or the only one."
)


@click.group("ledger", short_help="Show and keep what plans have cost people.")
def ledger() -> None:
    """Show what is spent of a budget, and do by hand what no run does.

    PLACE is a config with a section `ledger`, a file of SQLite, or the address of a PostgreSQL
    database. Every reading verifies the chain of records.

    \b
      weir ledger show shop.yaml
      weir ledger open staff.yaml
      weir ledger add ledger.db --scope customers --epsilon 0.5 --delta 1e-7 --note "survey of 2024"
      weir ledger close shop.yaml --entry 3f2a --reason "cluster was given up"
      weir ledger export ledger.db --format csv > entries.csv
    """


@ledger.command("open", short_help="Open a scope for people who have none yet.")
@CONFIG
@SETS
@click.option(
    "--shares",
    multiple=True,
    metavar="SCOPE",
    help="A scope whose events hold people of this one too: the same events may be read under "
    "both. May be repeated.",
)
@AS_JSON
def open_(config: Path, sets: tuple[str, ...], shares: tuple[str, ...], as_json: bool) -> None:
    """Open the scope that the section `ledger` of CONFIG names, with its budget.

    The first run of a ledger opens the scope that it names. Every further one is opened here, so
    that a name that is misspelt does not get a budget of its own. Reads no data and spends nothing.

    \b
      weir ledger open staff.yaml
      weir ledger open staff.yaml --shares customers
    """
    from weir.pipelines.config.job import load
    from weir.pipelines.graph.checks import plan_of
    from weir.pipelines.ledger import adjustments as hand

    job = load(config, sets)
    if job.ledger is None:
        raise ConfigError("ledger", None, f"is no section of {config}. Add it, with the scope.")
    _say(hand.open_scope(job.ledger, plan_of(job), shares), as_json)


@ledger.command(short_help="Show what is spent, period by period, and by whom.")
@PLACE
@SETS
@SCOPE
@AS_JSON
def show(place: str, sets: tuple[str, ...], scope: str | None, as_json: bool) -> None:
    """Show what is spent of the budgets in PLACE, in which periods, and by which plans.

    Verifies every record against the one before it, and says so. Writes nothing.
    """
    from weir.pipelines.show import ledger as page
    from weir.pipelines.terminal import console

    with _opened(place, sets, scope) as result:
        reported = [page.scope_facts(result.store, name) for name in result.scopes()]
    if as_json:
        print_json({"ledger": result.name, "whole": True, "scopes": reported})
    else:
        page.render(result.name, reported, console())


@ledger.command(short_help="Enter what another system spent, or change a budget.")
@PLACE
@SETS
@SCOPE
@click.option("--epsilon", type=float, help="Its guarantee to one unit of the scope.")
@click.option("--delta", type=float, default=0.0, show_default=True)
@click.option(
    "--kind",
    type=click.Choice(["pure", "gdp", "zcdp"]),
    default="pure",
    show_default=True,
    help="What the guarantee came from: pure serves any (epsilon, delta); gdp if it was Gaussian "
    "noise by its exact curve, zcdp if it was zCDP: then it adds up to less.",
)
@click.option(
    "--drawn-after",
    is_flag=True,
    help="With --from or --to and --kind gdp or zcdp: its noise was drawn after the data that it "
    "hides, or its periods were fixed before anything was released. Without it the charge is "
    "booked as pure (epsilon, delta).",
)
@click.option("--from", "first", metavar="TIME", help="First event time that it covers.")
@click.option("--to", "last", metavar="TIME", help="End of the event times that it covers.")
@click.option("--note", help="Whose and what it was.")
@click.option(
    "--budget",
    nargs=2,
    type=float,
    metavar="EPSILON DELTA",
    help="Enter nothing, and give the scope another budget.",
)
@AS_JSON
def add(
    place: str,
    sets: tuple[str, ...],
    scope: str | None,
    epsilon: float | None,
    delta: float,
    kind: Any,
    drawn_after: bool,
    first: str | None,
    last: str | None,
    note: str | None,
    budget: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Enter what another system spent on the people of a scope.

    It is spent already, so nothing is refused; what is left shrinks. The guarantee must be to one
    unit of the scope (weir ledger show tells which). The deltas of all charges that are entered by
    hand add up over the whole scope, whatever times they cover.

    \b
      weir ledger add shop.yaml --epsilon 1 --delta 1e-6 --kind gdp --note "dashboard of 2023" \\
        --from 2023-01-01T00:00:00Z --to 2024-01-01T00:00:00Z
      weir ledger add shop.yaml --budget 6 1e-6
    """
    from weir.pipelines.ledger import adjustments as hand

    if budget is None:
        if epsilon is None:
            raise ConfigError("--epsilon", None, "is missing: what did the other system guarantee?")
        if not note or not note.strip():
            raise ConfigError("--note", note, "is missing: say whose and what it was.")
        _check(epsilon, delta, "--epsilon", "--delta")
    else:
        _check(*budget, "--budget", "--budget")
        if epsilon is not None:
            raise ConfigError(
                "--epsilon", epsilon, "goes without --budget: do one after the other."
            )
    with _opened(place, sets, scope, write=True) as results:
        name = results.only()
        if budget is not None:
            result = hand.rebudget(results.store, name, *budget)
        else:
            spent = hand.ExternalCharge(
                epsilon or 0.0, delta, kind, first, last, note or "", drawn_after
            )
            result = hand.add(results.store, name, spent)
            if spent.booked != kind:
                click.echo(
                    f"weir: note: booked as pure (epsilon, delta): --kind {kind} over a part of "
                    "the stream needs --drawn-after.",
                    err=True,
                )
    _say(result, as_json)


@ledger.command(short_help="Say that the job of an entry is over.")
@PLACE
@SETS
@SCOPE
@click.option("--entry", required=True, help="The beginning of its id (weir ledger show).")
@click.option("--reason", required=True, help="Why, in words; it is kept.")
@click.option(
    "--release",
    is_flag=True,
    help="Give it back, where no run began under it.",
)
@AS_JSON
def close(
    place: str,
    sets: tuple[str, ...],
    scope: str | None,
    entry: str,
    reason: str,
    release: bool,
    as_json: bool,
) -> None:
    """Say that the job of an entry is over: nothing more will be released under it.

    It stays spent. --release gives it back if no run began under it: one that was stopped before
    its job was submitted. What began may have been seen, whatever its folders hold now.
    """
    from weir.pipelines.ledger import adjustments as hand

    if not reason.strip():
        raise ConfigError("--reason", reason, "is missing: say why in words.")
    with _opened(place, sets, scope, write=True) as results:
        result = hand.close(results.store, results.only(), entry, reason, release)
    _say(result, as_json)


@ledger.command(short_help="Print every entry, for other programs.")
@PLACE
@SETS
@SCOPE
@click.option(
    "--format", "form", type=click.Choice(["ndjson", "csv"]), default="ndjson", show_default=True
)
@AS_JSON
def export(place: str, sets: tuple[str, ...], scope: str | None, form: str, as_json: bool) -> None:
    """Print every entry: a JSON object a line, CSV, or with --json one list.

    In CSV, lists are JSON texts.
    """
    from weir.pipelines.ledger import adjustments as hand

    with _opened(place, sets, scope) as result:
        rows = [row for name in result.scopes() for row in hand.exported(result.store, name)]
    if as_json:
        print_json(rows)
    elif form == "csv":
        click.echo(_csv(rows), nl=False)
    else:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))


def _csv(rows: list[dict[str, Any]]) -> str:
    import pyarrow as pa

    from weir.transforms.sinks.formats import guarded

    out = io.StringIO()
    if rows:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow(guarded(pa.array([_cell(value) for value in row.values()])).to_pylist())
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check(epsilon: float, delta: float, *names: str) -> None:
    from math import isfinite

    if not (isfinite(epsilon) and epsilon > 0):
        raise ConfigError(names[0], epsilon, "must be a finite number above 0.")
    if not 0 <= delta <= 0.5:
        raise ConfigError(names[1], delta, "must be from 0 to 0.5.")


def _say(result: Any, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
    else:
        click.echo(f"{result.scope}: {result.words}.")


def _opened(place: str, sets: tuple[str, ...], scope: str | None, write: bool = False) -> Any:
    """The ledger at a place. write: whether it is written to; it must be there either way."""
    from weir.pipelines.config.job import load
    from weir.pipelines.ledger.adjustments import is_sqlite
    from weir.pipelines.show.ledger import Opened

    opens: Callable[[bool], LedgerStore | None]
    if place.startswith(("postgres://", "postgresql://")):
        from weir.pipelines.ledger.postgresql import open_database, without_password

        opens, name = partial(open_database, place), without_password(place)
    elif is_sqlite(Path(place)):
        from weir.pipelines.ledger.sqlite import open_file

        opens, name = partial(open_file, Path(place)), place
    else:
        section = load(place, sets).ledger
        if section is None:
            raise ConfigError("ledger", None, f"is no section of {place}: nothing to look at.")
        opens, name, scope = section.store, section.shown, scope or section.scope
    store = opens(False)
    if store is None:
        raise ConfigError("ledger", name, "is not there yet: the first run with a ledger makes it.")
    if write:
        store.close()
        store = opens(True)
        assert store is not None
    return Opened(store, name, scope)
