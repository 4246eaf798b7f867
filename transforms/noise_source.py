"""Where Tick gets its noise: keyed by the secret and the plan, resolved on the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from dpcore.noise.prf import KeyedNoise, RootKey
from dpcore.program import NoiseOf
from transforms.secret import SecretRef


class NoiseSource(Protocol):
    """Makes the noise of one stride of one block of keys."""

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """Part index -> keyed noise; asked once a part."""


@dataclass(frozen=True)
class KeyedNoiseSource:
    """The only source that a pipeline's options can reach.

    Attributes:
      secret: a reference, never the value.
      release: the plan's name. digest: the plan's digest, hex.
    """

    secret: SecretRef
    release: str
    digest: str

    @cached_property
    def _root(self) -> RootKey:
        return RootKey.derive(self.secret.resolve(), self.release, bytes.fromhex(self.digest))

    def __getstate__(self) -> dict[str, object]:
        return {"secret": self.secret, "release": self.release, "digest": self.digest}

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """See NoiseSource."""
        names = tuple(keys)
        root = self._root
        made: dict[int, KeyedNoise] = {}

        def noise(part: int) -> KeyedNoise:
            if part not in made:
                made[part] = KeyedNoise(root, part, names, first_tick)
            return made[part]

        return noise


@dataclass(frozen=True)
class NoiseFrom:
    """For tests only: noise made by a function of the first tick, whatever the keys are."""

    make: Callable[[int], object]

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """See NoiseSource."""
        noise = self.make(first_tick)
        return lambda part: noise  # type: ignore[return-value]
