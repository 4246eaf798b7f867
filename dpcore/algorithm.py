"""What every algorithm is: it compiles its own section under the terms, and says what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Protocol, Self

from weir.dpcore.arrays import Ints
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import OutputInfo, Program

Role = Literal["value", "bins", "score", "trace", "model", "scaled_model"]
Takes = Literal["events", "users", "totals", "newcomers"]
"""What counts: every event; a user once a cell, with the average of its events there; the same with
their sum, clipped once; a user once a key and period."""


class Shown(NamedTuple):
    """How a release is shown to people.

    Attributes:
      what: what it is, in words. unit: of its values; "" where the words say enough.
      role: a value; the bins of a histogram; a score, which tells how well a model predicts; a
        trace of public numbers, as of what a model was made; or the coefficients of a model: in the
        user's units, or in scaled units, which can be compared with each other.
      part: label of the only component that is drawn; "": all of them.
      reading: a sentence for who reads its picture; {band} stands for the width of the bands.
      between: public bounds of the true value; None: it has none on that side.
    """

    what: str
    unit: str = ""
    role: Role = "value"
    part: str = ""
    reading: str = ""
    between: tuple[float | None, float | None] = (None, None)


class Reading(NamedTuple):
    """How a picture of the releases is to be read; {band} stands for the width of the bands.

    Attributes:
      lines: what the lines are. banded, bare: what follows where there are bands, and where none.
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
    """

    clauses: tuple[str, ...] = ()
    takes: Takes | None = "events"
    lowers: bool = False


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

    def spaced(self, program: Program, every: int) -> Program | None:
        """``program``, compiled for ticks ``every`` times as long, as one that meets every tick and
        releases at each ``every``-th; None: as dpcore.spaced does it, for leaves that are sums."""

    def columns_read(self) -> ModelColumns | None:
        """What a linear model reads and predicts; None: it makes no model."""

    def compile(self, terms: Terms) -> tuple[Program, tuple[Alternative, ...]]:
        """What runs, and everything that was priced, the chosen one first.

        Raises:
          ConfigError: it cannot serve the terms.
        """

    def shown(self, output: str) -> Shown:
        """How a release of that name is shown."""

    def left_out(self, output: str, program: Program) -> Bias:
        """What public bounds do to a release of that name."""

    def expected_error(self, info: OutputInfo, program: Program, ticks: Ints) -> Error:
        """The error of a release, for a plan; ``ticks``: where worst errors are looked for."""

    def facts(self, program: Program, noise: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """Name and words of what a plan should tell of it.

        noise: name -> worst stddev of the private sums behind what is released.
        """

    def notes(self, program: Program) -> Iterator[str]:
        """What the table of releases leaves open."""

    def refused(self) -> Iterator[str]:
        """Which values are moved and which events do not count."""

    def warnings(self, program: Program) -> Iterator[str]:
        """What a reader should know before running it."""

    def doubts(self, program: Program, terms: Terms) -> Iterator[str]:
        """What the terms speak against: noise beyond all that the events that are expected may add
        up to, or another algorithm that would serve better."""
