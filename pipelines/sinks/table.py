"""What kinds of sinks share that add rows to a table."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.sinks.sink import Secrets, Sink

if TYPE_CHECKING:
    from weir.transforms.release.flat import Flat
    from weir.transforms.sinks.rows import RowsWriter
    from weir.transforms.sinks.targets import ReleaseFiles


class TableSink(Sink):
    """A table; its section has a field ``table``. A subclass makes what writes its rows."""

    product: ClassVar[str]
    """What the table is of, in words."""

    layout: Literal["flat"] = Field(
        default="flat", description="A row for each number.", examples=["flat"]
    )

    @property
    def named(self) -> str:
        return f"table {self.value.table} of {self.product}"

    @property
    @abstractmethod
    def rows(self) -> Any:
        """The table as it is written to."""

    @abstractmethod
    def writer(self, shape: Flat) -> RowsWriter:
        """What writes its rows. shape: makes a row of each number."""

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        """Makes the table where there is none.

        Raises:
          ConfigError: it cannot be reached, or is refused, or is a table of other columns.
        """
        table = self.rows
        try:
            table.create()
        except ConfigError:
            raise
        except Exception as error:  # the clients' errors are many, and quote what was sent
            code = getattr(error, "sqlstate", None) or type(error).__name__
            raise ConfigError(
                self.field,
                table.name,
                f"cannot be made ready ({code}). Correct the address, the login or the rights.",
            ) from None
        return False

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.write_files import WriteRanges

        return WriteRanges(self.target(plan))

    def target(self, plan: Plan, hold: bool = False, here: bool = False) -> ReleaseFiles:
        from weir.transforms.release.few import shape_for
        from weir.transforms.release.flat import Flat
        from weir.transforms.sinks.targets import ReleaseFiles, ranges_of

        shape = shape_for(plan, "flat")
        assert isinstance(shape, Flat)
        return ReleaseFiles(ranges_of(plan, self.every), self.writer(shape))


__all__ = ["TableSink"]
