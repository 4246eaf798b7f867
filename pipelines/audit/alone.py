"""What one record moves besides its own cell, and what differs outside of what is released.

Two runs under one secret of the audit's own: with records that are malformed in every way that the
format allows, and without. Noise follows from a key's data, so every key that no such record
belongs to must have the same bits in both runs, wherever its records lie beside the bad ones; a key
that a good record was added to must have other noise; and a second run over the same records must
repeat the first. A run that goes on under another secret must be refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weir.dpcore.errors import ConfigError
from weir.pipelines.audit.channels import differing, outside
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.job import Audited
from weir.pipelines.audit.once import through
from weir.pipelines.audit.spoilt import Form
from weir.pipelines.audit.streams import Maker, Rows
from weir.pipelines.audit.way import Way
from weir.pipelines.sources.source import Limits
from weir.transforms.runtime.secret import SecretRef

BETWEEN = 3
"""Good records between two bad ones."""
GOOD = 12
"""Records among the bad ones that are as good as any."""


@dataclass(frozen=True)
class Alone:
    """What two runs differ in.

    Attributes:
      forms: ways in which records were malformed. bystanders: keys that none of them belongs to.
      moved: of those, keys whose releases differ. wide: forms whose own key moved further than its
        clip and its noise allow. noise: what is wrong with whose noise is whose, in words.
      side: what else differs. seconds: of the run with them and of the one without: measured, not
        promised.
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
        found = []
        if self.moved:
            found.append(
                f"bytes: malformed records moved {self.moved} of {self.bystanders} keys that they "
                "do not belong to"
            )
        found += [f"bytes: a record moved its key beyond its clip ({form})" for form in self.wide]
        found += [f"bytes: {one}" for one in self.noise]
        return (*found, *(f"side channel: {one}" for one in self.side))

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


def alone(choice: Choice, runner: str = "direct") -> Alone:
    """Runs a job with malformed records and without them.

    Raises:
      WeirError: a run failed: that a record can stop a run is told so too.
    """
    audited = _lenient(choice.audited)
    maker = replace(choice.maker, audited=audited)
    way = Way.of(audited, runner)
    forms: list[Any] = [Form("as it is", bytes)] * GOOD + way.forms(maker)
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
            run = through(maker, [], keys, Path(place), runner, secret, more)
            done.append((run, outside(run, runner == "direct")))
    refused = _refuses_another_secret(maker, rows, keys) if runner == "direct" else True
    return _compared(choice, forms, done, bad, refused)


def _rows(keys: Sequence[int], ticks: int) -> Rows:
    count = len(keys)
    serial = np.arange(count)
    tick = np.where(np.asarray(keys) < GOOD, 0, serial % min(ticks, 3))
    return Rows(np.asarray(keys), tick, np.zeros(count, dtype=np.int64), serial,
                serial)  # fmt: skip


def _lenient(audited: Audited) -> Audited:
    """The job that refuses no file for what is in it: the audit puts it there."""
    limits = audited.job.limits.model_copy(update={"refused": 1.0, "first_look": False})
    assert isinstance(limits, Limits)
    return replace(audited, job=audited.job.model_copy(update={"limits": limits}))


def _refuses_another_secret(maker: Maker, rows: Rows, keys: int) -> bool:
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
        done = through(maker, [rows], keys, Path(place), secret=secrets[0])
        written = sorted(done.folder.glob("ticks-*"))
        for path in (done.folder / "_COMPLETE", *written[len(written) // 2 :]):
            path.unlink(missing_ok=True)
        try:
            through(maker, [rows], keys, Path(place), secret=secrets[1])
        except ConfigError:
            return True
    return False


def _compared(
    choice: Choice, forms: Sequence[Any], done: Sequence[Any], bad: int, refused: bool
) -> Alone:
    (one, with_), (other, without), (again, _) = done
    with_them, none = one.transcripts, other.transcripts
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
    return Alone(
        tuple(dict.fromkeys(form.name for form in forms)),
        len(none) - bad,
        moved,
        _wide(choice, forms, with_them, none, bad),
        tuple(noise),
        tuple(side),
        (one.result.seconds, other.result.seconds),
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


def _wide(choice: Choice, forms: Sequence[Any], one: Any, other: Any, bad: int) -> tuple[str, ...]:
    """Forms whose key moved further than one event and the noise of two runs explain, or whose
    releases are no numbers."""
    allowed = []
    for out in choice.plan.outputs:
        most = out.sensitivity + 12 * np.sqrt(2) * out.stddev_worst
        allowed += [most if np.isfinite(most) else np.inf] * out.dimension
    if choice.law is None or not choice.law.linear:
        allowed = [np.inf] * len(allowed)
    found = []
    for at in range(bad):
        gone = np.isnan(one[at]) != np.isnan(other[at])
        far = np.abs(np.nan_to_num(one[at] - other[at])) > np.asarray(allowed)
        if far.any() or (gone.any() and not choice.plan.keys.observed):
            found.append(forms[at].name)
    return tuple(found)


__all__ = ["Alone", "alone"]
