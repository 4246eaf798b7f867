"""What fits a model to the rows of some blocks: all that a schedule of fits asks of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.noise.noise import Noise


class Draws(NamedTuple):
    """Where the noise of one fit comes from.

    Attributes:
      noise: keyed, of the job's tick and of the one key that is fitted.
      place: of the fit among those that its number of blocks allows.
      complete: blocks of the key that are complete.
      digest: (2,), of all data of the key so far.
    """

    noise: Noise
    place: int
    complete: int
    digest: Digests


class Made(NamedTuple):
    """What a fit came to.

    Attributes:
      model: (D,), with its noise: it may be released. failed: 1 where the answer was not what is
        paid for, and was not released; else 0.
    """

    model: Floats
    failed: int = 0


class Fit(Protocol):
    """One fit with its rows in hand, between two slices of it. Between slices only two vectors of
    public lengths are carried: whatever else it holds follows from them and the rows."""

    def start(self) -> tuple[Floats, Floats]:
        """What the first iteration begins with."""

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        """So many iterations more, after ``done`` of them."""

    def finish(self, x: Floats, y: Floats) -> Made:
        """The released model, once all iterations are done."""


class Fitter(Protocol):
    """Makes the fits of one level of a schedule; public numbers alone.

    Attributes:
      dimension: D, of a model. sizes: lengths of the two vectors that slices carry.
      steps: iterations of a fit, the same for all. work: numbers that one reads, at most.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def sizes(self) -> tuple[int, int]: ...

    @property
    def steps(self) -> int: ...

    @property
    def work(self) -> int: ...

    def sample(self, draws: Draws) -> NDArray[np.bool_] | None:
        """Which rows of the blocks are fitted, void ones among them; None: all."""

    def fit(self, features: Any, targets: Floats, after: Floats, draws: Draws) -> Fit:
        """A fit of rows (n, p), (n,) that is pulled to a released model ``after`` (D,)."""


@runtime_checkable
class Weighing(Protocol):
    """A fitter that knows rows of different weights: where the unit is a user."""

    def weighed(
        self, features: Any, targets: Floats, weights: Floats, after: Floats, draws: Draws
    ) -> Fit:
        """As ``Fitter.fit``. weights: (n,), those of a user and block add up to 1 at most."""


@runtime_checkable
class Placing(Protocol):
    """A fitter to which the place of a row matters: void rows take places too."""

    def placed(
        self, features: Any, targets: Floats, places: Ints, after: Floats, draws: Draws
    ) -> Fit:
        """As ``Fitter.fit``. places: (n,), of the rows among all of the fit's, ascending."""
