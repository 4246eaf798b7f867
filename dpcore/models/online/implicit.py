"""One implicit gradient step over a convex set, to a certified distance from the exact one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet


@dataclass(frozen=True)
class ImplicitStep:
    """argmin over x in P of ||x - v||^2 / 2 + eta (f(x) + (mu / 2) ||x - centre||^2).

    f is convex with a ``smoothness``-Lipschitz gradient; phi, the whole, is m-strongly convex and
    S-smooth, m = 1 + eta mu, S = m + eta smoothness. Accelerated projected gradient; a key stops
    where its own certificate holds, so its result does not depend on the other keys.

    **Formal guarantees**
      Certificate: one projected step of length 1/S is a (1 - m/S)-contraction whose fixed point is
        the minimiser x*, so a step from y to x+ proves ||x+ - x*|| <= (S/m - 1) ||x+ - y||.
      Ends: after (sqrt(S/m)) ln(...) steps the certificate holds in any case, so ``limit`` follows
        from public numbers and never cuts one short, round-off apart.
      Source: Nesterov, Introductory Lectures on Convex Optimization, 2.2.

    Attributes:
      convex_set: P. centre: (d,). curvature: mu. smoothness: of f.
    """

    convex_set: ConvexSet
    centre: Floats
    curvature: float
    smoothness: float

    def __call__(
        self, gradient: Callable[[Floats], Floats], origin: Floats, eta: float, distance: float
    ) -> Floats:
        """Steps K keys.

        Args:
          gradient: (K, d) -> (K, d), gradient of each key's f.
          origin: v, (K, d). eta: step size. distance: certified ||x - x*||, above 0.
        """
        modulus = 1 + eta * self.curvature
        smooth = modulus + eta * self.smoothness
        ratio = smooth / modulus - 1
        root = math.sqrt(smooth / modulus)
        momentum = (root - 1) / (root + 1)
        x = self.convex_set.project(origin)
        y, out = x, x
        open_ = np.ones(len(x), dtype=bool)
        for _ in range(self.limit(eta, distance)):
            slope = (y - origin) + eta * (gradient(y) + self.curvature * (y - self.centre))
            new = self.convex_set.project(y - slope / smooth)
            out = np.where(open_[:, None], new, out)
            move = new - y
            open_ &= ratio * np.sqrt((move * move).sum(axis=1)) > distance
            if not open_.any():
                break
            x, y = new, new + momentum * (new - x)
        return out

    def limit(self, eta: float, distance: float) -> int:
        """Steps after which the certificate holds whatever the data are.

        phi(x_k) - phi* <= (1 - sqrt(q))^k S D^2 with q = m/S; hence ||x_k - x*|| and both of its
        neighbours y, x+ fall below q distance / 8 when the right side is below
        (m/2) (q distance / 8)^2.
        """
        q = 1 / (1 + eta * self.smoothness / (1 + eta * self.curvature))
        if q == 1:
            return 1
        gap = 128 * self.convex_set.diameter**2 / (q**3 * distance**2)
        return 3 + math.ceil(max(0.0, math.log(gap)) / -math.log1p(-math.sqrt(q)))
