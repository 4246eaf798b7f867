"""``weir run`` in a process of its own, forked from one that has imported what a run needs."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([
    "weir.pipelines.run.run", "weir.pipelines.runners.submitted", "weir.pipelines.show.summary",
    "weir.pipelines.ledger.sqlite", "weir.pipelines.sinks.folder", "weir.transforms.local.engine",
    __name__,
])  # fmt: skip


class RunProcess:
    """A run, after some code. It has begun once there is one."""

    def __init__(self, words: list[str], before: str, folder: Path) -> None:
        number, name = tempfile.mkstemp(prefix="told-", dir=folder)
        os.close(number)
        self._told = Path(name)
        self._process = CONTEXT.Process(target=_run, args=(words, before, self._told))
        self._process.start()

    def wait(self, timeout: float) -> str:
        """What it said on stderr, once it has ended."""
        self._process.join(timeout)
        if self._process.is_alive():
            self._process.kill()
            raise TimeoutError(self._told.read_text())
        return self._told.read_text()

    @property
    def returncode(self) -> int:
        """As that of a subprocess."""
        assert self._process.exitcode is not None, "wait for it"
        return self._process.exitcode


def _run(words: list[str], before: str, told: Path) -> None:
    with contextlib.ExitStack() as files:
        for name, number in ((os.devnull, 1), (str(told), 2)):
            os.dup2(files.enter_context(open(name, "wb")).fileno(), number)
    sys.argv[1:] = words
    exec(f"import sys\n{before}\nfrom weir.pipelines.cli.main import main\nmain()", {})
