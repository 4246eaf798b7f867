"""Releases on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from weir.dpcore.plan import Plan
from weir.pipelines.sinks.sink import Secrets, Sink

if TYPE_CHECKING:
    from weir.transforms.sinks.targets import ReleaseFiles


class StdoutSink(Sink):
    """A table on standard output."""

    kind: ClassVar[str] = "stdout"
    needs_screen: ClassVar[bool] = True

    stdout: Literal[True] = Field(description="true: a table on standard output.", examples=[True])
    wide: bool = Field(
        default=False,
        description="A row for each key and tick, with a column for each number and one for its 95 "
        "% margin; `weir run --wide` asks for it too.",
        examples=[True],
    )

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.write_files import WriteRanges

        return WriteRanges(self.target(plan, hold, here))

    def target(self, plan: Plan, hold: bool = False, here: bool = False) -> ReleaseFiles:
        from weir.transforms.sinks.targets import table

        return table(plan, self.every, hold and here, self.layout, self.wide)

    def widened(self) -> Sink:
        return self.model_copy(update={"wide": True})

    def holds(self, here: bool) -> bool:
        return here

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        """Forgets what an earlier run in this process did not show."""
        from weir.transforms.sinks.targets import forget_held

        forget_held()
        return False

    def finish(self, plan: Plan, held: bool) -> None:
        from weir.transforms.sinks.targets import print_held

        print_held()
