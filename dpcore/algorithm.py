"""What every algorithm is: it compiles its own section under the terms, and says what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

from weir.dpcore.arrays import Ints
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import OutputInfo, Program

Role = Literal["value", "bins", "score", "trace", "model", "scaled_model"]
Takes = Literal["events", "users", "totals", "newcomers", "active"]
"""What counts: every event; a user once a cell, with the average of its events there; the same with
their sum, clipped once; a user once a key and period; a user once a key and span of ticks."""


class Shown(NamedTuple):
    """How a release is shown to people.

    Attributes:
      what: what it is, in words. unit: of its values; "" where the words say enough.
      role: a value; the bins of a histogram; a score, which tells how well a model predicts; a
        trace of public numbers, as of what a model was made; or the coefficients of a model: in the
        user's units, or in scaled units, which can be compared with each other.
      part: label of the only component that is drawn; "": all of them.
      reading: a sentence for who reads its picture; {band} stands for the width of the margins.
      between: public bounds of the true value; None: it has none on that side.
    """

    what: str
    unit: str = ""
    role: Role = "value"
    part: str = ""
    reading: str = ""
    between: tuple[float | None, float | None] = (None, None)


class Reading(NamedTuple):
    """How a picture of the releases is to be read; {band} stands for the width of the margins.

    Attributes:
      lines: what the lines are. banded, bare: what follows where there are margins, and where none.
    """

    lines: str
    banded: str
    bare: str


class Error(NamedTuple):
    """The error of a release as a plan shows it.

    Attributes:
      stddev: of its noise at the worst tick; NaN: not known beforehand.
      mark: "" or "*": the notes say at what it was taken.
    """

    stddev: float
    mark: str = ""


class Bias(NamedTuple):
    """What public bounds do to a release, which no margin of error covers.

    Attributes:
      clauses: what clips, edges and caps on rows move or leave out, in words; () for nothing.
      takes: of what it is, so on which bounds on a user's contributions it depends; None: on none.
      lowers: whether these can only make it smaller.
      below: what must hold besides for clauses and contribution bounds to only take away, in words;
        "": nothing. The low end of the margin is one of the true figure then. None: they may raise
        the value.
      averages: of what the margin is where values are averaged, or ranked; "": they are not.
    """

    clauses: tuple[str, ...] = ()
    takes: Takes | None = "events"
    lowers: bool = False
    below: str | None = None
    averages: str = ""


@dataclass(frozen=True)
class Compiled:
    """What an algorithm makes of its section under the terms.

    Attributes:
      program: what runs. alternatives: everything that was priced, the chosen one first.
      facts: name and words of what a plan should tell of it.
      notes: what the table of releases leaves open.
      warnings: what a reader should know before running it.
      left_out: name of a release -> what public bounds do to it.
      doubts: warnings of what the terms speak against; among ``warnings`` too.
    """

    program: Program
    alternatives: tuple[Alternative, ...]
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, Bias] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


def noise_behind(alternatives: tuple[Alternative, ...]) -> dict[str, float]:
    """Name -> worst stddev of the private sums behind what is released, as the chosen mechanism has
    it."""
    chosen = next((alternative for alternative in alternatives if alternative.chosen), None)
    stddev = {} if chosen is None else chosen.stddev
    return {name.partition(" over=")[0]: worst for name, worst in stddev.items()}


class ModelColumns(NamedTuple):
    """Columns of a linear model.

    Attributes:
      features, targets: names, in the order of its coefficients.
      ranges: column -> (low, high): values outside are moved to the nearer bound.
    """

    features: tuple[str, ...]
    targets: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]


class Algorithm(Protocol):
    """A section of a config that is planned. Everything it says is public."""

    @property
    def name(self) -> str:
        """Its name in the config."""

    @property
    def reading(self) -> Reading:
        """How its pictures are to be read."""

    @property
    def grows(self) -> bool:
        """Whether the state of a key grows with its events, up to a public number."""

    @property
    def only_events(self) -> str:
        """Why a plan of users cannot take it, and what to take instead; "": it can."""

    def in_spans(self, every: int) -> Self:
        """The same with every ``over: N`` in spans of so many ticks.

        Raises:
          ConfigError: an N that is no whole number of spans.
        """

    @property
    def own_schedule(self) -> str:
        """Why ``release_every`` is not for it: the schedule that it has; "": it may be."""

    def columns_read(self) -> ModelColumns | None:
        """What a linear model reads and predicts; None: it makes no model."""

    def compile(self, terms: Terms) -> Compiled:
        """What runs, everything that was priced, and what there is to say of it.

        Raises:
          ConfigError: it cannot serve the terms.
        """

    def compiled(self, program: Any, alternatives: tuple[Alternative, ...]) -> Compiled:
        """What was compiled, with what there is to say of it.

        Args:
          program: of this algorithm. alternatives: everything that was priced, the chosen first.
        """

    def shown(self, output: str) -> Shown:
        """How a release of that name is shown."""

    def expected_error(self, info: OutputInfo, ticks: Ints) -> Error:
        """The error of a release, for a plan; ``ticks``: where worst errors are looked for."""

    def refused(self) -> Iterator[str]:
        """Which values are moved and which events do not count."""

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        """What the terms speak against: noise beyond all that the events that are expected may add
        up to, or another algorithm that would serve better. program: what it compiled to, which may
        release at every n-th tick only."""
