"""Where Tick gets its noise: keyed by the secrets and the plan, resolved on the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from weir.dpcore.noise import replay
from weir.dpcore.noise.key_ring import NO_MARK, KeyRing
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.program import NoiseOf
from weir.transforms.runtime.secret import SecretRef


class NoiseSource(Protocol):
    """Makes the noise of one stride of one block of keys."""

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """Part index -> keyed noise; asked once a part."""

    def edges(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks inside (first, stop) that no stride may cross: another secret begins there."""
        return ()

    def mark(self, tick: int) -> bytes:
        """16 bytes that name the secrets behind every tick before this one."""
        return NO_MARK

    def sampled(self, keys: Sequence[bytes], share: float) -> list[bool]:
        """Which keys lie in a share of all keys, by a keyed hash of their names."""
        return [True] * len(keys)


@dataclass(frozen=True)
class KeyedNoiseSource(NoiseSource):
    """The only source that a pipeline's options can reach.

    Attributes:
      secret: a reference, never the value.
      release: the plan's name. digest: the plan's digest, hex.
      rotate: (first tick, reference) of the secrets that follow, in order.
    """

    secret: SecretRef
    release: str
    digest: str
    rotate: tuple[tuple[int, SecretRef], ...] = ()

    @cached_property
    def _ring(self) -> KeyRing:
        def maker(secret: SecretRef) -> Callable[[], RootKey]:
            plan = bytes.fromhex(self.digest)
            return lambda: RootKey.derive(secret.resolve(), self.release, plan)

        entries = [(0, self.secret), *self.rotate]
        return KeyRing([(tick, maker(secret)) for tick, secret in entries])

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("secret", "release", "digest", "rotate")}

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """See NoiseSource."""
        replay.refuse()
        names = tuple(keys)
        root = self._ring.at(first_tick)
        built: dict[int, KeyedNoise] = {}

        def noise(part: int) -> KeyedNoise:
            if part not in built:
                built[part] = KeyedNoise(root, part, names, first_tick)
            return built[part]

        return noise

    def edges(self, first: int, stop: int) -> tuple[int, ...]:
        """See NoiseSource."""
        return self._ring.edges(first, stop)

    def mark(self, tick: int) -> bytes:
        """See NoiseSource."""
        return self._ring.mark(tick)

    def sampled(self, keys: Sequence[bytes], share: float) -> list[bool]:
        """See NoiseSource."""
        return self._ring.sampled(keys, share)


@dataclass(frozen=True)
class NoiseFrom(NoiseSource):
    """For tests only: noise made by a function of the first tick, whatever the keys are."""

    make: Callable[[int], object]

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """See NoiseSource."""
        noise = self.make(first_tick)
        return lambda part: noise  # type: ignore[return-value]
