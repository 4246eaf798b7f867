"""A folder of releases as a page that is renewed as ticks come. Releases only."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from weir.dpcore.errors import ConfigError
from weir.pipelines.results.files import result_files
from weir.pipelines.results.run import ResultFolder


class LivePage(NamedTuple):
    """What is served. number: grows with every change. page: HTML; "" while there is no release.
    data: what the page asks for when told of a tick, JSON. said: what is waited for."""

    number: int
    page: str
    data: str
    said: str


class Live:
    """Follows a folder.

    Args:
      folder: of releases; need not be there yet.
      refresh: called before each look, to bring in what is new.
    """

    def __init__(self, folder: Path, refresh: Callable[[], None] = lambda: None) -> None:
        self._folder, self._refresh = folder, refresh
        self._seen: tuple[str, ...] = ()
        self._changed = threading.Condition()
        self._shown = LivePage(0, "", "{}", "There is no release yet.")

    @property
    def shown(self) -> LivePage:
        """The newest."""
        return self._shown

    def look(self) -> bool:
        """Reads the folder again where it changed. Returns whether there is something new.

        Raises:
          ConfigError: ``refresh`` refuses.
        """
        self._refresh()
        seen = tuple(file.path.name for file in result_files(self._folder))
        seen += tuple(p for p in ("_plan.json", "_COMPLETE") if (self._folder / p).exists())
        if seen == self._seen:
            return False
        try:
            page, data = _drawn(self._folder)
            shown = LivePage(self._shown.number + 1, page, data, "")
        except (ConfigError, FileNotFoundError) as error:  # a file may be moved while it is read
            shown = self._shown._replace(number=self._shown.number + 1, said=str(error))
            seen = () if isinstance(error, FileNotFoundError) else seen
        self._seen = seen
        with self._changed:
            self._shown = shown
            self._changed.notify_all()
        return True

    def wait(self, number: int, seconds: float) -> LivePage:
        """The newest, as soon as it is newer than ``number``, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._shown.number > number, seconds)
            return self._shown


def _drawn(folder: Path) -> tuple[str, str]:
    """Page and data of a folder."""
    from weir.pipelines.report.data import gather
    from weir.pipelines.report.page import as_script, page, parts, payload

    data = gather(ResultFolder.open(folder))
    told = {**payload(data), "parts": parts(data)}
    return page(data, live=True), as_script(told)


def health(look: Callable[[], object]) -> Callable[[], str]:
    """What an operator's page shows, JSON: a call never fails, but says why there is nothing."""

    def asked() -> str:
        from weir.pipelines.engines.processes import EngineFailed

        try:
            return json.dumps({"jobs": look(), "error": ""})
        except (ConfigError, EngineFailed) as error:
            return json.dumps({"jobs": [], "error": str(error)})

    return asked
