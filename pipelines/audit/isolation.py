"""Whether a record moves releases of other keys: runs with malformed records and without."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weir.dpcore.errors import ConfigError
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.malformed import (
    MalformedForm,
    MalformedValue,
    container_forms,
    malform,
    malformed_messages,
    messages,
    payload_of,
    text_forms,
    typed_forms,
)
from weir.pipelines.audit.streams import EventMaker, StreamRows
from weir.pipelines.audit.trial import differing, outside, run_trials
from weir.pipelines.feed import targets
from weir.pipelines.runners.local import HERE, LOCAL
from weir.pipelines.sources.files import Files
from weir.pipelines.sources.source import Limits
from weir.transforms.decode.encoding import TextForm
from weir.transforms.formats.registry import FORMATS
from weir.transforms.runtime.secret import SecretRef


@dataclass(frozen=True)
class RecordFeed:
    """Of one audit.

    Attributes:
      form: of files or messages. text: how lines are written. plain: whether records are lines,
        each of which can be malformed by itself. sent: whether they are messages.
    """

    form: str
    text: TextForm
    plain: bool
    sent: bool

    @classmethod
    def of(cls, audited: Audited, runner: str) -> RecordFeed:
        """Messages on Flink, else files."""
        if runner == "flink":
            payload, _ = payload_of(audited.job)
            return cls(payload, TextForm(), FORMATS[payload].is_text, True)
        source = audited.at(Path("."), 1).source
        assert isinstance(source, Files)
        text = source.text_form()
        utf_8 = text.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        return cls(source.form, text, FORMATS[source.form].is_text and utf_8, False)

    def forms(self, maker: EventMaker) -> list[MalformedForm | MalformedValue]:
        """Every way in which a record may be malformed."""
        audited, none = maker.audited, np.zeros(1, dtype=np.int64)
        small = maker.batch(StreamRows(none, none, none, none, none))
        job = audited.job.schema_
        ids = [job.id] if job.id is not None and audited.plan.person is not None else []
        if not self.plain:
            result: list[MalformedForm | MalformedValue] = list(typed_forms(small.schema, ids))
            return [*result, *container_forms()] if self.sent else result
        names = list(self.text.columns or small.schema.names)
        numbers = [name for name in maker.offered.columns if name in names]
        stamps = [item.column for item in (job.time, job.arrival) if item is not None]
        # A key that nobody declared is a key of its own where keys are found.
        keyed = audited.key_columns if audited.declares else ()
        form = "ndjson" if self.sent else self.form
        return list(text_forms(form, names, numbers, stamps, keyed, ids, self.text))

    def written(
        self,
        maker: EventMaker,
        rows: StreamRows,
        place: Path,
        places: Sequence[int],
        forms: Sequence[Any],
        with_them: bool,
    ) -> list[bytes]:
        """Writes a file into a folder, or returns messages.

        Args:
          places: rows that belong to ``forms``, one each. with_them: else they are left out.
        """
        if not self.sent:
            path = place / f"events.{self.form}"
            writes = _text if self.plain else _typed
            writes(maker, rows, path, places, forms, with_them)
            return []
        if with_them:
            return malformed_messages(maker.batch(rows), self.form, places, forms)
        retained = rows.taken(np.setdiff1d(np.arange(len(rows.key)), places))
        return list(messages(maker, retained, self.form))


def _text(
    maker: EventMaker,
    rows: StreamRows,
    path: Path,
    places: Sequence[int],
    forms: Sequence[MalformedForm],
    with_them: bool,
) -> None:
    maker.write(rows, path.parent, path.stem)
    lines = path.read_bytes().split(b"\n")
    head = len(lines) - 1 - len(rows.key)
    for place, form in zip(places, forms, strict=True):
        lines[head + place] = form.spoil(lines[head + place])
    if not with_them:
        gone = {head + place for place in places}
        lines = [line for at, line in enumerate(lines) if at not in gone]
    path.write_bytes(b"\n".join(lines))


def _typed(
    maker: EventMaker,
    rows: StreamRows,
    path: Path,
    places: Sequence[int],
    forms: Sequence[Any],
    with_them: bool,
) -> None:
    batch = maker.batch(rows)
    if with_them:
        pairs = [
            pair for pair in zip(places, forms, strict=True) if isinstance(pair[1], MalformedValue)
        ]
        batch = malform(batch, [place for place, _ in pairs], [form for _, form in pairs])
    else:
        batch = batch.take(np.setdiff1d(np.arange(batch.num_rows), places))
    target = targets.open_target(str(path), path.suffix.removeprefix("."))
    target.write(batch, [False] * batch.num_rows)
    target.close()


BETWEEN = 3
"""Good records between two bad ones."""
GOOD = 12
"""Records among the bad ones that are as good as any."""


@dataclass(frozen=True)
class Isolation:
    """What two runs differ in.

    Attributes:
      forms: ways in which records were malformed. bystanders: keys that none of them belongs to.
      moved: of those, keys whose releases differ. wide: forms whose own key moved further than its
        clip and its noise allow. noise: what is wrong with whose noise is whose, in words.
      side: what else differs. seconds: of the run with them and of the one without: measured, not
        guaranteed.
    """

    forms: tuple[str, ...]
    bystanders: int
    moved: int
    wide: tuple[str, ...]
    noise: tuple[str, ...]
    side: tuple[str, ...]
    seconds: tuple[float, float]

    @property
    def broken(self) -> tuple[str, ...]:
        """What must not be, in words."""
        results = []
        if self.moved:
            results.append(
                f"bytes: malformed records moved {self.moved} of {self.bystanders} keys that they "
                "do not belong to"
            )
        results += [f"bytes: a record moved its key beyond its clip ({form})" for form in self.wide]
        results += [f"bytes: {item}" for item in self.noise]
        return (*results, *(f"side channel: {item}" for item in self.side))

    def to_json(self) -> dict[str, Any]:
        """As ``weir audit --json`` prints it."""
        return {
            "forms": len(self.forms),
            "bystanders": self.bystanders,
            "moved": self.moved,
            "wide": list(self.wide),
            "noise": list(self.noise),
            "side_channels": list(self.side),
            "seconds_with": round(self.seconds[0], 3),
            "seconds_without": round(self.seconds[1], 3),
        }


def isolation(choice: Choice, runner: str = LOCAL) -> Isolation:
    """Runs a job with malformed records and without them.

    Raises:
      WeirError: a run failed: that a record can stop a run is told so too.
    """
    audited = _lenient(choice.audited)
    maker = replace(choice.maker, audited=audited)
    way = RecordFeed.of(audited, runner)
    forms: list[Any] = [MalformedForm("as it is", bytes)] * GOOD + way.forms(maker)
    # Key i < forms belongs to form i; the others are good, and lie between them.
    bad = len(forms)
    order: list[int] = []
    for at in range(bad):
        order += [at, *(bad + at * BETWEEN + i for i in range(BETWEEN))]
    keys, secret = bad * (BETWEEN + 1), SecretRef.fresh()
    rows = _rows(order, audited.ticks)
    places = [at for at, key in enumerate(order) if key < bad]
    done = []
    for with_them in (True, False, False):
        with tempfile.TemporaryDirectory(prefix="weir-audit-") as place:
            more = way.written(maker, rows, Path(place), places, forms, with_them)
            run = run_trials(maker, [], keys, Path(place), runner, secret, more)
            done.append((run, outside(run, runner in HERE)))
    refused = _refuses_another_secret(maker, rows, keys) if runner in HERE else True
    return _compared(choice, forms, done, bad, refused)


def _rows(keys: Sequence[int], ticks: int) -> StreamRows:
    count = len(keys)
    serial = np.arange(count)
    tick = np.where(np.asarray(keys) < GOOD, 0, serial % min(ticks, 3))
    return StreamRows(np.asarray(keys), tick, np.zeros(count, dtype=np.int64), serial,
                serial)  # fmt: skip


def _lenient(audited: Audited) -> Audited:
    """The job that refuses no file for what is in it: the audit puts it there."""
    limits = audited.job.limits.model_copy(update={"refused": 1.0, "first_look": False})
    assert isinstance(limits, Limits)
    return replace(audited, job=audited.job.model_copy(update={"limits": limits}))


def _refuses_another_secret(maker: EventMaker, rows: StreamRows, keys: int) -> bool:
    """Whether a folder that a run began is refused to one under another secret."""
    ticks, job = maker.audited.ticks, maker.audited.job
    if ticks < 2 or job.sink is None or job.sink.place is None:
        return True
    halves = job.model_copy(update={"sink": job.sink.model_copy(update={"every": -(-ticks // 2)})})
    maker = replace(maker, audited=replace(maker.audited, job=halves))
    with tempfile.TemporaryDirectory(prefix="weir-audit-") as place:
        secrets = []
        for name in ("one.key", "other.key"):
            file = Path(place) / name
            file.write_text(SecretRef.fresh().resolve().hex())
            file.chmod(0o600)
            secrets.append(SecretRef(file=str(file)))
        done = run_trials(maker, [rows], keys, Path(place), secret=secrets[0])
        written = sorted(done.folder.glob("ticks-*"))
        for path in (done.folder / "_COMPLETE", *written[len(written) // 2 :]):
            path.unlink(missing_ok=True)
        try:
            run_trials(maker, [rows], keys, Path(place), secret=secrets[1])
        except ConfigError:
            return True
    return False


def _compared(
    choice: Choice, forms: Sequence[Any], done: Sequence[Any], bad: int, refused: bool
) -> Isolation:
    (item, with_), (other, without), (again, _) = done
    with_them, none = item.transcripts, other.transcripts
    same = np.array_equal(with_them[bad:], none[bad:], equal_nan=True)
    moved = 0
    if not same:
        mine, theirs = with_them[bad:], none[bad:]
        apart = (mine != theirs) & ~(np.isnan(mine) & np.isnan(theirs))
        moved = int(apart.reshape(len(apart), -1).any(axis=1).sum())
    declared = not choice.plan.keys.observed
    side = differing(with_, without) if declared else []
    noise = []
    if not np.array_equal(again.transcripts, none, equal_nan=True):
        noise.append("a second run over the same records, under the same secret, differs")
    if not refused:
        noise.append("a run that another secret began went on")
    if _alike(choice, none[bad:]):
        noise.append("keys share noise: many of them have the same releases")
    if _shared(choice, with_them[:GOOD] - none[:GOOD]):
        noise.append("two versions of a key share noise, and subtract to their difference")
    return Isolation(
        tuple(dict.fromkeys(form.name for form in forms)),
        len(none) - bad,
        moved,
        _wide(choice, forms, with_them, none, bad),
        tuple(noise),
        tuple(side),
        (item.result.seconds, other.result.seconds),
    )


def _alike(choice: Choice, found: Any) -> bool:
    """Whether a tenth of the keys (K, T, m) have, bit for bit, the releases of another one."""
    if choice.law is None or choice.audited.ticks < 2:
        return False
    noisy = [out.stddev_worst > 0 for out in choice.plan.outputs for _ in range(out.dimension)]
    flat = np.ascontiguousarray(found[:, :, noisy]).reshape(len(found), -1)
    if not flat.shape[1] or not np.isfinite(flat).all():
        return False
    return len(np.unique(flat, axis=0)) < 0.9 * len(flat)


def _shared(choice: Choice, apart: Any) -> bool:
    """Whether versions of keys (GOOD, T, m) with one more record and without differ by a constant:
    within the window, where the law is linear, noise of both must be in the difference."""
    if choice.law is None or not choice.law.linear or not np.isfinite(apart).all():
        return False
    stop = choice.plan.guarantee.window or choice.audited.ticks
    mine = apart[:, :stop]
    size = np.abs(mine).max(axis=0)
    same = np.ptp(mine, axis=0) <= 1e-9 * np.maximum(size, 1e-300)
    noisy = np.array([out.stddev_worst > 0 for out in choice.plan.outputs
                      for _ in range(out.dimension)])  # fmt: skip
    return bool(same[:, noisy].all()) and bool(noisy.any()) and bool(size.any())


def _wide(choice: Choice, forms: Sequence[Any], item: Any, other: Any, bad: int) -> tuple[str, ...]:
    """Forms whose key moved further than one event and the noise of two runs explain, or whose
    releases are no numbers."""
    allowed = []
    for out in choice.plan.outputs:
        most = out.sensitivity + 12 * np.sqrt(2) * out.stddev_worst
        allowed += [most if np.isfinite(most) else np.inf] * out.dimension
    if choice.law is None or not choice.law.linear:
        allowed = [np.inf] * len(allowed)
    results = []
    for at in range(bad):
        gone = np.isnan(item[at]) != np.isnan(other[at])
        far = np.abs(np.nan_to_num(item[at] - other[at])) > np.asarray(allowed)
        if far.any() or (gone.any() and not choice.plan.keys.observed):
            results.append(forms[at].name)
    return tuple(results)
