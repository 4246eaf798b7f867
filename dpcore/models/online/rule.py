"""Rules: from released gradient sums to the next iterate. Post-processing only, K keys at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet


class Rule(Protocol):
    """F_t(x) = <data sum, x> + public quadratics; the rule (nearly) minimises it over the set.

    With x_1, .., x_t played, Sum the released running sum of clipped gradients, mu and centre
    public, ghat_t = Sum + mu sum_{tau <= t} (x_tau - centre): the gradient of the data plus that of
    (mu/2) ||x - centre||^2 at every tick, empty ones too. With ``own_curvature`` one loss a tick is
    strongly convex by itself and ghat_t = Sum.

    Nothing here reads data: **Formal guarantees** are those of the sum that it is given.

    Attributes:
      set: where iterates live. curvature: mu > 0.
      averages: whether gradients are taken elsewhere than at what is played, which is an average.
    """

    averages: ClassVar[bool]

    @property
    def set(self) -> ConvexSet:
        """P."""

    @property
    def curvature(self) -> float:
        """mu."""

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""

    def init(self, n_keys: int) -> Any:
        """A NamedTuple of arrays with leading axis K, among them x (K, d), which is played next,
        and t (K,) int64."""

    def probe(self, state: Any) -> Floats:
        """(K, d), where the gradients of the next tick are taken: a function of what was released,
        as x is, and x itself where the rule does not average."""

    def update(self, state: Any, data_sum: Floats) -> Any:
        """One tick; the new state's x is played next.

        data_sum: (K, d) float64, released, gradient units; it is kept, and never changed.
        """

    def canonical(self) -> Mapping[str, Any]:
        """Every public number, JSON-able; floats as hex strings."""
