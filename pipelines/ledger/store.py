"""Where records are kept: what a kind of ledger must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from weir.dpcore.errors import ConfigError
from weir.pipelines.ledger.chain import Row

T = TypeVar("T")

VERSION: Final = 1
"""Of the stored layout; raised when an older Weir could no longer read it."""


class Change(NamedTuple):
    """What a transaction adds to a scope, and what it answers."""

    bodies: Sequence[Mapping[str, Any]]
    answer: Any


class Store(ABC):
    """Chains of records by scope, only ever added to."""

    name: str
    """What it is called in messages: a path, or a place without passwords."""

    @abstractmethod
    def scopes(self) -> list[str]:
        """Names of the scopes, sorted."""

    @abstractmethod
    def rows(self, scope: str) -> list[Row]:
        """Records of a scope in order, not yet verified. Writes nothing."""

    @abstractmethod
    def chains(self) -> dict[str, list[Row]]:
        """Records of all scopes, each in order, not yet verified. Writes nothing. Within ``work``
        of ``change``, what it answers is part of the transaction."""

    @abstractmethod
    def key(self, create: bool) -> bytes | None:
        """32 random bytes beside the records, not in them: what digests of events are keyed with.

        Args:
          create: whether to make them where there are none.

        Returns:
          None where there are none, and none are to be made.
        """

    @property
    def key_name(self) -> str:
        """Where the key is, in words."""
        return f"the key of {self.name}"

    @abstractmethod
    def change(self, scope: str, work: Callable[[Sequence[Row]], Change]) -> Any:
        """One transaction: nobody else writes to the scope from ``work``'s rows to the commit.

        Args:
          work: records in order -> what to add, and the answer. It may be called again where a
            server asks for that; what it raises ends the transaction and nothing is written.

        Returns:
          The answer, once what is added is safe on disk.
        """

    @abstractmethod
    def close(self) -> None:
        """Lets go of it."""


def refuse_newer(name: str, version: int) -> None:
    """Raises ConfigError where a newer Weir made a ledger."""
    if version > VERSION:
        raise ConfigError(
            "ledger",
            name,
            f"was made by a newer Weir (layout {version}, this one reads {VERSION}): upgrade.",
        )


__all__ = ["VERSION", "Change", "Store", "refuse_newer"]
