"""A first look at files, in the process that starts a job, before anything runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.first_look import Evidence, FirstLook
from weir.transforms.decode.first_look_words import Place, doubtful_predicate, refusal
from weir.transforms.decode.schema import EventSchema
from weir.transforms.sources import matching
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.first_text import signs_of
from weir.transforms.sources.stored_bytes import ALL, Split

CHUNK_BYTES = 1 << 18
FAR = 1_000_000
"""Records of the first file that are looked at while there is a doubt: what comes may be sorted."""
NEAR = 10_000
"""Records of every other place."""
PLACES = 8
"""Other files, or places in a single one, that are looked into while there is a doubt."""

_log = logging.getLogger(__name__)


def look_at_files(source: FileSource, matched: Sequence[matching.File], look: FirstLook) -> None:
    """Reads the first records, and more of them only as long as none fits the config.

    Raises:
      ConfigError: what none of the records looked at has, and what to write instead.
    """
    full = [file for file in matched if file.size]
    if not full:
        return
    source = replace(source, chunk_bytes=CHUNK_BYTES)
    seen = _seen(source, full, look)
    doubts = look.doubts(seen)
    signs = None
    if source.form in ("csv", "ndjson"):
        signs = signs_of(full[0].path, source.form == "csv", source.text)
    if signs is not None:
        error = signs.error(seen)
        if error is not None:
            raise error
    if doubts:

        def again(schema: EventSchema) -> Iterator[Decoded]:
            for file in full[:PLACES]:
                yield from source.decode(_whole(file), schema)

        seen += look.tried(doubts, again)
        hints = [] if signs is None else [signs.returns, signs.shape]
        raise refusal(look, seen, doubts, _place(source, full), list(filter(None, hints)))
    notes = [
        doubtful_predicate(look, seen, _place(source, full)),
        None if signs is None else signs.note(seen),
    ]
    for note in filter(None, notes):
        _log.warning(note)


def _seen(source: FileSource, full: Sequence[matching.File], look: FirstLook) -> Evidence:
    """What records show, until there is no doubt."""
    seen = Evidence()
    for split, most in _places(source, full):
        more = Evidence()
        for decoded in source.decode(split, look.schema):
            more += look.evidence(decoded)
            both = seen + more
            if both["records"] and not look.doubts(both):
                return both
            if more["records"] >= most:
                break
        seen += more
        if len(full) == 1 and more["records"] < most:
            break  # the whole of it was read
    return seen


def _place(source: FileSource, full: Sequence[matching.File]) -> Place:
    name = full[0].path if len(full) == 1 else source.path
    return Place(
        source.field,
        source.path,
        f"records looked at in {name}",
        "check its format, its delimiter and its encoding",
    )


def _whole(file: matching.File) -> Split:
    return Split(file.path, 0, ALL, 1, file.size)


def _places(source: FileSource, full: Sequence[matching.File]) -> Iterator[tuple[Split, int]]:
    """Where to look, and at how many records: the first file, then others from the last on."""
    yield _whole(full[0]), FAR
    others = full[:0:-1]
    if others:
        step = max(1, len(others) // PLACES)
        yield from ((_whole(file), NEAR) for file in others[::step][:PLACES])
        return
    yield from ((part, NEAR) for part in source.parts(full[0], PLACES))
