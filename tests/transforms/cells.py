"""State of a DoFn in memory, for tests that call it themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Cell(ABC):
    """A cell or a bag of state in memory; counts what a runner would have to move."""

    moved = 0

    def __init__(self, *values: Any) -> None:
        self.values = list(values)

    @abstractmethod
    def read(self) -> Any:
        """What is in it."""

    def add(self, value: Any) -> None:
        Cell.moved += 1
        self.values.append(value)

    def clear(self) -> None:
        self.values = []


class One(Cell):
    def read(self) -> Any:
        return self.values[0] if self.values else None

    def write(self, value: Any) -> None:
        self.values = [value]


class Bag(Cell):
    def read(self) -> Any:
        Cell.moved += len(self.values)
        return list(self.values)
