"""Recording every call of a noise primitive, and running a neighbour with the same answers.

An audit runs a plan over one stream and records what each primitive answered. It then runs a
neighbour, and every primitive gives the recorded answer again. What differs between the two runs is
what went into the primitives. The audit compares it with the sensitivity that each call paid for.

Neither a config nor the environment can start a replay. It lasts for a ``with`` block of the code
that asks for one, in that thread alone. A job that releases refuses to draw noise inside of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import WeirError

Scale = float | tuple[float, ...]


class Diverged(WeirError):
    """A neighbour asked its primitives for something else than the run that was recorded."""


@dataclass(frozen=True)
class Call:
    """One call of a primitive.

    Attributes:
      name: of the mechanism. kind: of the noise: gaussian, discrete_gaussian, k_norm, laplace,
        generalised_gaussian; gumbel_choice and laplace_choice for report-noisy-max; threshold;
        sample.
      sensitivity: that is paid for, in the unit of ``clean`` over the noise's own scales.
      scale: of the noise. norm: in which the sensitivity is measured; inf of a choice is the range
        of all scores' changes.
      where: names the call: labels of its noise. tick: of the clock. block: number of the block of
        keys.
      clean: what went in: of a sum the increments (n, K, d). output: what came out. own: what this
        run would have released by itself.
      drawn: digest of what named the noise; b"": nothing was drawn since the last call.
      mechanism: the continual sum, where it is one.
      pure: of a choice, whether it is paid for in pure epsilon.
      extra: numbers of one kind alone: the exponent of generalised Gaussian noise, the share of a
        sample, the chances of a threshold.
    """

    name: str
    kind: str
    sensitivity: float
    scale: Scale
    norm: float
    where: bytes
    clean: NDArray[Any]
    output: NDArray[Any]
    own: NDArray[Any]
    tick: int = -1
    block: int = 0
    drawn: bytes = b""
    mechanism: Any = None
    pure: bool = False
    extra: tuple[float, ...] = ()

    @property
    def signature(self) -> tuple[tuple[str, Any], ...]:
        """What may not depend on private data, given the answers so far."""
        return (
            ("mechanism", self.name),
            ("noise", self.kind),
            ("tick", self.tick),
            ("label", self.where),
            ("shape", self.clean.shape),
            ("sensitivity", self.sensitivity),
            ("scale", self.scale),
            ("extra", self.extra),
        )


@dataclass
class Session:
    """A run under record, or one of a neighbour.

    Attributes:
      reference: the run whose answers are given again; None: this one is recorded.
      calls: so far. repeated: names of mechanisms that drew the same noise twice.
    """

    reference: Session | None = None
    calls: list[Call] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    tick: int = -1
    block: int = -1
    _names: set[bytes] = field(default_factory=set)
    _drawn: Any = None

    def met(self, call: Call) -> NDArray[Any]:
        """Records a call, and gives its answer.

        Raises:
          Diverged: the reference has another call at this place.
        """
        drawn = b"" if self._drawn is None else self._drawn.digest()
        self._drawn = None
        call = replace(call, tick=self.tick, block=self.block, drawn=drawn)
        at = len(self.calls)
        if self.reference is not None:
            if at >= len(self.reference.calls):
                raise Diverged(f"{call.name} is called once more than without the change")
            first = self.reference.calls[at]
            for (what, mine), (_, its) in zip(call.signature, first.signature, strict=True):
                if mine != its:
                    shown = "" if what == "label" else f": {mine} in place of {its}"
                    raise Diverged(f"the {what} of call {at} ({first.name}) differs{shown}")
            call = replace(call, output=first.output)
        self.calls.append(call)
        return call.output

    def draws(self, purpose: int, part: int, heads: Digests, labels: Digests, of: Digests) -> None:
        """Notes what names the noise that is drawn. heads: (K, 2), of keys. of: (m, K, 2)."""
        if self._drawn is None:
            self._drawn = hashlib.blake2b(digest_size=16)
        first = purpose.to_bytes(2, "little") + part.to_bytes(2, "little")
        for name, row in zip(np.asarray(labels), np.asarray(of), strict=True):
            for head, digest in zip(np.asarray(heads), row, strict=True):
                item = first + name.tobytes() + head.tobytes() + digest.tobytes()
                self._drawn.update(item)
                if item in self._names:
                    self.repeated.append(len(self.calls))
                self._names.add(item)


_SESSION: ContextVar[Session | None] = ContextVar("weir_replay", default=None)


@contextmanager
def recording() -> Iterator[Session]:
    """Records every call of a primitive in this block."""
    with _session(Session()) as session:
        yield session


@contextmanager
def replaying(reference: Session) -> Iterator[Session]:
    """Gives the recorded answers again, call by call."""
    with _session(Session(reference)) as session:
        yield session
    if len(session.calls) < len(reference.calls):
        name = reference.calls[len(session.calls)].name
        raise Diverged(f"{name} is called less often than without the change")


@contextmanager
def _session(session: Session) -> Iterator[Session]:
    if _SESSION.get() is not None:
        raise WeirError("a replay is under way in this thread already.")
    token = _SESSION.set(session)
    try:
        yield session
    finally:
        _SESSION.reset(token)


def search(seed: int) -> np.random.Generator:
    """What a search for neighbours tries: public, and the same in every run. Never noise."""
    return np.random.default_rng(seed)


def is_on() -> bool:
    """Whether calls are recorded."""
    return _SESSION.get() is not None


def session() -> Session | None:
    """The run under record, or None: what ``KeyedNoise`` reports draws to."""
    return _SESSION.get()


def refuse() -> None:
    """Raises WeirError inside a replay: what a job calls before it draws noise of a release."""
    if _SESSION.get() is not None:
        raise WeirError("a replay is for audits; a job that releases does not run inside of one.")


def at(tick: int) -> None:
    """Says which tick of the clock follows. A tick that is not later begins a block of keys."""
    current = _SESSION.get()
    if current is not None:
        current.block += tick <= current.tick or current.block < 0
        current.tick = tick


def released(
    name: str,
    kind: str,
    clean: NDArray[Any],
    output: Any,
    *,
    sensitivity: float,
    scale: float,
    where: Digests | bytes = b"",
    norm: float = 2.0,
    pure: bool = False,
    extra: tuple[float, ...] = (),
) -> Any:
    """A primitive's answer: ``output`` itself, and the recorded one in a replay.

    Args:
      clean: what went in. output: what comes out. For the others see ``Call``.
    """
    current = _SESSION.get()
    if current is None:
        return output
    answer = np.array(output)
    call = Call(
        name, kind, float(sensitivity), float(scale), norm,
        where if isinstance(where, bytes) else np.asarray(where).tobytes(),
        np.array(clean), answer, answer, pure=pure, extra=extra,
    )  # fmt: skip
    return current.met(call).copy()


def rows(
    name: str, kind: str, clean: Floats, output: Floats, sensitivity: Floats, scale: Floats
) -> Floats:
    """``released`` for each of n rows, which are calls of their own. sensitivity, scale: (n,)."""
    answers = [
        released(name, kind, clean[i], output[i], sensitivity=moved, scale=size)
        for i, (moved, size) in enumerate(zip(sensitivity, scale, strict=True))
    ]
    return np.stack(answers) if answers else output


def shifted(mechanism: Any, increments: Ints, clean: Ints, drawn: Ints, first_tick: int) -> Ints:
    """Noise of a continual sum: ``drawn`` itself, and in a replay that under which it releases what
    was recorded.

    Args:
      mechanism: has name, scales, sensitivity and noise_scale. increments: (n, K, d) of the sums.
      clean: (n, K, d) the sums modulo 2^64. first_tick: of the mechanism's own steps.
    """
    current = _SESSION.get()
    if current is None:
        return drawn
    with np.errstate(over="ignore"):
        noisy = clean + drawn
        kind = mechanism.real_noise[0]
        call = Call(
            mechanism.name, kind, float(mechanism.sensitivity),
            (float(mechanism.noise_scale), *map(float, mechanism.scales)),
            1.0 if kind == "laplace" else 2.0, first_tick.to_bytes(8, "little"),
            increments.copy(), noisy, drawn.copy(), mechanism=mechanism,
        )  # fmt: skip
        return np.asarray(current.met(call) - clean)
