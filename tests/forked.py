"""``weir`` in a process of its own, forked from one that has imported it: that takes seconds.

What users start is the same but for that: ``test_installed`` and ``test_stack`` start it so.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

IMPORTED = (
    "apache_beam.runners.portability.portable_runner",
    "weir.pipelines.cli.main",
    "weir.pipelines.graph.build",
    "weir.pipelines.ledger.sqlite",
    "weir.pipelines.run.run",
    "weir.pipelines.runners.flink",
    "weir.pipelines.runners.pipeline",
    "weir.pipelines.show.summary",
    "weir.pipelines.sinks.folder",
    "weir.transforms.local.engine",
)
TRACE = ".trace"
"""Suffix of the file, next to that of its errors, that holds the traceback of what failed."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([*IMPORTED])


def _weir(
    words: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    out: str,
    err: str,
    before: str,
) -> None:
    os.setsid()
    for path, number in (("/dev/null", 0), (out, 1), (err, 2)):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["weir", *words]
    from weir.pipelines.cli.main import main

    try:
        exec(before, {})
        main()
    except SystemExit as ended:
        if ended.code:
            with open(err + TRACE, "w") as file:
                traceback.print_exception(ended, file=file)
        raise
    finally:
        atexit._run_exitfuncs()


class Forked:
    """What ``subprocess.Popen`` is to a process that was started; it leads a session of its own.

    Args:
      words: of the command, without its name. folder: its working folder, absolute.
      environment: all of it. out, err: files for its output, emptied first. before: code to run
        first.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        out: Path,
        err: Path,
        before: str = "",
    ) -> None:
        for path in (out, err):
            path.write_bytes(b"")
        arguments = (list(words), str(folder), dict(environment), str(out), str(err), before)
        self._process = _FORKS.Process(target=_weir, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit code, or None while it runs; of a signal it is the negative number."""
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        """As ``poll``."""
        return self.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("weir", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal to it, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9 of it and of what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.send_signal(signal.SIGKILL)  # where its group is not its own yet
        self.wait()
