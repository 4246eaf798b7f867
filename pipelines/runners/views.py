"""Beam's options whose views are made once."""

from __future__ import annotations

from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)


class RunOptions(PipelineOptions):
    """Options of a run.

    Beam takes a view some 200 times while it builds a pipeline and runs it, and makes a parser of
    arguments for each: a quarter of a short run. Views share their values, so one of a kind serves.
    """

    def view_as(self, cls: type[View]) -> View:
        """The view of a kind, as Beam makes it at first."""
        views = vars(self).setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        """Without views: those of a copy would no longer share its values."""
        held: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in held.items() if name != "_views"}
