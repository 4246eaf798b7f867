"""Events from this process's memory. No config can name it: a notebook hands them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, PrivateAttr

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.sources.source import Limits, Source, schema_of

if TYPE_CHECKING:
    from weir.transforms.sources.memory import OpenedMemory


class MemorySource(Source):
    """A frame, a table or Python values, by their handle (transforms/sources/memory.py)."""

    kind: ClassVar[str] = "memory"
    bounded: ClassVar[bool] = True

    memory: str = Field(
        description="Handle of events that this process holds.", examples=["events 0"]
    )
    _schema: Any = PrivateAttr(default=None)

    def open(self, plan: Plan, limits: Limits) -> Any:
        from weir.transforms.beam.read_files import ReadHere

        return ReadHere(self.read(plan, limits))

    def read(self, plan: Plan, limits: Limits) -> OpenedMemory:
        from weir.transforms.decode.input_validation import FirstLook
        from weir.transforms.sources.memory import OpenedMemory

        schema = schema_of(plan)
        look = FirstLook(plan, schema) if limits.first_look else None
        return OpenedMemory(self.memory, schema, look)

    def check_plan(self, plan: Plan) -> None:
        super().check_plan(plan)
        self._schema = schema_of(plan)

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        from weir.transforms.sources.memory import seal

        return seal(self.memory, self._schema, key), self

    def check_runner(self, runner: str) -> None:
        """Refuses workers that cannot see this memory."""
        if runner not in ("local", "direct"):
            raise ConfigError("--runner", runner, "cannot read events that lie in this process.")

    def amount(self) -> tuple[int | None, int | None]:
        from weir.transforms.sources.memory import held

        return len(held(self.memory)), None
