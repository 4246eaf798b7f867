"""Which entry a run goes on under, and what no entry may begin under."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.ledger.entries import LedgerEntry, RunIdentity, ScopeEntries, entries_of
from weir.pipelines.ledger.ledger import Ledger


def moment(book: ScopeEntries) -> int:
    """The wall clock's time in microseconds, or that of the last record where that is later: a
    clock that is set back does not make a tick less over."""
    last = int(datetime.fromisoformat(book.at).timestamp() * 1e6) if book.at else 0
    return max(last, time.time_ns() // 1000)


def entry_of(book: ScopeEntries, plan: Plan, run: RunIdentity) -> LedgerEntry | None:
    """The entry that a run goes on under: one under which it draws nothing new, or one under which
    nothing was drawn. None: it needs an entry of its own."""
    own = [
        entry
        for entry in reversed(list(book.entries.values()))
        if entry.counts and entry.digest == plan.digest and entry.mark == run.mark
    ]
    now = moment(book)
    on = (item for item in own if item.began and run.goes_on(item.began[-1], plan.clock, now))
    return next(on, None) or next((item for item in own if not item.began), None)


def refuse_exposing(
    books: Mapping[str, ScopeEntries], plan: Plan, run: RunIdentity, own: str | None
) -> None:
    """Refuses a secret that this plan has drawn noise with over other events, as far as that is
    known, in any scope.

    Plan and secret give bit-identical releases up to the first difference, so what is different
    would stand out with certainty: no epsilon covers that.

    Args:
      own: id of the entry that the run goes on under.

    Raises:
      ConfigError: names ``secret``, ``secret.rotate`` or ``--resume``.
    """
    for book, entry in _entries(books):
        if entry.digest != plan.digest or entry.id == own:
            continue
        for before in entry.began:
            if run.shares_secret(before) and not run.same_events(before):
                raise _exposing(book, entry, before, plan, run)


def _exposing(
    book: ScopeEntries, entry: LedgerEntry, before: RunIdentity, plan: Plan, run: RunIdentity
) -> ConfigError:
    """Says why a run would expose events, and what to do instead."""
    went = f"entry {entry.id}, which went to {', '.join(entry.places)}"
    new = "take a new secret, which is an entry of its own"
    if run.same_stream(before) and run.resumed:
        return _rotates(book, entry, before, plan)
    if run.same_stream(before):
        return _secret(
            f"was used for this very plan before ({went}), and a stream that begins again is "
            "another look at what it released. Go on where it stands (--runner flink --resume), or "
            f"{new}."
        )
    over = (
        f"over other events ({went})"
        if run.comparable(before)
        else f"and whether these are the same events cannot be known ({went})"
    )
    return _secret(
        f"was used for this very plan before, {over}. Releases of both would be the same up to the "
        "first difference, and show it with certainty. Go on with the events of that run, where it "
        f"stands, or {new}."
    )


def _rotates(
    book: ScopeEntries, entry: LedgerEntry, before: RunIdentity, plan: Plan
) -> ConfigError:
    back = f"Put back the secrets that entry {entry.id} began with"
    if before.live:
        ahead = plan.clock.tick_start(int(before.drawn(plan.clock, moment(book))) + 1)
        back += f", or rotate from {durations.show_timestamp(ahead)} or later"
    return ConfigError(
        "secret.rotate",
        "(not shown)",
        "changes the secret of a tick that may be released already, which would be a additional "
        f"release at its events. {back}.",
    )


def _secret(remedy: str) -> ConfigError:
    return ConfigError("secret", "(not shown)", remedy)


def refuse_elsewhere(books: Mapping[str, ScopeEntries], scope: str, run: RunIdentity) -> None:
    """Refuses events that were read under another scope: the people in them have its budget.

    Raises:
      ConfigError: names the other scope, and how to say that other people are in the events.
    """
    here = books.get(scope)
    for book, entry in _entries(books):
        shared = here is not None and (book.name in here.shares or scope in book.shares)
        if book.name == scope or shared:
            continue
        if run.events is not None and any(
            (item.key, item.events) == (run.key, run.events) for item in entry.began
        ):
            raise ConfigError(
                "ledger.scope",
                scope,
                f"has a budget of its own, and these events were read under the scope "
                f"{book.name!r} (entry {entry.id}, {entry.name}). Write scope: {book.name}; if "
                f"other people are in them too, weir ledger open CONFIG --shares {book.name!r} "
                "says so.",
            )


def refuse_shorter(
    book: ScopeEntries, noted: Mapping[str, Any] | None, where: str, name: str
) -> None:
    """Refuses a ledger that lacks what an earlier run has entered in it.

    Args:
      noted: of its entry, by that run. where: it noted it. name: of the ledger.

    Raises:
      ConfigError: its end was cut off, or it is another one.
    """
    if noted is None or noted.get("scope") != book.name or "head" not in noted:
        return
    number = int(noted["record"])
    if number >= book.records or book.hashes[number] != noted["head"]:
        raise ConfigError(
            "ledger",
            name,
            f"is not the one, or not all of the one, in which the run in {where} was entered: "
            f"record {number:,} of the scope {book.name!r} differs. Bring it back from a copy; a "
            "new one would not know what was spent.",
        )


def refuse_uncounted(
    ledger: Ledger, plan: Plan, where: str, noted: Mapping[str, Any] | None
) -> None:
    """Refuses to publish what a ledger does not count. Writes nothing.

    Args:
      where: place of what is held back. noted: of its entry, by the run.

    Raises:
      ConfigError: names ``--publish``.
    """
    store = ledger.store(create=False)
    try:
        book = entries_of(store, ledger.scope)
    finally:
        if store is not None:
            store.close()
    refuse_shorter(book, noted, where, ledger.shown)
    notes = noted or {}
    named = notes.get("entry") if notes.get("scope") == book.name else None
    counted = (
        entry.id == named or where in entry.places
        for entry in book.entries.values()
        if entry.counts and entry.began and entry.digest == plan.digest
    )
    if any(counted):
        return
    raise ConfigError(
        "--publish",
        where,
        f"is refused: the scope {book.name!r} of the ledger {ledger.shown} counts no run of this "
        "plan that wrote there, so publishing it would be free. Run it again without --publish, "
        "into a new folder, which enters it.",
    )


def _entries(books: Mapping[str, ScopeEntries]) -> Iterator[tuple[ScopeEntries, LedgerEntry]]:
    for book in books.values():
        for entry in book.entries.values():
            yield book, entry
