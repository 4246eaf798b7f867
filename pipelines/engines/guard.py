"""Kills what a process started when that process dies, even by SIGKILL.

The guard is a process of its own with one end of a pipe. It is told which process groups live; when
the pipe closes, because its owner ended in whatever way, it kills those that are left. A signal on
the parent's death (Linux's PDEATHSIG) would not do: it follows the thread that started the child,
reaches no grandchildren, and is not to be had on every system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

_PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    sign, group = line[0], int(line[1:])
    groups.add(group) if sign == "+" else groups.discard(group)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class ProcessGuard:
    """Owner's side of the pipe; started with the first group."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def watch(self, group: int) -> None:
        """From here on the group dies with this process."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group has ended: its number may be given to others."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM],
                    stdin=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
                self._owner = os.getpid()
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except BrokenPipeError:  # somebody killed the guard: the next one is told anew
                self._process = None


GUARD = ProcessGuard()
